"""Stretches of steps by column: a job may hold a million of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import le
from typing import Any, Final

from ett_hookspecs import Stage

from .lines import LARGEST

_COLUMNS: Final = ("t0", "t1", "n", "wait", "p0", "p1")


class Steps:
    """Stretches of steps as the log has them, see :class:`ett_record.lines.StepsLine`.

    Attributes:
        t0: Where each begins, monotonic nanoseconds of the rank; like the others, a column.
        t1: Where it ends.
        n: How many steps it holds; 0 for time of the loop between steps.
        wait: Nanoseconds of it spent waiting for the loader.
        p0: Sample position before.
        p1: Sample position after.
        again: For ``n == 0``: the step it surrounds was on data trained before.
    """

    __slots__ = ("again", "n", "p0", "p1", "t0", "t1", "wait")

    def __init__(self) -> None:
        self.t0, self.t1, self.n, self.wait, self.p0, self.p1 = (array("q") for _ in range(6))
        self.again = array("b")

    def extend(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add lines, from their JSON objects: all of them, or none.

        Raises:
            ValueError: One says what cannot be.
            KeyError: One lacks something.
            TypeError: Something is not a whole number.
            OverflowError: It is too large for one.
        """
        t0, t1, n, wait, p0, p1 = (array("q", [row[name] for row in rows]) for name in _COLUMNS)
        again = array("b", [row.get("stage") == Stage.RETRAINING for row in rows])
        smallest = min(map(min, (t0, n, wait, p0, p1))) if rows else 0
        largest = max(map(max, (t1, p0, p1))) if rows else 0
        if smallest < 0 or largest > LARGEST or not all(map(le, t0, t1)):
            raise ValueError("it says what cannot be")
        for column, more in zip(self._columns(), (t0, t1, n, wait, p0, p1, again), strict=True):
            column.extend(more)

    def _columns(self) -> tuple[array[int], ...]:
        return self.t0, self.t1, self.n, self.wait, self.p0, self.p1, self.again

    def __len__(self) -> int:
        return len(self.t0)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int, int, int]]:
        """In the order of the attributes."""
        return zip(*self._columns(), strict=True)


class Stretches:
    """What stretches of steps were worth, on the job's axis.

    Attributes:
        start: Nanoseconds; like the others, a column.
        end: Nanoseconds.
        steps: How many.
        busy: Nanoseconds of it spent in steps.
        effective: Nanoseconds of it spent on new data.
    """

    __slots__ = ("busy", "effective", "end", "start", "steps")

    def __init__(self) -> None:
        self.start, self.end, self.steps, self.busy, self.effective = (array("q") for _ in range(5))

    def add(self, start: int, end: int, steps: int, busy: int, effective: int) -> None:
        """Add one."""
        self.extend([start], [end], [steps], [busy], [effective])

    def extend(
        self,
        start: Iterable[int],
        end: Iterable[int],
        steps: Iterable[int],
        busy: Iterable[int],
        effective: Iterable[int],
    ) -> None:
        """Add many, by column."""
        self.start.extend(start)
        self.end.extend(end)
        self.steps.extend(steps)
        self.busy.extend(busy)
        self.effective.extend(effective)

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int]]:
        """In the order of the attributes."""
        return zip(self.start, self.end, self.steps, self.busy, self.effective, strict=True)
