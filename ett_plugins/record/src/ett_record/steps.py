"""Stretches of steps by column: a job may hold a million of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from ett_hookspecs import Stage

from .lines import LARGEST


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

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a line, from its JSON object.

        Raises:
            ValueError: It says what cannot be.
            KeyError: It lacks something.
            TypeError: Something is not a number.
        """
        t0, t1, n, wait, p0, p1 = (
            values["t0"], values["t1"], values["n"], values["wait"], values["p0"], values["p1"],
        )  # fmt: skip
        if not (0 <= t0 <= t1 <= LARGEST and 0 <= wait <= LARGEST and 0 <= n <= LARGEST):
            raise ValueError("it says what cannot be")
        if not (0 <= p0 <= LARGEST and 0 <= p1 <= LARGEST and type(t0 + t1 + n + wait + p0 + p1) is int):
            raise ValueError("it says what cannot be")
        self.t0.append(t0)
        self.t1.append(t1)
        self.n.append(n)
        self.wait.append(wait)
        self.p0.append(p0)
        self.p1.append(p1)
        self.again.append(values.get("stage") == Stage.RETRAINING)

    def __len__(self) -> int:
        return len(self.t0)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int, int, int]]:
        """In the order of the attributes."""
        return zip(self.t0, self.t1, self.n, self.wait, self.p0, self.p1, self.again, strict=True)


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
        self.start.append(start)
        self.end.append(end)
        self.steps.append(steps)
        self.busy.append(busy)
        self.effective.append(effective)

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int]]:
        """In the order of the attributes."""
        return zip(self.start, self.end, self.steps, self.busy, self.effective, strict=True)
