"""Turns steps into stretches that say where in the data they were, and so whether that was new.

A step tells the position after it, or nothing. Where no step of the file tells one, positions are counts of steps: the
first attempt begins at 0, and a later one where the last save that ended was begun, if it restored anything. Nothing
else says where it resumed, and then its steps are not counted: their time stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ett_record.accounting import Progress
from ett_record.written import NS

_RUN_NS: Final = NS
"""Steps shorter than this share a line."""

PutSteps = Callable[[int, int, int, int, int], None]


@dataclass(slots=True)
class Trained:
    """What the steps of a rank came to.

    Attributes:
        high_water: Highest position reached, earlier attempts included.
        position: Position after the last one.
        steps_new: Steps on new data; one across the high-water mark is new.
        steps_repeated: Steps on data trained before.
        samples_new: Samples over all ranks, trained first.
        samples_repeated: Samples over all ranks, trained again.
        first_start: Start of the first step; 0 for none, like the others.
        first_end: Its end.
        new_start: Start of the first step on new data.
        new_end: End of the last step on new data.
    """

    high_water: int = 0
    position: int = 0
    steps_new: int = 0
    steps_repeated: int = 0
    samples_new: int = 0
    samples_repeated: int = 0
    first_start: int = 0
    first_end: int = 0
    new_start: int = 0
    new_end: int = 0


class Stretches:
    """Gathers the steps of one rank into lines.

    Args:
        put: Takes a line: start, end, number of steps, position before and after.
        high_water: Position that earlier attempts had reached.
    """

    __slots__ = ("_n", "_old", "_p0", "_p1", "_progress", "_put", "_t0", "_t1", "trained")

    def __init__(self, put: PutSteps, high_water: int) -> None:
        self._put = put
        self._n = self._t0 = self._t1 = self._p0 = self._p1 = 0
        self._old = False
        self._progress = Progress(high_water)
        self.trained = Trained(high_water=high_water)

    def add(self, t0: int, t1: int, n: int, p0: int, p1: int) -> None:
        """Steps have ended.

        Args:
            t0: Where they began, or where they ended if nothing says where they began.
            t1: Where they ended.
            n: How many.
            p0: Position before.
            p1: Position after, not less.
        """
        trained = self.trained
        samples, repeated = self._progress.step(p0, p1)
        old = repeated == samples
        if old:
            trained.steps_repeated += n
        else:
            again = n * repeated // samples
            trained.steps_repeated += again
            trained.steps_new += n - again
            trained.new_start = trained.new_start or t0
            trained.new_end = t1
        if p1 > p0:
            trained.samples_repeated += repeated
            trained.samples_new += samples - repeated
        trained.first_start = trained.first_start or t0
        trained.first_end = trained.first_end or t1
        trained.position = p1
        trained.high_water = self._progress.high_water = max(self._progress.high_water, p1)
        plain = p1 > p0 and (old or not repeated)
        if plain and self._n and self._t1 == t0 and self._p1 == p0 and self._old == old and t1 - self._t0 < _RUN_NS:
            self._t1, self._p1 = t1, p1
            self._n += n
            return
        self.flush()
        self._t0, self._t1, self._n, self._p0, self._p1, self._old = t0, t1, n, p0, p1, old
        if not plain:
            self.flush()

    def flush(self) -> None:
        """Write the line that is open."""
        if self._n:
            self._put(self._t0, self._t1, self._n, self._p0, self._p1)
            self._n = 0
