"""Criteo-format click logs as a stream, in the order of their lines."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ett_reference.batch import Batch, Column, assemble
from ett_reference.errors import ReferenceModelError
from ett_reference.schema import Feature, Schema

from .criteo_files import CATEGORIES, INTEGERS, FileIndex, LineReader, find_criteo, index_file, parse_lines
from .samples import DataSet

ROWS: Final = 100_000
"""Ids that each category is hashed to."""


class ClickLog:
    """Lines of Criteo-format files, as samples; read when they are asked for.

    Args:
        indices: The files, in the order of time.
        first: Number of the first line, over all files.
        count: How many lines.
    """

    def __init__(self, indices: list[FileIndex], *, first: int, count: int) -> None:
        self._readers = [LineReader(index) for index in indices]
        self._starts = np.cumsum([0, *(index.lines for index in indices)]).tolist()
        self._first = first
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        lines = [self._line(index) for index in indices]
        try:
            labels, integers, categories = parse_lines(lines, ROWS)
        except ValueError:
            self._blame(indices, lines)
            raise
        columns = [Column.of_lists(ids) for ids in categories]
        return assemble(columns, integers, labels, np.arange(len(labels)))

    def _line(self, index: int) -> bytes:
        file, number = self._place(index)
        return self._readers[file].read([number])[0]

    def _place(self, index: int) -> tuple[int, int]:
        number = self._first + index
        file = bisect.bisect_right(self._starts, number) - 1
        return file, number - self._starts[file]

    def _blame(self, indices: Sequence[int], lines: Sequence[bytes]) -> None:
        """Say which of some lines cannot be read."""
        for index, line in zip(indices, lines, strict=True):
            try:
                parse_lines([line], ROWS)
            except ValueError as error:
                file, number = self._place(index)
                raise ReferenceModelError(
                    f"{self._readers[file].path}, line {number + 1}: {error}; mend or remove the line, or point "
                    f"--data-dir at files without it"
                ) from None


def criteo(folder: Path | None) -> DataSet:
    """The Criteo-format files of a folder: the last tenth of the lines is held out.

    Every file is read once at the start, to know where its lines are.

    Args:
        folder: A folder of files, or one file.

    Raises:
        ReferenceModelError: There is no such file.
    """
    indices = [index_file(path) for path in find_criteo(folder)]
    lines = sum(index.lines for index in indices)
    trained = max(1, lines * 9 // 10)
    schema = Schema(tuple(Feature(f"c{number + 1}", ROWS) for number in range(CATEGORIES)), dense=INTEGERS)
    return DataSet(
        schema=schema,
        train=ClickLog(indices, first=0, count=trained),
        held_out={"test": ClickLog(indices, first=trained, count=lines - trained)},
        shuffled=False,
        default_samples=trained,
    )
