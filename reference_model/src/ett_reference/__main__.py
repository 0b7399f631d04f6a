"""``python -m ett_reference``: what the launcher starts on every rank."""

from __future__ import annotations

from .cli import main

main()
