"""What to do when the reader of our output went away, as ``head`` does."""

from __future__ import annotations

import os
import sys
from typing import Final

READER_GONE: Final = 141
"""Exit status of a program that SIGPIPE ended, as shells know it."""


def drop_output() -> None:
    """Send what is still to be printed nowhere, so that the interpreter's last flush does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
