"""Appends a rank's log, and copes with a disk that does not take it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .files import was_deleted
from .lines import Header, Line, encode
from .state import Totals

KEPT_LINES: Final = 50_000
"""Lines kept in memory while the disk refuses them. Beyond that the log ends here; totals live on in the state file."""

Syscall = Callable[[int, bytes], int]


class LogWriter:
    """An append-only file of JSON lines, written by one thread, fed by many.

    Lines are put from any thread and cost an append to a list. :meth:`flush` writes them. What cannot be written is
    kept and tried again; the file never holds half a line for longer than the failing call.
    """

    def __init__(self, path: Path, header: Header, *, write: Syscall = os.write) -> None:
        """Open the log and write its header.

        Args:
            path: Must not exist.
            header: The first line.
            write: For tests: what to call instead of ``os.write``.

        Raises:
            OSError: The file cannot be made or the header not be written.
        """
        self._queue: deque[Line | Totals] = deque()
        self._write = write
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._header = encode(header)
        self._length = 0
        self._given_up = False
        try:
            self._append(self._header)
        except OSError:
            os.close(self._descriptor)
            path.unlink(missing_ok=True)
            raise

    def put(self, item: Line | Totals) -> None:
        """Queue a line, or a mark: all before it explains everything up to these totals."""
        if len(self._queue) < KEPT_LINES:
            self._queue.append(item)
        else:
            # A mark beyond a dropped line would claim that the log explains what it lacks.
            self._given_up = True

    def flush(self, on_mark: Callable[[Totals, int], None]) -> None:
        """Write what is queued, through to the disk.

        Args:
            on_mark: Called with the last mark whose lines are all written, and the log's length there.

        Raises:
            OSError: The disk refuses; what was not written stays queued.
        """
        if self._given_up:
            return
        taken: list[Line | Totals] = []
        while self._queue:
            taken.append(self._queue.popleft())
        if not taken:
            return
        done = 0
        mark: Totals | None = None
        explained = 0
        try:
            pending: list[bytes] = []
            for index, item in enumerate(taken):
                if not isinstance(item, Totals):
                    pending.append(encode(item))
                if isinstance(item, Totals) or index == len(taken) - 1:
                    self._append(b"".join(pending))
                    pending.clear()
                    done = index + 1
                    if isinstance(item, Totals):
                        mark, explained = item, self._length
            os.fdatasync(self._descriptor)
        except OSError:
            self._queue.extendleft(reversed(taken[done:]))
            raise
        finally:
            # After the disk has the lines: a crash of the host must not leave a mark without them.
            if mark is not None:
                on_mark(mark, explained)

    def mend(self) -> bool:
        """Go on in a file that somebody has truncated, as ``cp`` does to what it replaces.

        Returns:
            Whether it was; lines that were written are gone.

        Raises:
            OSError: The disk refuses.
        """
        size = os.fstat(self._descriptor).st_size
        if size and size >= self._length:
            return False
        if os.pread(self._descriptor, len(self._header), 0) != self._header:
            # Without its first line a log cannot be read at all.
            os.ftruncate(self._descriptor, 0)
            self._length = 0
            self._append(self._header)
        else:
            self._length = size
            if os.pread(self._descriptor, 1, size - 1) != b"\n":
                self._append(b"\n")
        return True

    def _append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += self._write(self._descriptor, data[written:])
        except OSError:
            # A full disk takes part of a line; taking it back needs no space.
            os.ftruncate(self._descriptor, self._length)
            raise
        self._length += len(data)

    def disown(self) -> None:
        """Nothing more is written from here: this is a forked child, and the log its parent's."""
        self._given_up = True

    @property
    def was_deleted(self) -> bool:
        """Somebody has removed the file, or put another in its place, while it was written."""
        return was_deleted(self._descriptor)

    @property
    def given_up(self) -> bool:
        """More lines came than could be kept: the log ends, the state file goes on."""
        return self._given_up

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
