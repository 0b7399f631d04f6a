"""Data sets, the order they are trained in, and the loader that can say where it is."""
