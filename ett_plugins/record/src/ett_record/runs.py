"""Puts steps into lines: many plain ones into one, and one with anything nested in it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ett_hookspecs import Stage

from .clock import NS
from .lines import Line, SpanLine, StepsLine
from .state import STAGES

RUN_NS: Final = NS
"""A run of plain steps is logged when it is this long."""


class Runs:
    """The training loop, cut where it comes around.

    An *interval* reaches from one boundary to the next: the wait for a batch, its step, and what the loop does after
    it. Plain intervals, in which nothing but a wait was nested, are gathered into a *run*, which becomes one line; any
    other is a line by itself, and its waits are spans.

    Args:
        put: Takes the lines.
    """

    __slots__ = (
        "_boundary", "_boundary_position", "_put", "_run_position", "_run_start", "_run_steps", "_run_wait", "_waits",
        "nested", "stepped",
    )  # fmt: skip

    def __init__(self, put: Callable[[Line], None]) -> None:
        self._put = put
        self.begin(0, 0)

    def begin(self, now: int, position: int) -> None:
        """A training loop begins."""
        self._boundary = self._run_start = now
        self._boundary_position = self._run_position = position
        self._run_steps = self._run_wait = 0
        self._waits: list[tuple[int, int]] = []
        self.stepped = False
        """A step has ended in the open interval."""
        self.nested = False
        """Something was nested in the open interval."""

    def add_wait(self, start: int, end: int) -> None:
        """The loop waited for the loader in the open interval."""
        self._waits.append((start, end))

    def close_interval(self, now: int, position: int, stage: int) -> None:
        """The loop has come around.

        Args:
            now: The boundary, monotonic nanoseconds.
            position: The sample position there.
            stage: Code of the last step's stage.
        """
        if self.nested:
            self.close_run(stage)
            for start, end in self._waits:
                self._put(
                    SpanLine(t0=start, t1=end, stage=Stage.INPUT_WAIT.value, name="loader", plugin="ett-timeline")
                )
            self._put_steps(self._boundary, now, int(self.stepped), 0, self._boundary_position, position, stage)
            self._run_start = now
            self._run_position = position
        else:
            for start, end in self._waits:
                self._run_wait += end - start
            self._run_steps += self.stepped
        self._boundary = now
        self._boundary_position = position
        self._waits.clear()
        self.stepped = self.nested = False
        if now - self._run_start >= RUN_NS:
            self.close_run(stage)

    def close_run(self, stage: int) -> None:
        """Log the run of plain intervals that ends at the last boundary."""
        if self._boundary > self._run_start or self._run_steps:
            self._put_steps(
                self._run_start, self._boundary, self._run_steps, self._run_wait, self._run_position,
                self._boundary_position, stage,
            )  # fmt: skip
        self._run_start = self._boundary
        self._run_position = self._boundary_position
        self._run_steps = self._run_wait = 0

    def jump(self, position: int, stage: int) -> None:
        """The sample position is another from here on."""
        self.close_run(stage)
        self._boundary_position = self._run_position = position

    def explains(self, now: int) -> bool:
        """Whether the lines so far explain the loop up to `now`."""
        return self._boundary == now == self._run_start

    def _put_steps(self, t0: int, t1: int, n: int, wait: int, p0: int, p1: int, stage: int) -> None:
        around = None if n else STAGES[stage].value
        self._put(StepsLine(t0=t0, t1=t1, n=n, wait=wait, p0=p0, p1=p1, stage=around))
