"""Standard output: drawn for people, written in any encoding, and lost with one clear line."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from .errors import EttError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

READER_GONE: Final = 141
"""Exit status of a program that SIGPIPE ended, as shells know it."""

_ASCII: Final = {
    **dict.fromkeys("█▉▊▋▌", "#"),
    **dict.fromkeys("▍▎▏…", "."),
    **dict.fromkeys("─━·", "-"),
    "⋮": ":",
}
_PLAINLY: Final = "ett_hookspecs.plainly"


class ReaderGone(EttError):
    """Nobody reads our output any more, as after ``| head``."""

    def __init__(self) -> None:
        super().__init__("the reader of the output went away", exit_code=READER_GONE)


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """Let everything that is printed meanwhile take any text, and tell clearly when it cannot be written.

    What the encoding of standard output lacks is written in ASCII.

    Raises:
        ReaderGone: From whoever prints, when nobody reads.
        EttError: From whoever prints, when the disk is full or the like.
    """
    before = sys.stdout
    # There is none where the shell closed it.
    with contextlib.nullcontext(before) if before else Path(os.devnull).open("w", encoding="utf-8") as stream:
        output = _Output(stream)
        sys.stdout = cast("TextIO", output)
        try:
            yield
        finally:
            sys.stdout = before
            if output.failed:
                _drop_the_rest(stream)


def draw(drawing: RenderableType, console: Console | None = None) -> None:
    """Print something that rich draws, without blanks at the ends of lines.

    Args:
        drawing: What to print.
        console: Where; standard output by default.
    """
    from rich.console import Console

    console = console or Console(highlight=False)
    with console.capture() as captured:
        console.print(drawing)
    console.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))
    console.file.flush()


class _Output:
    """A text stream that can be given any text.

    Attributes:
        failed: Something could not be written.
    """

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failed = False

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or self.encoding
        with self._failures_told():
            self._stream.write(text.encode(encoding, _PLAINLY).decode(encoding))
        return len(text)

    def flush(self) -> None:
        with self._failures_told():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failed = True
            if isinstance(error, BrokenPipeError):
                raise ReaderGone from error
            raise EttError(f"the output cannot be written: {error.strerror or error}") from error


def _drop_the_rest(stream: TextIO) -> None:
    """Send it nowhere, so that the interpreter's last flush does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_ASCII.get(character, "?") for character in error.object[error.start : error.end]), error.end


codecs.register_error(_PLAINLY, _plainly)
