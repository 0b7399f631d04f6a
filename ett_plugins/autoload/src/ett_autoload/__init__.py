"""Measures every Trainer of a process in which ``ETT_JOB_DIR`` is set; its code need not know.

Lightning calls :func:`callbacks` for every Trainer of every program in an environment where this is installed. Until it
is clear that there is something to measure, nothing else is imported.
"""

from __future__ import annotations

from .factory import callbacks

__all__ = ["callbacks"]
