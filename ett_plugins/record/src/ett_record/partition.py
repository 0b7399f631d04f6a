"""The partition of one rank's share of an attempt: what it recorded, put through the accounting."""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ett_hookspecs import DEFAULT_OWNERS, Stage

from .accounting import Layer, Progress, own_times, split
from .frame import AttemptFrame
from .lines import Phase
from .reader import AttemptRecord, RankRecord, Tail
from .state import AFTER_FIT, STAGES
from .steps import Stretches


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
    stretches: Stretches = field(default_factory=Stretches)
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
    life = max(begin, min(record.life, limit))
    logged = max(begin, min(tail.t0, life)) if tail else life

    _give_lead(result, frame, begin + offset)
    _give_logged(result, record, begin, logged, offset, may_begin_anywhere=first)
    if tail is not None:
        _give_tail(result, tail, life - logged, offset, may_begin_anywhere=first)
    result.give(Stage.DOWNTIME, limit - life)
    for span in record.background:
        result.background[span.name] += span.t1 - span.t0
        result.work.append((span.t0 + offset, span.t1 + offset))
    return result


def partition_attempt(
    record: AttemptRecord, frame: AttemptFrame, *, high_water: int, first: bool
) -> list[RankPartition]:
    """Partition every rank of an attempt, those that left nothing included; arguments as :func:`partition_rank`'s."""
    return [
        partition_rank(record.ranks[rank], rank, frame, high_water=high_water, first=first)
        if rank in record.ranks
        else unknown_rank(frame, high_water=high_water)
        for rank in range(record.world)
    ]


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
    phases = phase_intervals(record, begin, end)
    layers = (
        Layer([t0 for t0, _, _ in phases], [t1 for _, t1, _ in phases]),
        Layer(record.steps.t0, record.steps.t1),
        Layer([span.t0 for span in record.spans], [span.t1 for span in record.spans]),
    )
    (of_phases, of_steps, of_spans), unclaimed = own_times(begin, end, layers)
    result.give(Stage.UNKNOWN, unclaimed)
    for (_, _, stage), own in zip(phases, of_phases, strict=True):
        result.give(stage, own)
    _give_steps(result, record, of_steps, offset, may_begin_anywhere=may_begin_anywhere)
    for span, own in zip(record.spans, of_spans, strict=True):
        result.give(Stage(span.stage), own, span.owner)


def phase_intervals(record: RankRecord, begin: int, end: int) -> list[tuple[int, int, Stage]]:
    """The phases as intervals. In the training loop, what no step covers was lost with its line."""
    changes = [(begin, Phase.INITIALIZATION), *((line.t, Phase(line.phase)) for line in record.phases)]
    fit_in_tail = record.tail is not None and record.tail.fit_followed
    last_training = max((t for t, phase in changes if phase is Phase.TRAINING), default=begin)
    stages = {
        Phase.INITIALIZATION: Stage.INITIALIZATION,
        Phase.TRAINING: Stage.UNKNOWN,
        Phase.SHUTDOWN: Stage.SHUTDOWN,
        Phase.AFTER_FIT: Stage.SHUTDOWN,
    }
    intervals = []
    for (t0, phase), t1 in zip(changes, [*(t for t, _ in changes[1:]), end], strict=True):
        fit_follows = phase is Phase.AFTER_FIT and (t0 < last_training or fit_in_tail)
        intervals.append((t0, max(t0, t1), Stage.INITIALIZATION if fit_follows else stages[phase]))
    return intervals


def _give_steps(
    result: RankPartition, record: RankRecord, owned: Sequence[int], offset: int, *, may_begin_anywhere: bool
) -> None:
    progress = Progress(result.high_water)
    jumps = deque(sorted((line.t, line.p) for line in record.positions))
    waited = retraining = 0
    worked = array("q")
    advanced = array("q")
    for (_, t1, n, waits, p0, p1, on_old_data), own in zip(record.steps, owned, strict=True):
        wait = min(waits, own)
        busy = own - wait
        if n:
            if jumps and jumps[0][0] < t1:
                target = 0
                while jumps and jumps[0][0] < t1:
                    _, target = jumps.popleft()
                if result.steps_new or result.steps_repeated or not may_begin_anywhere:
                    result.samples_skipped += max(0, target - progress.high_water)
            samples, repeated = progress.step(p0, p1)
            if p1 > p0:
                result.samples_repeated += repeated
                result.samples_new += samples - repeated
            again, effective = split(busy, repeated, samples)
            steps_again = n * repeated // samples
            result.steps_repeated += steps_again
            result.steps_new += n - steps_again
        else:
            again, effective = (busy, 0) if on_old_data else (0, busy)
        waited += wait
        retraining += again
        worked.append(busy)
        advanced.append(effective)
        result.position = p1
    result.give(Stage.INPUT_WAIT, waited)
    result.give(Stage.TRAINING, sum(advanced))
    result.give(Stage.RETRAINING, retraining)
    starts, ends = ([moment + offset for moment in column] for column in (record.steps.t0, record.steps.t1))
    result.stretches.extend(starts, ends, record.steps.n, worked, advanced)
    result.high_water = progress.high_water


def _give_tail(result: RankPartition, tail: Tail, elapsed: int, offset: int, *, may_begin_anywhere: bool) -> None:
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
    steps = tail.steps_new + tail.steps_repeated
    if steps and (result.steps_new or result.steps_repeated or not may_begin_anywhere):
        began = tail.position - tail.samples_new - tail.samples_repeated
        result.samples_skipped += max(0, began - max(result.high_water, tail.reached_before))
    result.steps_new += tail.steps_new
    result.steps_repeated += tail.steps_repeated
    result.samples_new += tail.samples_new
    result.samples_repeated += tail.samples_repeated
    result.high_water = max(result.high_water, tail.reached)
    result.position = tail.position
    effective = stages[STAGES.index(Stage.TRAINING)]
    busy = effective + stages[STAGES.index(Stage.RETRAINING)]
    if elapsed > 0:
        result.stretches.add(tail.t0 + offset, tail.t0 + offset + elapsed, steps, busy, effective)
