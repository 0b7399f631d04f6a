"""What this distribution raises."""

from __future__ import annotations


class EttError(Exception):
    """An error whose text is one line that says what is wrong and what to do.

    The ``ett`` program prints the text and exits with :attr:`exit_code`.

    Attributes:
        exit_code: 1 when the thing asked about is bad, 2 when the question was.
    """

    exit_code: int = 1

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class EttPluginError(EttError):
    """A plugin cannot be loaded, or its answer to a hook could not be had.

    The text names the plugin and its distribution.
    """


def described(error: BaseException) -> str:
    """An exception as part of a line: its type and the first line of its text."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def one_line(error: BaseException) -> str:
    """An exception's whole text as one line."""
    return " ".join(str(error).split())
