"""The partition of one rank's share of an attempt: what it recorded, put through the accounting."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ett_hookspecs import DEFAULT_OWNERS, Stage

from .accounting import Interval, Progress, own_time, split
from .frame import AttemptFrame
from .lines import Phase, StepsLine
from .reader import RankRecord, Tail
from .state import AFTER_FIT, STAGES

_PHASE_LEVEL, _STEP_LEVEL, _SPAN_LEVEL = range(3)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps in a row, on the job's axis.

    Attributes:
        start: Nanoseconds.
        end: Nanoseconds.
        steps: How many.
        busy: Nanoseconds of it spent in steps.
        effective: Nanoseconds of it spent on new data.
    """

    start: int
    end: int
    steps: int
    busy: int
    effective: int


@dataclass(slots=True, kw_only=True)
class RankPartition:
    """Where a rank's wall time went, from the start of the attempt's frame to its end.

    Attributes:
        stages: Nanoseconds; they sum to the frame.
        owners: Nanoseconds that were not training, by owner.
        background: Nanoseconds beside the partition, by name.
        steps_new: Steps on new data, one across the high-water mark included.
        steps_repeated: Steps on data trained before.
        samples_new: Samples over all ranks.
        samples_repeated: Samples over all ranks.
        samples_skipped: Samples over all ranks that a resume jumped over.
        high_water: Highest position reached by then, earlier attempts included.
        position: Position at its end.
        stretches: Its steps, in order.
        work: Background intervals on the job's axis.
    """

    stages: dict[Stage, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))
    owners: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    background: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    steps_new: int = 0
    steps_repeated: int = 0
    samples_new: int = 0
    samples_repeated: int = 0
    samples_skipped: int = 0
    high_water: int = 0
    position: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    work: list[tuple[int, int]] = field(default_factory=list)

    def give(self, stage: Stage, elapsed: int, owner: str | None = None) -> None:
        """Add time to a stage and, unless it was training, to its owner."""
        self.stages[stage] += elapsed
        if stage is not Stage.TRAINING and elapsed:
            self.owners[owner or DEFAULT_OWNERS[stage]] += elapsed


def partition_rank(
    record: RankRecord, rank: int, frame: AttemptFrame, *, high_water: int, first: bool
) -> RankPartition:
    """Partition what one rank recorded.

    Args:
        record: What it left.
        rank: Its number.
        frame: Where its attempt lies.
        high_water: Position that earlier attempts had reached.
        first: It belongs to the job's first attempt, which may begin at any position.
    """
    result = RankPartition(high_water=high_water)
    offset = frame.offsets[rank]
    limit = frame.end - offset
    begin = min(record.header.process_start, limit)
    tail = record.tail
    logged = min(tail.t0 if tail else record.life, limit)
    life = min(record.life, limit)

    _give_lead(result, frame, begin + offset)
    _give_logged(result, record, begin, logged, offset, may_begin_anywhere=first)
    if tail is not None:
        _give_tail(result, tail, life - logged, offset)
    result.give(Stage.DOWNTIME, limit - max(life, begin))
    for span in record.background:
        result.background[span.name] += span.t1 - span.t0
        result.work.append((span.t0 + offset, span.t1 + offset))
    return result


def unknown_rank(frame: AttemptFrame, *, high_water: int) -> RankPartition:
    """The partition of a rank that left nothing."""
    result = RankPartition(high_water=high_water)
    _give_lead(result, frame, frame.process_start)
    result.give(Stage.UNKNOWN, frame.end - frame.process_start)
    return result


def _give_lead(result: RankPartition, frame: AttemptFrame, process_start: int) -> None:
    """The time before there was a process."""
    scheduled = min(frame.scheduled, process_start)
    result.give(Stage.DOWNTIME, scheduled - frame.start)
    result.give(Stage.SCHEDULING, process_start - scheduled)


def _give_logged(
    result: RankPartition, record: RankRecord, begin: int, end: int, offset: int, *, may_begin_anywhere: bool
) -> None:
    phases = _phases(record, begin, end)
    intervals = [Interval(t0, t1, _PHASE_LEVEL) for t0, t1, _ in phases]
    intervals += [Interval(line.t0, line.t1, _STEP_LEVEL) for line in record.steps]
    intervals += [Interval(span.t0, span.t1, _SPAN_LEVEL) for span in record.spans]
    owned, unclaimed = own_time(begin, end, intervals)
    result.give(Stage.UNKNOWN, unclaimed)
    own = iter(owned)
    for _, _, stage in phases:
        result.give(stage, next(own))
    _give_steps(result, record, [next(own) for _ in record.steps], offset, may_begin_anywhere=may_begin_anywhere)
    for span in record.spans:
        result.give(Stage(span.stage), next(own), span.owner)


def _phases(record: RankRecord, begin: int, end: int) -> list[tuple[int, int, Stage]]:
    """The phases as intervals. In the training loop, what no step covers was lost with its line."""
    changes = [(begin, Phase.INITIALIZATION), *((line.t, Phase(line.phase)) for line in record.phases)]
    last_training = max((t for t, phase in changes if phase is Phase.TRAINING), default=begin)
    stages = {
        Phase.INITIALIZATION: Stage.INITIALIZATION,
        Phase.TRAINING: Stage.UNKNOWN,
        Phase.SHUTDOWN: Stage.SHUTDOWN,
        Phase.AFTER_FIT: Stage.SHUTDOWN,
    }
    intervals = []
    for (t0, phase), t1 in zip(changes, [*(t for t, _ in changes[1:]), end], strict=True):
        fit_follows = phase is Phase.AFTER_FIT and t0 < last_training
        intervals.append((t0, max(t0, t1), Stage.INITIALIZATION if fit_follows else stages[phase]))
    return intervals


def _give_steps(
    result: RankPartition, record: RankRecord, owned: list[int], offset: int, *, may_begin_anywhere: bool
) -> None:
    progress = Progress(result.high_water)
    jumps = iter(sorted(record.positions, key=lambda line: line.t))
    jump = next(jumps, None)
    for line, own in zip(record.steps, owned, strict=True):
        while jump is not None and jump.t <= line.t1:
            if not (may_begin_anywhere and not result.stretches):
                result.samples_skipped += max(0, jump.p - progress.high_water)
            jump = next(jumps, None)
        wait = min(line.wait, own)
        effective, again = _give_stretch(result, line, own - wait, progress)
        result.give(Stage.INPUT_WAIT, wait)
        result.give(Stage.TRAINING, effective)
        result.give(Stage.RETRAINING, again)
        result.stretches.append(Stretch(line.t0 + offset, line.t1 + offset, line.n, own - wait, effective))
        result.position = line.p1
    result.high_water = progress.high_water


def _give_stretch(result: RankPartition, line: StepsLine, busy: int, progress: Progress) -> tuple[int, int]:
    """Count a stretch's steps and samples.

    Returns:
        Its time on new data and on data trained before.
    """
    if not line.n:
        return (0, busy) if line.stage == Stage.RETRAINING else (busy, 0)
    samples = max(0, line.p1 - line.p0)
    if not samples:
        # Nothing counted its samples: the position stands still, and says on which side of the mark.
        samples, repeated = 1, int(line.p0 < progress.high_water)
    else:
        repeated = progress.advance(line.p0, line.p1)
        result.samples_repeated += repeated
        result.samples_new += samples - repeated
    again, effective = split(busy, repeated, samples)
    steps_again = line.n * repeated // samples
    result.steps_repeated += steps_again
    result.steps_new += line.n - steps_again
    return effective, again


def _give_tail(result: RankPartition, tail: Tail, elapsed: int, offset: int) -> None:
    """Add what only the state file knows, as much of it as lies in the attempt's frame."""
    cut = sum(tail.stages) - elapsed
    stages = list(tail.stages)
    for index in sorted(range(len(stages)), key=lambda i: -stages[i]):
        taken = min(cut, stages[index])
        stages[index] -= taken
        cut -= taken
    for index, stage in enumerate(STAGES):
        result.give(stage, stages[index])
    result.give(Stage.SHUTDOWN, stages[AFTER_FIT])
    result.steps_new += tail.steps_new
    result.steps_repeated += tail.steps_repeated
    result.samples_new += tail.samples_new
    result.samples_repeated += tail.samples_repeated
    result.high_water = max(result.high_water, tail.position)
    result.position = tail.position
    effective = stages[STAGES.index(Stage.TRAINING)]
    busy = effective + stages[STAGES.index(Stage.RETRAINING)]
    if elapsed > 0:
        result.stretches.append(
            Stretch(tail.t0 + offset, tail.t0 + offset + elapsed, tail.steps_new + tail.steps_repeated, busy, effective)
        )
