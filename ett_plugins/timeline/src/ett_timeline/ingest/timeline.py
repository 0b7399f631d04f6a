"""From the events of one rank to the lines of its log.

What an event says is known from the moment it says it: ``started`` begins initialization, which ``init_done`` and
``first_batch`` confirm; a step reaches from the step before it, or from ``first_batch``; what ``ended`` ends after a
last step was shutdown. Between two events that do not belong together so, time is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Final

from ett_hookspecs import AttemptEnd, Stage
from ett_record.written import (
    ENDS,
    FAILURE_CLASSES,
    STAGE_COUNT,
    Current,
    EndLine,
    NoteLine,
    OutcomeLine,
    Phase,
    PhaseLine,
    PositionLine,
    RankWriter,
    SpanLine,
    Totals,
)

from .events import NO_POSITION, Kind, RankEvents
from .places import Places
from .problems import Problems, shown
from .stretches import Stretches

PLUGIN: Final = "ett-timeline"
_ALLOCATED, _STARTED, _INIT_DONE, _FIRST_BATCH, _STEP, _STEP_BEGUN, _SPAN_START, _SPAN_END, _FAILED, _ENDED = (
    kind.value for kind in Kind
)
_UNKNOWN: Final = Phase.TRAINING
"""What is in the training loop and no step covers."""
_FAILURE: Final = (AttemptEnd.FAILED, FAILURE_CLASSES[0])
_DEEPEST_NEST: Final = 16
"""Spans of one kind that may be open within one another."""
_NOTHING: Final = (0,) * STAGE_COUNT


@dataclass(slots=True, kw_only=True)
class Before:
    """What the attempts before have come to.

    Attributes:
        high_water: Highest position reached.
        saved: Position of the last save that ended; None if there is none or it is not known.
        lost: An earlier attempt trained nobody knows how far.
        size: How far a step usually goes; 0 if nothing says so yet.
    """

    high_water: int = 0
    saved: int | None = None
    lost: bool = False
    size: int = 0


@dataclass(slots=True, kw_only=True)
class Ending:
    """How a rank's log ends.

    Attributes:
        time: Its last sign of life, on the axis of the events.
        end: How the attempt ended; None if nothing says so.
    """

    time: int
    end: AttemptEnd | None


class _Doing(Enum):
    """What the events so far say of the time since the last one."""

    NOTHING = auto()
    STARTING = auto()
    """Initialization, if a first batch or the end of the initialization follows."""
    STEPPING = auto()
    """A step, if its end follows."""
    STEP_BEGUN = auto()
    """The same where steps are told of when they begin."""
    LEAVING = auto()
    """Shutdown, if the end follows."""


@dataclass(slots=True)
class _Open:
    """A span that has begun."""

    index: int
    steps: int


@dataclass(slots=True)
class RankTimeline:
    """The making of one rank's log.

    Args:
        events: In order.
        spans: Name and stage of each kind of span.
        writer: Takes the lines.
        problems: Gets what does not fit together.
        before: What the attempts before have come to.
        counted: Positions are counts of steps.
        at: Position the attempt begins at; None if nothing says so.
        start: Where the log begins.

    Attributes:
        saves: End and position of each save that ended; the position is None where it is not known.
    """

    events: RankEvents
    spans: Sequence[tuple[str, Stage]]
    writer: RankWriter
    problems: Problems
    before: Before
    counted: bool
    at: int | None
    start: int
    saves: list[tuple[int, int | None]] = field(default_factory=list)
    _phase: Phase = Phase.INITIALIZATION
    _doing: _Doing = _Doing.NOTHING
    _since: int = 0
    _steps: int = 0
    _last_count: int = 0
    _open: dict[int, list[_Open]] = field(default_factory=dict)
    _saved_at: int | None = None
    _stretches: Stretches = field(init=False)
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.start
        self._stretches = Stretches(self.writer.put_steps, self.before.high_water)
        self._places = Places(
            self.events, self._stretches, self.problems, counted=self.counted, at=self.at, size=self.before.size,
            moved=lambda t, p: self.writer.put(PositionLine(t=t, p=p)),
        )  # fmt: skip

    def write(self, ending: Ending, notes: Sequence[str] = ()) -> None:
        """Write the log and the state file."""
        for index, (time, _, kind, _, position) in enumerate(self.events):
            if kind == _STEP:
                self._step(index, time)
            elif kind == _STEP_BEGUN:
                self._step_begun(time, position)
            elif kind == _SPAN_START:
                self._begin_span(index)
            elif kind == _SPAN_END:
                self._end_span(index)
            else:
                self._boundary(index, time, kind, position)
        self._drop_open_spans()
        self._places.give_up_waiting()
        self._stretches.flush()
        self._finish(ending, notes)

    # What the main thread is about.

    def _boundary(self, index: int, time: int, kind: int, position: int) -> None:
        """Something other than a step or a span."""
        if kind == _ALLOCATED:
            if self._doing is not _Doing.NOTHING or self._steps:
                self._say(index, "comes after the start of its process")
            return
        if kind in (_STARTED, _FAILED, _ENDED):
            self._drop_open_spans()
        if kind == _STARTED:
            if self._doing is not _Doing.NOTHING or self._steps:
                self._say(index, "is a second start of the same attempt; the time before it is unknown")
            self._close(time)
            self._doing = _Doing.STARTING
        elif kind in (_INIT_DONE, _FIRST_BATCH):
            if self._doing in (_Doing.STEPPING, _Doing.STEP_BEGUN, _Doing.LEAVING):
                self._say(index, "comes after the first step; the time before it is unknown")
            self._close(time, Phase.INITIALIZATION)
            self._doing = _Doing.STARTING if kind == _INIT_DONE else _Doing.STEPPING
            if position != NO_POSITION:
                self._places.move_to(position)
        elif kind == _FAILED:
            self._close(time)
            self._doing = _Doing.LEAVING
        else:
            self._close(time, Phase.SHUTDOWN)
            self._doing = _Doing.NOTHING
        self._since = time

    def _close(self, time: int, phase: Phase = _UNKNOWN) -> None:
        """Say what the time up to now was: `phase` if that fits to how it began, else unknown."""
        fits = {Phase.INITIALIZATION: (_Doing.STARTING,), Phase.SHUTDOWN: (_Doing.STEPPING, _Doing.LEAVING)}
        self._enter(self._since, phase if self._doing in fits.get(phase, ()) else _UNKNOWN)
        self._enter(time, _UNKNOWN)

    def _enter(self, time: int, phase: Phase) -> None:
        if phase is not self._phase:
            self.writer.put(PhaseLine(t=time, phase=phase.value))
            self._phase = phase

    def _step(self, index: int, time: int) -> None:
        """A step has ended."""
        self._steps += 1
        if self._doing is _Doing.STEPPING:
            began = self._since
        else:
            self._close(time)
            began = time
        if self._places.step(index, began, time) or self._doing is not _Doing.STEPPING:
            self._since = time
        self._doing = _Doing.STEPPING

    def _step_begun(self, time: int, position: int) -> None:
        """A step begins, and with it the one before has ended, if its number is lower."""
        self._steps += 1
        if self._doing is _Doing.STEP_BEGUN and position > self._last_count:
            self._stretches.add(self._since, time, position - self._last_count, self._last_count, position)
        else:
            self._close(time, Phase.INITIALIZATION)
            self.writer.put(PositionLine(t=time, p=position))
        self._doing = _Doing.STEP_BEGUN
        self._since = time
        self._last_count = position

    # Spans.

    def _begin_span(self, index: int) -> None:
        name = self.events.name[index]
        nest = self._open.setdefault(name, [])
        if len(nest) == _DEEPEST_NEST:
            self._drop(nest.pop(0))
        nest.append(_Open(index, self._steps))
        if self.spans[name][1] is Stage.CHECKPOINT_SAVE:
            self._saved_at = self._places.at

    def _end_span(self, index: int) -> None:
        name = self.events.name[index]
        times = self.events.time
        title, stage = self.spans[name]
        begun = nest.pop() if (nest := self._open.get(name)) else None
        if begun is None:
            self._say(index, f"ends {shown(title)}, which did not begin; the time since the event before is unknown")
            self._put_span(times[max(0, index - 1)], times[index], Stage.UNKNOWN, title)
            return
        if begun.steps != self._steps:
            self._say(begun.index, f"steps end during this {shown(title)}; its time does not count as theirs")
        if any(nest[-1].index > begun.index for nest in self._open.values() if nest):
            self._say(index, f"ends {shown(title)} before what began in it has ended")
        self._put_span(times[begun.index], times[index], stage, title)
        if stage is Stage.CHECKPOINT_SAVE:
            self.saves.append((times[index], self._saved_at))
        elif stage is Stage.CHECKPOINT_RESTORE:
            self._restored(self.events.position[index])

    def _restored(self, position: int) -> None:
        """Training goes on at another position, which the event may tell."""
        if position != NO_POSITION:
            self._places.move_to(position)
        elif self._steps:
            self._places.move_to(self.saves[-1][1] if self.counted and self.saves else None)

    def _drop_open_spans(self) -> None:
        for begun in sorted(chain.from_iterable(self._open.values()), key=lambda begun: begun.index):
            self._drop(begun)
        self._open.clear()

    def _drop(self, begun: _Open) -> None:
        """A span has no end: how long it took is not known."""
        index = begun.index
        title = self.spans[self.events.name[index]][0]
        self._say(index, f"begins {shown(title)}, which does not end; the time until the next event is unknown")
        times = self.events.time
        self._put_span(times[index], times[min(index + 1, len(times) - 1)], Stage.UNKNOWN, title)

    def _put_span(self, start: int, end: int, stage: Stage, title: str) -> None:
        if end > start:
            self.writer.put(SpanLine(t0=start, t1=end, stage=stage.value, name=title, plugin=PLUGIN))

    def _say(self, index: int, text: str) -> None:
        self.problems.add(self.events.line[index], text)

    # The end.

    def _finish(self, ending: Ending, notes: Sequence[str]) -> None:
        time = ending.time
        self._enter(self._since, _UNKNOWN)
        for note in notes:
            self.writer.put(NoteLine(t=time, text=note))
        end, failure_class = (ending.end, None) if ending.end is not AttemptEnd.FAILED else _FAILURE
        if end is None:
            # Without an end in the log, its last line is the last sign of life.
            self.writer.put(PhaseLine(t=time, phase=_UNKNOWN.value))
        else:
            self.writer.put(OutcomeLine(t=time, end=end.value, failure_class=failure_class))
            self.writer.put(EndLine(t=time))
        trained = self._stretches.trained
        totals = Totals(
            time, trained.position, trained.high_water, trained.steps_new, trained.steps_repeated, trained.samples_new,
            trained.samples_repeated, _NOTHING,
        )  # fmt: skip
        self.writer.finish(
            Current(
                totals=totals,
                open_stage=0,
                in_step=0,
                pending=0,
                first_start=trained.first_start,
                first_end=trained.first_end,
                new_start=trained.new_start,
                new_end=trained.new_end,
                ended=int(end is not None),
                outcome=-1 if end is None else ENDS.index(end),
                failure_class=-1 if failure_class is None else FAILURE_CLASSES.index(failure_class),
                log_failing=0,
            )
        )

    @property
    def places(self) -> Places:
        """Where in the data the rank is."""
        return self._places

    @property
    def high_water(self) -> int:
        """Highest position reached, earlier attempts included."""
        return self._stretches.trained.high_water
