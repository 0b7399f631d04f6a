"""Criteo-format files: where their lines begin, and what stands in one; needs no torch."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ett_reference.errors import ReferenceModelError

INTEGERS: Final = 13
CATEGORIES: Final = 26
FIELDS: Final = 1 + INTEGERS + CATEGORIES
EVERY: Final = 4096
"""One line in this many has its place noted."""
SUFFIXES: Final = (".tsv", ".txt")


def find_criteo(folder: Path | None) -> list[Path]:
    """The Criteo-format files of a folder, or the one file given; sorted by name, which is the order of time.

    Raises:
        ReferenceModelError: There is none.
    """
    what = "tab-separated lines of a label, 13 integers and 26 hexadecimal categories"
    if folder is None:
        raise ReferenceModelError(f"Criteo data is not shipped: point --data-dir at a folder of files with {what}")
    files = [folder] if folder.is_file() else []
    if folder.is_dir():
        files = sorted(
            path
            for path in folder.iterdir()
            if path.is_file() and (path.suffix in SUFFIXES or path.name.startswith("day_"))
        )
    for path in files:
        with path.open("rb") as file:
            first = file.readline()
        if first and first.count(b"\t") != FIELDS - 1:
            raise ReferenceModelError(
                f"{path} is not a Criteo-format file: its first line has {first.count(bytes([9])) + 1} fields, not "
                f"{FIELDS}; point --data-dir at uncompressed files with {what}"
            )
    files = [path for path in files if path.stat().st_size]
    if not files:
        raise ReferenceModelError(
            f"{folder} holds no Criteo-format data: looked for *.tsv, *.txt and day_* with {what}; "
            f"point --data-dir at a folder that has them, uncompressed"
        )
    return files


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Where lines are in a file.

    Attributes:
        path: The file.
        lines: How many it has.
        offsets: Byte offset of every :data:`EVERY`-th line, int64.
    """

    path: Path
    lines: int
    offsets: npt.NDArray[np.int64]


def index_file(path: Path) -> FileIndex:
    """Read a file once and note where lines begin."""
    offsets, lines, place = [0], 0, 0
    last = b"\n"
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            ends = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == 10)
            # The line after the n-th end in this chunk has the number lines + n + 1.
            due = np.arange(-(lines + 1) % EVERY, len(ends), EVERY)
            offsets.extend((ends[due] + place + 1).tolist())
            lines += len(ends)
            place += len(chunk)
            last = chunk[-1:]
    if last != b"\n":
        lines += 1
    return FileIndex(path, lines, np.array(offsets, dtype=np.int64))


class LineReader:
    """Reads lines by number; the next ones after the last are found without seeking.

    Args:
        index: Of the file.

    *Runs on* the process that uses it first: the file is opened there.
    """

    def __init__(self, index: FileIndex) -> None:
        self._index = index
        self._next = 0
        self._lines: Iterator[bytes] | None = None
        self._process: int | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._index.path

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Lines in the order of their numbers, which must not be negative."""
        return [self._line(number) for number in numbers]

    def _line(self, number: int) -> bytes:
        # A file that a process inherits is read by its parent too: each opens its own.
        behind = self._process != os.getpid() or number < self._next
        if behind or number - self._next > EVERY:
            file = self._index.path.open("rb")
            block = number // EVERY
            file.seek(int(self._index.offsets[block]))
            self._lines, self._next, self._process = file, block * EVERY, os.getpid()
        assert self._lines is not None
        while True:
            line = next(self._lines)
            self._next += 1
            if self._next > number:
                return line

    def __getstate__(self) -> dict[str, object]:
        """An open file stays where it is; another process opens its own."""
        return {"_index": self._index, "_next": 0, "_lines": None, "_process": None}


def parse_lines(
    lines: Sequence[bytes], rows: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], list[list[list[int]]]]:
    """What stands in some lines.

    Args:
        lines: Each a label, 13 integers and 26 categories; an empty field is missing.
        rows: Categories are hashed to numbers below this.

    Returns:
        Labels, float32, shape (lines,). Integers, float32, shape (lines, 13), as ``sign(x) log(1 + |x|)``, 0 where
        missing. For each of the 26 categories and each line its hashed ids: one, or none where it is missing.

    Raises:
        ValueError: A line is of another format.
    """
    labels: list[float] = []
    integers: list[list[float]] = []
    categories: list[list[list[int]]] = [[] for _ in range(CATEGORIES)]
    for line in lines:
        fields = line.rstrip(b"\r\n").split(b"\t")
        if len(fields) != FIELDS:
            raise ValueError(f"a line of {len(fields)} fields, not {FIELDS}: {line[:60]!r}")
        labels.append(float(fields[0]))
        integers.append([float(field) if field else 0.0 for field in fields[1 : 1 + INTEGERS]])
        for position, field in enumerate(fields[1 + INTEGERS :]):
            # crc32 mixes well enough, costs little, and is the same on every machine, as Python's hash is not.
            categories[position].append([zlib.crc32(field) % rows] if field else [])
    numbers = np.array(integers, dtype=np.float32).reshape(-1, INTEGERS)
    return np.array(labels, dtype=np.float32), np.sign(numbers) * np.log1p(np.abs(numbers)), categories
