"""Records one rank of one attempt, as it happens.

Every nanosecond of the main thread is charged to what is open: the innermost span, else the step, else the phase. The
totals go to the memory-mapped state at every transition; what explains them goes to the log about once a second,
written by a thread of its own. The accounting of a finished log is not this one but :mod:`ett_record.accounting`, which
also knows what was reported late.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ett_hookspecs import AttemptEnd, Span, Stage

from .clock import NS, ClockAnchor
from .lines import (
    EndLine,
    NoteLine,
    OutcomeLine,
    Phase,
    PhaseLine,
    PositionLine,
    SpanLine,
    StepsLine,
)
from .state import AFTER_FIT, ENDS, FAILURE_CLASSES, STAGE_COUNT, STAGES, StateFile, Totals
from .writer import LogWriter

log = logging.getLogger(__name__)

_CODE: Final[Mapping[str, int]] = {stage.value: code for code, stage in enumerate(STAGES)}
_INPUT_WAIT: Final = _CODE[Stage.INPUT_WAIT]
_TRAINING: Final = _CODE[Stage.TRAINING]
_RETRAINING: Final = _CODE[Stage.RETRAINING]
_SHUTDOWN: Final = _CODE[Stage.SHUTDOWN]
_PHASE_CODE: Final[Mapping[Phase, int]] = {
    Phase.INITIALIZATION: _CODE[Stage.INITIALIZATION],
    Phase.SHUTDOWN: _SHUTDOWN,
    Phase.AFTER_FIT: AFTER_FIT,
}
_RUN_NS: Final = NS
"""A stretch of steps is logged when it is this long."""
_BEAT_S: Final = 1.0
_JUMP_NS: Final = NS


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


class Recorder:
    """One rank's record of one attempt.

    The methods that say what the training thread does are called by that thread, in the order things happen. A
    compilation that autograd runs on a thread of its own counts as that thread's while the main thread waits in
    ``backward``. :meth:`record` may be called from anywhere.

    Args:
        writer: The log, header written.
        state: The memory-mapped state.
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
        self._anchor = anchor
        self._clock = clock
        self._on_beat = on_beat

        self._last = self._process_start = process_start_ns
        self._totals = [0] * STAGE_COUNT
        self._phase = Phase.INITIALIZATION
        self._spans: list[OpenSpan] = []
        self._in_step = False
        self._pending = 0
        self._step_stage = _TRAINING

        self._position = 0
        self._high_water = high_water
        self._steps_new = self._steps_repeated = 0
        self._samples_new = self._samples_repeated = 0
        self._first_start = self._first_end = self._new_start = self._new_end = 0
        self._batch_start = 0
        self._ended = 0
        self._log_failing = 0
        self._outcome = self._failure_class = -1

        # The interval since the last boundary, and the run of plain ones before it.
        self._boundary = 0
        self._boundary_position = 0
        self._stepped = False
        self._waits: list[tuple[int, int]] = []
        self._nested = False
        self._run_start = 0
        self._run_steps = 0
        self._run_wait = 0
        self._run_position = 0

        self._closed = False
        self._wake = threading.Event()
        self._flushing = threading.Lock()
        self._complained = self._heartbeat_failed = False
        self._jump_ns = 0
        self._thread: threading.Thread | None = None
        self._charge(self._clock())
        self._save()
        if heartbeat:
            self._state.beat(self._clock())
            self._thread = threading.Thread(target=self._beat_forever, name="ett-heartbeat", daemon=True)
            self._thread.start()

    # --- steps: called for every batch, so each line here is paid for every batch ---

    def begin_wait(self) -> None:
        """The training loop asks the loader for a batch."""
        now = self._clock()
        self._charge(now)
        if self._phase is Phase.TRAINING and not self._in_step and not self._spans:
            self._close_interval(now)
        self._spans.append(OpenSpan(Stage.INPUT_WAIT, "loader", "ett-timeline", now, {}))
        self._save()

    def end_wait(self) -> None:
        """The loader has answered."""
        if not self._spans or self._spans[-1].stage is not Stage.INPUT_WAIT:
            return
        now = self._clock()
        self._charge(now)
        start = self._spans.pop().start_ns
        if self._phase is Phase.TRAINING and not self._spans:
            self._waits.append((start, now))
        else:
            self._put_span(start, now, Stage.INPUT_WAIT, "loader", "ett-timeline")

    def begin_step(self) -> None:
        """A batch is about to be trained."""
        now = self._clock()
        self._charge(now)
        if self._phase is not Phase.TRAINING:
            self._enter(Phase.TRAINING, now)
        elif self._stepped:
            # No wait came between: the loader is asked inside the step, or not at all.
            self._close_interval(now)
        self._batch_start = now
        self._in_step = True
        if not self._first_start:
            self._first_start = now
        self._save()

    def end_step(self, position: int) -> None:
        """The batch was trained.

        Args:
            position: The sample position after it.
        """
        if not self._in_step:
            return
        now = self._clock()
        self._charge(now)
        before, high_water = self._position, self._high_water
        samples = max(0, position - before)
        repeated = min(max(high_water - before, 0), samples) if samples else int(before < high_water)
        share = self._pending * repeated // samples if samples else self._pending * repeated
        self._totals[_RETRAINING] += share
        self._totals[_TRAINING] += self._pending - share
        self._pending = 0
        self._in_step = False
        self._position = position
        if samples:
            self._samples_repeated += repeated
            self._samples_new += samples - repeated
        if not self._first_end:
            self._first_end = now
        again = repeated > 0 and repeated >= samples
        stage = _RETRAINING if again else _TRAINING
        if stage != self._step_stage or 0 < repeated < samples:
            # A run holds steps of one kind, and a step across the high-water mark stands alone.
            self._close_run()
            self._nested = self._nested or 0 < repeated < samples
            self._step_stage = stage
        if again:
            self._steps_repeated += 1
        else:
            self._steps_new += 1
            self._new_start = self._new_start or self._batch_start
            self._new_end = now
        self._high_water = max(high_water, position)
        self._stepped = True
        self._save()

    # --- everything else is rare ---

    def open(self, stage: Stage, name: str, plugin: str, **details: Any) -> OpenSpan:
        """Something begins that blocks training until it is closed.

        Returns:
            What to hand to :meth:`close_span`.
        """
        now = self._clock()
        self._charge(now)
        span = OpenSpan(stage, name, plugin, now, details)
        self._spans.append(span)
        self._nested = True
        self._save()
        return span

    def close_span(self, span: OpenSpan) -> Span | None:
        """It is over, and whatever was opened inside it and never closed.

        Returns:
            The span, or None if it was closed before.
        """
        if span not in self._spans:
            return None
        now = self._clock()
        self._charge(now)
        closed = span
        while self._spans:
            closed = self._spans.pop()
            self._put_span(closed.start_ns, now, closed.stage, closed.name, closed.plugin, closed.owner, closed.details)
            if closed is span:
                break
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
        """
        now = self._clock()
        # Whoever reads another clock may not move the ends of the attempt.
        start = min(max(span.start_ns, self._process_start), now)
        end = min(max(span.end_ns, start), now)
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
        self._charge(now)
        self._nested = True
        self._move(end - start, _CODE[span.stage])
        self._mark_if_explained(now)
        self._save()

    def move_to(self, position: int) -> None:
        """The sample position was set: a checkpoint was loaded, or training begins at zero."""
        if position == self._position:
            return
        now = self._clock()
        self._charge(now)
        if self._phase is Phase.TRAINING and not self._in_step:
            # What was trained until now was trained before the jump.
            self._close_interval(now)
            self._nested = bool(self._spans)
        self._close_run()
        self._position = self._boundary_position = self._run_position = position
        self._writer.put(PositionLine(t=now, p=position))
        self._save()

    def begin_fit(self) -> None:
        """A fit, validate, test or predict is being set up."""
        if self._phase is Phase.SHUTDOWN:
            now = self._clock()
            self._charge(now)
            self._enter(Phase.INITIALIZATION, now)

    def end_training(self) -> None:
        """The training loop is over; tear-down begins."""
        if self._phase is Phase.TRAINING:
            now = self._clock()
            self._charge(now)
            self._enter(Phase.SHUTDOWN, now)

    def end_fit(self, outcome: OutcomeLine) -> None:
        """A fit, validate, test or predict has been torn down, or has raised."""
        now = self._clock()
        self._charge(now)
        for span in reversed(self._spans):
            self._put_span(span.start_ns, now, span.stage, span.name, span.plugin, span.owner, span.details)
        self._spans.clear()
        self._outcome = ENDS.index(AttemptEnd(outcome.end))
        self._failure_class = FAILURE_CLASSES.index(outcome.failure_class) if outcome.failure_class else -1
        self._writer.put(outcome)
        self._enter(Phase.SHUTDOWN if outcome.error is not None else Phase.AFTER_FIT, now)

    def outcome(self, end: str, failure_class: str | None = None, error: str | None = None) -> OutcomeLine:
        """An outcome as of now."""
        return OutcomeLine(t=self._clock(), end=end, failure_class=failure_class, error=error)

    def note(self, text: str) -> None:
        """Something the report should warn about."""
        self._writer.put(NoteLine(t=self._clock(), text=text))

    def finish(self) -> None:
        """The process ends. Nothing is recorded afterwards."""
        if self._closed:
            return
        self._closed = True
        now = self._clock()
        self._charge(now)
        for span in reversed(self._spans):
            self._put_span(span.start_ns, now, span.stage, span.name, span.plugin, span.owner, span.details)
        self._spans.clear()
        if self._phase is Phase.TRAINING:
            self._enter(Phase.SHUTDOWN, now)
        self._writer.put(EndLine(t=now))
        self._ended = 1
        self._save()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5 * _BEAT_S)
        self.flush()
        self._state.beat(self._clock())

    def flush(self) -> None:
        """Write what is queued now, from this thread."""
        if not self._flushing.acquire(timeout=5 * _BEAT_S):
            return
        try:
            try:
                self._writer.flush(self._state.write_mark)
                self._state.sync()
                self._log_failing = int(self._writer.given_up)
            except OSError as error:
                self._log_failing = 1
                if not self._complained:
                    self._complained = True
                    log.warning(
                        "the timeline cannot be written (%s): training goes on, and the report will say what is "
                        "missing; free some space on the disk of the job directory",
                        error,
                    )
                    self.note(f"the log could not be written for a while: {error}")
        finally:
            self._flushing.release()

    @property
    def position(self) -> int:
        """The sample position after the last step, or as it was set."""
        return self._position

    @property
    def finished_a_fit(self) -> bool:
        """Whether the last fit of this process ended well."""
        return self._outcome == ENDS.index(AttemptEnd.FINISHED)

    @property
    def totals(self) -> Mapping[str, int]:
        """Nanoseconds by stage up to the last transition, for a live view."""
        totals = {stage.value: self._totals[code] for code, stage in enumerate(STAGES)}
        totals[Stage.SHUTDOWN.value] += self._totals[AFTER_FIT]
        return totals

    # --- how it is done ---

    def _charge(self, now: int) -> None:
        """Give the time since the last transition to what was open."""
        elapsed = now - self._last
        self._last = now
        if self._spans:
            self._totals[_CODE[self._spans[-1].stage]] += elapsed
        elif self._phase is not Phase.TRAINING:
            self._totals[_PHASE_CODE[self._phase]] += elapsed
        elif self._in_step:
            self._pending += elapsed
        else:
            self._totals[self._step_stage] += elapsed

    def _move(self, elapsed: int, stage: int) -> None:
        """Give time that was charged to what is open now to another stage; at most what is there."""
        if self._in_step and not self._spans:
            moved = min(elapsed, self._pending)
            self._pending -= moved
        else:
            source = self._open_stage()
            moved = min(elapsed, self._totals[source])
            self._totals[source] -= moved
        self._totals[stage] += moved

    def _open_stage(self) -> int:
        if self._spans:
            return _CODE[self._spans[-1].stage]
        if self._phase is Phase.TRAINING:
            return self._step_stage
        return _PHASE_CODE[self._phase]

    def _enter(self, phase: Phase, now: int) -> None:
        """Change the phase; all before `now` is charged."""
        start = now
        if self._phase is Phase.TRAINING:
            if self._in_step:
                # Cut short by an exception: training ended with the batch before.
                self._totals[_SHUTDOWN] += self._pending
                self._pending = 0
                self._in_step = False
                start = self._batch_start
            self._close_interval(start)
            self._close_run()
        if phase is Phase.TRAINING:
            self._totals[_CODE[Stage.INITIALIZATION]] += self._totals[AFTER_FIT]
            self._totals[AFTER_FIT] = 0
            self._boundary = self._run_start = now
            self._boundary_position = self._run_position = self._position
            self._run_steps = self._run_wait = 0
            self._stepped = self._nested = False
            self._waits.clear()
        self._phase = phase
        self._writer.put(PhaseLine(t=start, phase=phase.value))
        self._mark_if_explained(now)
        self._save()
        self._wake.set()

    def _close_interval(self, now: int) -> None:
        """The loop has come around: add the interval since the last boundary to the run, or log it by itself."""
        if self._nested:
            self._close_run()
            for start, end in self._waits:
                self._put_span(start, end, Stage.INPUT_WAIT, "loader", "ett-timeline")
            self._put_steps(self._boundary, now, int(self._stepped), 0, self._boundary_position, self._position)
            self._run_start = now
            self._run_position = self._position
        else:
            self._run_wait += sum(end - start for start, end in self._waits)
            self._run_steps += int(self._stepped)
        self._boundary = now
        self._boundary_position = self._position
        self._waits.clear()
        self._stepped = self._nested = False
        if now - self._run_start >= _RUN_NS:
            self._close_run()
        self._mark_if_explained(now)

    def _close_run(self) -> None:
        """Log the run of plain intervals that ends at the last boundary."""
        if self._boundary > self._run_start or self._run_steps:
            self._put_steps(
                self._run_start,
                self._boundary,
                self._run_steps,
                self._run_wait,
                self._run_position,
                self._boundary_position,
            )
        self._run_start = self._boundary
        self._run_position = self._boundary_position
        self._run_steps = self._run_wait = 0

    def _put_steps(self, t0: int, t1: int, n: int, wait: int, p0: int, p1: int) -> None:
        stage = None if n else STAGES[self._step_stage].value
        self._writer.put(StepsLine(t0=t0, t1=t1, n=n, wait=wait, p0=p0, p1=p1, stage=stage))

    def _put_span(
        self,
        t0: int,
        t1: int,
        stage: Stage,
        name: str,
        plugin: str,
        owner: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self._writer.put(
            SpanLine(t0=t0, t1=t1, stage=stage.value, name=name, plugin=plugin, owner=owner, details=details or None)
        )

    def _mark_if_explained(self, now: int) -> None:
        """Put a mark if the lines so far explain everything up to `now`."""
        if self._spans or self._in_step:
            return
        if self._phase is Phase.TRAINING and (self._boundary != now or self._run_start != now):
            return
        self._writer.put(self._snapshot())

    def _snapshot(self) -> Totals:
        return Totals(
            self._last,
            self._position,
            self._high_water,
            self._steps_new,
            self._steps_repeated,
            self._samples_new,
            self._samples_repeated,
            tuple(self._totals),
        )

    def _save(self) -> None:
        self._state.write_current(
            self._last,
            self._position,
            self._high_water,
            self._steps_new,
            self._steps_repeated,
            self._samples_new,
            self._samples_repeated,
            *self._totals,
            self._open_stage(),
            int(self._in_step),
            self._pending,
            self._first_start,
            self._first_end,
            self._new_start,
            self._new_end,
            self._ended,
            self._outcome,
            self._failure_class,
            self._log_failing,
        )

    def _beat_forever(self) -> None:
        beats = 0
        while not self._closed:
            self._wake.wait(_BEAT_S)
            self._wake.clear()
            try:
                self._state.beat(self._clock())
                self._watch_clock()
                self.flush()
                if self._on_beat is not None and beats % 5 == 0:
                    self._on_beat()
            except Exception:
                if not self._heartbeat_failed:
                    self._heartbeat_failed = True
                    log.warning("the timeline's heartbeat failed; training goes on", exc_info=True)
            beats += 1

    def _watch_clock(self) -> None:
        jump = self._anchor.jump_ns()
        if abs(jump - self._jump_ns) > _JUMP_NS:
            self.note(f"the wall clock jumped by {(jump - self._jump_ns) / NS:+.1f} s; durations are not affected")
            self._jump_ns = jump
