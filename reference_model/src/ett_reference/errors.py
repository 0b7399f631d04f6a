"""The one error whose text is for the person who gave the command."""

from __future__ import annotations


class ReferenceModelError(Exception):
    """Something that was asked for cannot be done; the text says what is wrong and what to do, in one line."""
