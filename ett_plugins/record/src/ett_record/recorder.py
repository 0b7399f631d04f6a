"""Records one rank of one attempt, as it happens.

The running account (:mod:`ett_record.ledger`) goes to the state file at the end of every step and at every rarer
transition; a wait and the start of a step go there with the heartbeat's next stamp. The lines that explain it go to the
log about once a second, written by a thread of its own (:mod:`ett_record.heartbeat`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from operator import index
from typing import Any

from ett_hookspecs import AttemptEnd, Span, Stage

from .clock import ClockAnchor
from .heartbeat import Heartbeat
from .ledger import Ledger, OpenSpan
from .lines import LARGEST, EndLine, NoteLine, OutcomeLine, Phase, PhaseLine, PositionLine, SpanLine
from .runs import Runs
from .state import ENDS, FAILURE_CLASSES, StateFile
from .writer import LogWriter

log = logging.getLogger(__name__)


class Recorder:
    """One rank's record of one attempt.

    The methods that say what the training thread does are called by that thread, in the order things happen. A
    compilation that autograd runs on a thread of its own counts as that thread's while the main thread waits in
    ``backward``. :meth:`record` may be called from anywhere.

    Args:
        writer: The log, header written.
        state: The state file.
        anchor: The clocks, as the header has them.
        process_start_ns: Process start, monotonic.
        high_water: Position earlier attempts had reached.
        on_beat: Called every few seconds from the heartbeat thread.
        clock: For tests: what to read instead of ``time.monotonic_ns``.
        heartbeat: For tests: False starts no thread.
    """

    def __init__(
        self,
        writer: LogWriter,
        state: StateFile,
        anchor: ClockAnchor,
        *,
        process_start_ns: int,
        high_water: int = 0,
        on_beat: Callable[[], None] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        heartbeat: bool = True,
    ) -> None:
        self._writer = writer
        self._state = state
        self._clock = clock
        self._process_start = process_start_ns
        self._ledger = Ledger(process_start_ns, high_water)
        self._runs = Runs(writer.put)
        self._heartbeat = Heartbeat(writer, state, anchor, clock, on_beat)
        self._outcome = self._failure_class = -1
        self._ended = False
        self._now()
        self._save()
        if heartbeat:
            self._heartbeat.start()

    # Paid for every batch.

    def begin_wait(self) -> None:
        """The training loop asks the loader for a batch."""
        now = self._now()
        if self._ledger.between_steps:
            self._close_interval(now)
        self._ledger.spans.append(OpenSpan(Stage.INPUT_WAIT, "loader", "ett-timeline", now, {}))
        self._state.hold(self._values())

    def end_wait(self) -> None:
        """The loader has answered."""
        spans = self._ledger.spans
        if not spans or spans[-1].stage is not Stage.INPUT_WAIT:
            return
        now = self._now()
        wait = spans.pop()
        in_loop = self._ledger.phase is Phase.TRAINING and not spans
        if in_loop:
            self._runs.add_wait(wait.start_ns, now)
        else:
            self._put_span(wait, now)
        # What other callbacks do with the batch before it is trained belongs to its step.
        self._state.hold(self._values(step_is_next=in_loop))

    def begin_step(self) -> None:
        """A batch is about to be trained."""
        now = self._now()
        if self._ledger.phase is not Phase.TRAINING:
            self._enter(Phase.TRAINING, now)
        elif self._runs.stepped:
            # No wait came between: the loader is asked inside the step, or not at all.
            self._close_interval(now)
        self._ledger.begin_step()
        self._state.hold(self._values())

    def end_step(self, position: int) -> None:
        """The batch was trained.

        Args:
            position: The sample position after it. Here and in :meth:`move_to`, one that cannot be stored is the
                nearest that can.

        Raises:
            TypeError: It is no whole number.
        """
        ledger = self._ledger
        if not ledger.in_step:
            return
        position = _storable(position)
        self._now()
        stage_before = ledger.step_stage
        samples, repeated = ledger.end_step(position)
        crossing = 0 < repeated < samples
        if crossing or ledger.step_stage != stage_before:
            # A run holds steps of one kind, and a step across the high-water mark stands alone.
            self._runs.close_run(stage_before)
            self._runs.nested = self._runs.nested or crossing
        self._runs.stepped = True
        self._save()

    # Everything else is rare.

    def open(self, stage: Stage, name: str, plugin: str, **details: Any) -> OpenSpan:
        """Something begins that blocks training until it is closed.

        Returns:
            What to hand to :meth:`close_span`.

        Raises:
            ValueError: There is no such stage.
        """
        span = OpenSpan(Stage(stage), name, plugin, self._now(), details)
        self._ledger.spans.append(span)
        self._runs.nested = True
        self._save()
        return span

    def close_span(self, span: OpenSpan) -> Span | None:
        """It is over, and whatever was opened inside it and never closed.

        Returns:
            The span, or None if it was closed before.
        """
        if span not in self._ledger.spans:
            return None
        now = self._now()
        self._close_spans(now, down_to=span)
        self._mark_if_explained(now)
        self._save()
        return Span(
            name=span.name,
            stage=span.stage,
            start_ns=span.start_ns,
            end_ns=now,
            plugin=span.plugin,
            owner=span.owner,
            details=span.details,
        )

    def record(self, span: Span, *, blocked: bool) -> None:
        """Somebody measured a span and tells of it afterwards.

        Args:
            span: From this process.
            blocked: Whether the training thread could do nothing else meanwhile; if not it is background.

        Raises:
            OverflowError, TypeError, ValueError: Its times are none.
        """
        now = self._clock()
        # Whoever reads another clock may not move the ends of the attempt.
        start = min(max(int(span.start_ns), self._process_start), now)
        end = min(max(int(span.end_ns), start), now)
        self._writer.put(
            SpanLine(
                t0=start,
                t1=end,
                stage=span.stage.value,
                name=span.name,
                plugin=span.plugin,
                owner=span.owner,
                bg=not blocked,
                details=dict(span.details) or None,
            )
        )
        if not blocked:
            return
        self._ledger.charge(now)
        self._ledger.move(end - start, span.stage)
        self._runs.nested = True
        self._mark_if_explained(now)
        self._save()

    def move_to(self, position: int) -> None:
        """The sample position was set: a checkpoint was loaded, or training begins at zero."""
        ledger = self._ledger
        position = _storable(position)
        if position == ledger.position:
            return
        now = self._now()
        if ledger.phase is Phase.TRAINING and not ledger.in_step:
            # What was trained until now was trained before the jump.
            self._close_interval(now)
            self._runs.nested = bool(ledger.spans)
        self._runs.jump(position, ledger.step_stage)
        ledger.position = position
        self._writer.put(PositionLine(t=now, p=position))
        self._save()

    def begin_fit(self) -> None:
        """A fit, validate, test or predict is being set up."""
        if self._ledger.phase is Phase.SHUTDOWN:
            self._enter(Phase.INITIALIZATION, self._now())

    def end_training(self) -> None:
        """The training loop is over; tear-down begins."""
        if self._ledger.phase is Phase.TRAINING:
            self._enter(Phase.SHUTDOWN, self._now())

    def end_fit(self, outcome: OutcomeLine) -> None:
        """A fit, validate, test or predict has been torn down, or has raised.

        Spans and a step that are still open end here.
        """
        self._outcome = ENDS.index(AttemptEnd(outcome.end))
        self._failure_class = FAILURE_CLASSES.index(outcome.failure_class) if outcome.failure_class else -1
        self._writer.put(outcome)
        now = self._now()
        self._close_spans(now)
        self._enter(Phase.SHUTDOWN if outcome.error is not None else Phase.AFTER_FIT, now)

    def outcome(self, end: str, failure_class: str | None = None, error: str | None = None) -> OutcomeLine:
        """An outcome as of now."""
        return OutcomeLine(t=self._clock(), end=end, failure_class=failure_class, error=error)

    def note(self, text: str) -> None:
        """Something the report should warn about."""
        self._writer.put(NoteLine(t=self._clock(), text=text))

    def flush(self) -> None:
        """Write what is queued now, from this thread."""
        self._heartbeat.flush()

    def finish(self) -> None:
        """The process ends. Nothing is recorded afterwards.

        Never raises, and puts the end on record whatever else fails: a job that left without one counts as killed.
        """
        if self._ended:
            return
        for part in (self._close_everything, self._put_end, self._heartbeat.stop):
            try:
                part()
            except Exception:
                log.warning("the end of the timeline is incomplete", exc_info=True)

    def _close_everything(self) -> None:
        now = self._now()
        self._close_spans(now)
        if self._ledger.phase is Phase.TRAINING:
            self._enter(Phase.SHUTDOWN, now)

    def _put_end(self) -> None:
        self._ended = True
        self._writer.put(EndLine(t=self._clock()))
        self._save()

    def disown(self) -> None:
        """This is a forked child, and the record its parent's: whatever is told from here on reaches no file."""
        self._ended = True
        self._state = StateFile.nowhere()
        self._heartbeat.disown()

    @property
    def position(self) -> int:
        """The sample position after the last step, or as it was set."""
        return self._ledger.position

    @property
    def finished_a_fit(self) -> bool:
        """Whether the last fit of this process ended well."""
        return self._outcome == ENDS.index(AttemptEnd.FINISHED)

    @property
    def totals(self) -> Mapping[str, int]:
        """Nanoseconds by stage up to the last transition, for a live view."""
        return self._ledger.by_stage()

    def _now(self) -> int:
        """The time, with everything before it charged."""
        now = self._clock()
        self._ledger.charge(now)
        return now

    def _enter(self, phase: Phase, now: int) -> None:
        """Change the phase; all before `now` is charged."""
        ledger = self._ledger
        start = now
        if ledger.phase is Phase.TRAINING:
            if ledger.in_step:
                ledger.cut_step_short()
                start = ledger.step_start
            self._close_interval(start)
            self._runs.close_run(ledger.step_stage)
        if phase is Phase.TRAINING:
            self._runs.begin(now, ledger.position)
        ledger.enter(phase)
        self._writer.put(PhaseLine(t=start, phase=phase.value))
        self._mark_if_explained(now)
        self._save()
        self._heartbeat.wake()

    def _close_interval(self, now: int) -> None:
        self._runs.close_interval(now, self._ledger.position, self._ledger.step_stage)
        self._mark_if_explained(now)

    def _close_spans(self, now: int, down_to: OpenSpan | None = None) -> None:
        """Close open spans from the innermost on, down to one of them or all."""
        spans = self._ledger.spans
        while spans:
            span = spans.pop()
            self._put_span(span, now)
            if span is down_to:
                break

    def _put_span(self, span: OpenSpan, end: int) -> None:
        self._writer.put(
            SpanLine(
                t0=span.start_ns,
                t1=end,
                stage=span.stage.value,
                name=span.name,
                plugin=span.plugin,
                owner=span.owner,
                details=span.details or None,
            )
        )

    def _mark_if_explained(self, now: int) -> None:
        """Put a mark if the lines so far explain everything up to `now`."""
        ledger = self._ledger
        if ledger.spans or ledger.in_step or (ledger.phase is Phase.TRAINING and not self._runs.explains(now)):
            return
        self._writer.put(ledger.snapshot())

    def _save(self) -> None:
        self._state.write_current(self._values())

    def _values(self, *, step_is_next: bool = False) -> tuple[int, ...]:
        return (
            *self._ledger.values(step_is_next=step_is_next), self._ended, self._outcome, self._failure_class,
            self._heartbeat.log_failing,
        )  # fmt: skip


def _storable(position: int) -> int:
    return min(max(index(position), 0), LARGEST)
