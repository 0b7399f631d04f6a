"""From the events of a job to its directory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Final

from ett_hookspecs import AttemptEnd, Stage
from ett_record.written import AXIS_NS, RankWriter, ingested_header, write_identity

from .events import NO_POSITION, Kind, RankEvents
from .problems import Problems
from .rows import EventLog
from .timeline import PLUGIN, Before, Ending, RankTimeline

_STEPS: Final = frozenset({Kind.STEP.value, Kind.STEP_BEGUN.value})
_BEGINNINGS: Final = frozenset({Kind.STARTED.value, Kind.INIT_DONE.value, Kind.FIRST_BATCH.value, *_STEPS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """An attempt that was written.

    Attributes:
        number: From 1.
        ranks: How many ranks have events.
        events: How many.
        start_unix: The first one, Unix seconds.
        end_unix: The last one.
        end: How it ended; None if nothing says so.
    """

    number: int
    ranks: int
    events: int
    start_unix: float
    end_unix: float
    end: str | None


@dataclass
class _Attempt:
    """An attempt's events, in order, and what they say of it as a whole."""

    number: int
    ranks: dict[int, RankEvents]

    @property
    def first(self) -> int:
        return min(events.time[0] for events in self.ranks.values())

    @property
    def last(self) -> int:
        return max(events.time[-1] for events in self.ranks.values())

    @property
    def line(self) -> int:
        """A line to name it by."""
        return min(events.line[0] for events in self.ranks.values())

    def earliest(self, kind: Kind) -> int | None:
        """The first event of a kind, of any rank."""
        return min((t for events in self.ranks.values() if (t := events.first(kind)) is not None), default=None)

    @cached_property
    def seen(self) -> int:
        """The first sign of life of its processes."""
        return min((t for events in self.ranks.values() if (t := _seen(events)) is not None), default=self.last)

    @cached_property
    def end(self) -> AttemptEnd | None:
        """How it ended, as far as any rank says."""
        ends = {_end_of(events) for events in self.ranks.values()}
        return next((end for end in (AttemptEnd.FAILED, AttemptEnd.FINISHED) if end in ends), None)


@dataclass(frozen=True, slots=True)
class _Place:
    """An attempt's place in its job.

    Attributes:
        begin: From when on there may have been a process that does not tell its start.
        last: Where its log ends.
        first: It is the job's first one.
        counted: Positions are counts of steps.
        notes: For the report's warnings.
    """

    begin: int
    last: int
    first: bool
    counted: bool
    notes: Sequence[str]


def write_job(log: EventLog, job_dir: Path, source: str, problems: Problems) -> list[Ingested]:
    """Write a job's directory.

    Args:
        log: What was read.
        job_dir: Where to; must be new.
        source: The name of the file it is from.
        problems: Gets what does not fit together.

    Raises:
        OSError: The disk refuses.
    """
    attempts = _attempts(log)
    left_out = problems.left_out
    counted = log.kind == "events" and not any(_has_positions(e) for a in attempts for e in a.ranks.values())
    notes = [f"lines of {source} that could not be used, and were left out: {left_out:,}"] if left_out else []
    before = Before()
    end_before: int | None = None
    written = []
    for attempt, following in zip(attempts, [*attempts[1:], None], strict=True):
        if end_before is not None and attempt.seen < end_before:
            problems.add(attempt.line, f"attempt {attempt.number} begins before the one before it has ended")
        last = _last_sign(attempt, following)
        first = attempt is attempts[0]
        place = _Place(_begin(attempt, end_before), last, first, counted, notes if first else [])
        _write_attempt(attempt, log, job_dir, problems, before, place)
        end_before = last
        written.append(
            Ingested(
                number=attempt.number,
                ranks=len(attempt.ranks),
                events=sum(map(len, attempt.ranks.values())),
                start_unix=(attempt.first - AXIS_NS) / 1e9,
                end_unix=(attempt.last - AXIS_NS) / 1e9,
                end=attempt.end,
            )
        )
    write_identity(job_dir, log.job, {"source": source, "left_out": left_out})
    return written


def _attempts(log: EventLog) -> list[_Attempt]:
    """Attempts in order, counted from 1."""
    by_number: dict[int, dict[int, RankEvents]] = defaultdict(dict)
    for (number, rank), events in sorted(log.ranks.items()):
        events.sort()
        by_number[number][rank] = events
    if log.kind == "goodput":
        (events,) = log.ranks.values()
        by_number = {number: {0: part} for number, part in enumerate(_launches(events), 1)}
    shift = 1 if 0 in by_number else 0
    return [_Attempt(number + shift, ranks) for number, ranks in by_number.items()]


def _launches(events: RankEvents) -> Iterator[RankEvents]:
    """The parts of a log in which each start of a process begins a launch."""
    starts = [index for index, kind in enumerate(events.kind) if kind == Kind.STARTED and index]
    edges = [0, *starts, len(events)]
    return (events.part(begin, end) for begin, end in pairwise(edges))


def _has_positions(events: RankEvents) -> bool:
    return any(
        position != NO_POSITION and kind == Kind.STEP
        for position, kind in zip(events.position, events.kind, strict=True)
    )


def _seen(events: RankEvents) -> int | None:
    """A rank's first sign of life; None if there is but its allocation."""
    return next((t for t, kind in zip(events.time, events.kind, strict=True) if kind != Kind.ALLOCATED), None)


def _end_of(events: RankEvents) -> AttemptEnd | None:
    """How a rank ended, unless it went on afterwards."""
    end = None
    for kind in reversed(events.kind):
        if kind in _BEGINNINGS:
            break
        if kind == Kind.FAILED:
            return AttemptEnd.FAILED
        if kind == Kind.ENDED:
            end = AttemptEnd.FINISHED
    return end


def _last_sign(attempt: _Attempt, following: _Attempt | None) -> int:
    """Where an attempt's log ends. One without an end reaches to whatever is known next."""
    if attempt.end is not None or following is None:
        return attempt.last
    allocated = following.earliest(Kind.ALLOCATED)
    known = following.seen if allocated is None or allocated < attempt.last else min(following.seen, allocated)
    return max(attempt.last, known)


def _begin(attempt: _Attempt, end_before: int | None) -> int:
    """From when on there was a process, or may have been one where no event says when it started."""
    if attempt.earliest(Kind.STARTED) is not None:
        return attempt.seen
    known = [t for t in (end_before, attempt.earliest(Kind.ALLOCATED)) if t is not None]
    return min(attempt.seen, max(known, default=attempt.seen))


def _write_attempt(
    attempt: _Attempt, log: EventLog, job_dir: Path, problems: Problems, before: Before, place: _Place
) -> None:
    """Write an attempt, and add what it came to to what came before."""
    world = max(attempt.ranks) + 1
    if missing := world - len(attempt.ranks):
        problems.add(
            attempt.line,
            f"attempt {attempt.number} has ranks up to {world - 1} and no events of {missing:,} of them: their time is "
            f"unknown",
        )
    at = _resumed_at(attempt.ranks, log.spans, before, place)
    timelines = []
    for rank, events in attempt.ranks.items():
        if events.first(Kind.STARTED) is None:
            problems.add(
                events.line[0],
                f"attempt {attempt.number}, rank {rank} has no start: the time before its first event is unknown",
            )
        start = _seen(events)
        if start is None or events.first(Kind.STARTED) is None:
            start = place.begin if start is None else min(start, place.begin)
        header = ingested_header(
            job=log.job, attempt=attempt.number, rank=rank, world=world, start=start,
            allocated=events.first(Kind.ALLOCATED), versions={PLUGIN: version(PLUGIN)},
        )  # fmt: skip
        with RankWriter(job_dir, header) as writer:
            timeline = RankTimeline(events, log.spans, writer, problems, before, place.counted, at, start)
            timeline.write(_ending(events, attempt, place), place.notes if rank == min(attempt.ranks) else ())
        timelines.append(timeline)
    if attempt.end is None:
        last = max(attempt.ranks.values(), key=lambda events: events.time[-1])
        problems.add(last.line[-1], f"attempt {attempt.number} has no end: what follows is unknown")
    before.high_water = max(timeline.high_water for timeline in timelines)
    before.lost = before.lost or any(timeline.places.lost for timeline in timelines)
    before.size = max(timeline.places.size for timeline in timelines)
    if saves := [save for timeline in timelines for save in timeline.saves]:
        before.saved = max(saves, key=lambda save: save[0])[1]


def _ending(events: RankEvents, attempt: _Attempt, place: _Place) -> Ending:
    """A rank that does not tell its end has that of its attempt, where another rank tells it."""
    if (own := _end_of(events)) is not None:
        return Ending(time=events.time[-1], end=own)
    return Ending(time=place.last, end=attempt.end)


def _resumed_at(
    ranks: Mapping[int, RankEvents], spans: Sequence[tuple[str, Stage]], before: Before, place: _Place
) -> int | None:
    """The position an attempt begins at; None if no event says so."""
    restored = False
    for events in ranks.values():
        for _, _, kind, name, position in events:
            if kind in _STEPS:
                break
            restores = kind == Kind.SPAN_END and spans[name][1] is Stage.CHECKPOINT_RESTORE
            restored = restored or restores
            if position != NO_POSITION and (restores or kind in _BEGINNINGS):
                return position
    if not place.counted:
        return None
    if place.first:
        return 0
    return before.saved if restored and not before.lost else None
