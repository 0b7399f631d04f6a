"""The running account of one rank: every nanosecond of the training thread, charged to what was open.

That is the innermost span, else the step, else the phase. It is exact for what is said in the order it happens; what is
reported late is put right when the finished log goes through :mod:`ett_record.accounting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ett_hookspecs import Stage

from .accounting import Progress
from .lines import LARGEST, Phase
from .state import AFTER_FIT, STAGE_COUNT, STAGES, Totals

CODE: Final[Mapping[Stage, int]] = {stage: code for code, stage in enumerate(STAGES)}
"""Index of each stage in the totals."""

_INITIALIZATION: Final = CODE[Stage.INITIALIZATION]
_TRAINING: Final = CODE[Stage.TRAINING]
_RETRAINING: Final = CODE[Stage.RETRAINING]
_SHUTDOWN: Final = CODE[Stage.SHUTDOWN]
_PHASE_CODE: Final[Mapping[Phase, int]] = {
    Phase.INITIALIZATION: _INITIALIZATION,
    Phase.SHUTDOWN: _SHUTDOWN,
    Phase.AFTER_FIT: AFTER_FIT,
}


class OpenSpan:
    """A blocking span that has begun on the thread that trains."""

    __slots__ = ("details", "name", "owner", "plugin", "stage", "start_ns")

    def __init__(self, stage: Stage, name: str, plugin: str, start_ns: int, details: dict[str, Any]) -> None:
        self.stage = stage
        self.name = name
        self.plugin = plugin
        self.owner: str | None = None
        self.start_ns = start_ns
        self.details = details


class Ledger:
    """Time by stage, and steps and samples by whether they were trained before.

    A step counts when it ends: until then its time is `pending`.

    Args:
        process_start: Where the account begins, monotonic nanoseconds.
        high_water: Position earlier attempts had reached.

    Attributes:
        last: Everything before is charged.
        totals: Nanoseconds by :data:`~ett_record.state.STAGES`, then after a fit.
        phase: What the thread is about when no span and no step says otherwise.
        spans: Open ones, the innermost last.
        in_step: A step has begun and not ended.
        pending: Nanoseconds of the unfinished step.
        step_stage: Code of the last step's stage; the loop around it has the same.
        step_start: Start of the last step.
        position: Samples over all ranks since the job began.
        progress: What any attempt has reached, this one included.
    """

    __slots__ = (
        "first_end", "first_start", "in_step", "last", "new_end", "new_start", "pending", "phase", "position",
        "progress", "samples_new", "samples_repeated", "spans", "step_stage", "step_start", "steps_new",
        "steps_repeated", "totals",
    )  # fmt: skip

    def __init__(self, process_start: int, high_water: int) -> None:
        self.last = process_start
        self.totals = [0] * STAGE_COUNT
        self.phase = Phase.INITIALIZATION
        self.spans: list[OpenSpan] = []
        self.in_step = False
        self.pending = 0
        self.step_stage = _TRAINING
        self.step_start = 0
        self.position = 0
        self.progress = Progress(high_water)
        self.steps_new = self.steps_repeated = 0
        self.samples_new = self.samples_repeated = 0
        self.first_start = self.first_end = self.new_start = self.new_end = 0

    def charge(self, now: int) -> None:
        """Give the time since the last transition to what was open."""
        elapsed = now - self.last
        self.last = now
        if self.in_step and not self.spans:
            self.pending += elapsed
        else:
            self.totals[self.open_code()] += elapsed

    def open_code(self) -> int:
        """Code of what is open; of the last step's stage where that is a step."""
        if self.spans:
            return CODE[self.spans[-1].stage]
        if self.phase is Phase.TRAINING:
            return self.step_stage
        return _PHASE_CODE[self.phase]

    @property
    def between_steps(self) -> bool:
        """The training loop has come around, and nothing else is going on."""
        return self.phase is Phase.TRAINING and not self.in_step and not self.spans

    def begin_step(self) -> None:
        """A step begins now."""
        self.in_step = True
        self.step_start = self.last
        self.first_start = self.first_start or self.last

    def end_step(self, position: int) -> tuple[int, int]:
        """A step ends now.

        Args:
            position: The sample position after it.

        Returns:
            Its samples over all ranks, and how many of them had been trained before, as
            :meth:`~ett_record.accounting.Progress.step` says.
        """
        samples, repeated = self.progress.step(self.position, position)
        if position > self.position:
            self.samples_repeated = min(self.samples_repeated + repeated, LARGEST)
            self.samples_new = min(self.samples_new + samples - repeated, LARGEST)
        else:
            self.progress.high_water = max(self.progress.high_water, position)
        again = self.pending * repeated // samples
        self.totals[_RETRAINING] += again
        self.totals[_TRAINING] += self.pending - again
        self.pending = 0
        self.in_step = False
        self.position = position
        self.first_end = self.first_end or self.last
        if repeated == samples:
            self.step_stage = _RETRAINING
            self.steps_repeated += 1
        else:
            self.step_stage = _TRAINING
            self.steps_new += 1
            self.new_start = self.new_start or self.step_start
            self.new_end = self.last
        return samples, repeated

    def cut_step_short(self) -> None:
        """An exception ended a step: training ended with the one before, and this one is part of the shutdown."""
        self.totals[_SHUTDOWN] += self.pending
        self.pending = 0
        self.in_step = False

    def move(self, elapsed: int, stage: Stage) -> None:
        """Give time that was charged to what is open now to another stage; at most what is there."""
        if self.in_step and not self.spans:
            moved = min(elapsed, self.pending)
            self.pending -= moved
        else:
            source = self.open_code()
            moved = min(elapsed, self.totals[source])
            self.totals[source] -= moved
        self.totals[CODE[stage]] += moved

    def enter(self, phase: Phase) -> None:
        """Change the phase now."""
        if phase is Phase.TRAINING:
            # Another fit followed: what lay between was its initialization.
            self.totals[_INITIALIZATION] += self.totals[AFTER_FIT]
            self.totals[AFTER_FIT] = 0
        self.phase = phase

    def by_stage(self) -> dict[str, int]:
        """Nanoseconds by stage, up to the last transition."""
        totals = {stage.value: self.totals[code] for code, stage in enumerate(STAGES)}
        totals[Stage.SHUTDOWN.value] += self.totals[AFTER_FIT]
        return totals

    def snapshot(self) -> Totals:
        """The account as of the last transition."""
        return Totals(
            self.last, self.position, self.progress.high_water, self.steps_new, self.steps_repeated,
            self.samples_new, self.samples_repeated, tuple(self.totals),
        )  # fmt: skip

    def values(self, *, step_is_next: bool = False) -> tuple[int, ...]:
        """The numbers of :class:`~ett_record.state.Current` up to `new_end`, in order.

        Args:
            step_is_next: What is open belongs to a step that is about to begin, and counts when that has ended.
        """
        return (
            self.last, self.position, self.progress.high_water, self.steps_new, self.steps_repeated,
            self.samples_new, self.samples_repeated, *self.totals, self.open_code(), self.in_step or step_is_next,
            self.pending,
            self.first_start, self.first_end, self.new_start, self.new_end,
        )  # fmt: skip
