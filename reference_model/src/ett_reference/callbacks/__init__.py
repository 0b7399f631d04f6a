"""What acts while the model trains; each callback does one thing."""
