"""When each stage was, as finely as a picture can show it: the partition laid out along its attempts.

Each attempt's time is cut into buckets of equal length, and every nanosecond of the partition lies in one of them, so
that the buckets of a stage sum to what the report says of it. A wait for the loader within a run of steps, and what
only the state file knows, have a length but no place: they are spread evenly over the stretch in which they were.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from ett_hookspecs import DEFAULT_OWNERS, Stage

from .accounting import Layer, innermost, merge
from .frame import AttemptFrame, place_attempts
from .partition import RankPartition, partition_attempt, phase_intervals
from .reader import JobRecord, RankRecord
from .state import STAGES

BUCKETS: Final = 480
"""Buckets of an attempt, unless a picture wants another number."""


class Piece(NamedTuple):
    """Time of one stage, spread evenly over a stretch.

    Attributes:
        start: Nanoseconds on the job's axis.
        end: Nanoseconds.
        stage: What it was.
        amount: Nanoseconds of the stretch that were of this stage.
        owner: Who owns them; None where training owns itself.
    """

    start: int
    end: int
    stage: Stage
    amount: int
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLife:
    """When one rank was in which stage.

    Attributes:
        stages: Nanoseconds by bucket, for the stages that occurred.
        owners: Nanoseconds by stage and owner; training has none.
        background: Intervals beside the partition by name, nanoseconds on the job's axis; those of one name are merged.
    """

    stages: Mapping[Stage, Sequence[int]]
    owners: Mapping[tuple[Stage, str], int]
    background: Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLife:
    """When the ranks of one attempt were in which stage.

    Attributes:
        number: The attempt's.
        start: Nanoseconds since the epoch.
        end: Nanoseconds since the epoch.
        buckets: Into how many the time between them is cut.
        ranks: In order.
    """

    number: int
    start: int
    end: int
    buckets: int
    ranks: tuple[RankLife, ...]

    def stages(self) -> dict[Stage, list[int]]:
        """Nanoseconds by bucket, summed over ranks, for the stages that occurred."""
        total: dict[Stage, list[int]] = {}
        for rank in self.ranks:
            for stage, amounts in rank.stages.items():
                total[stage] = (
                    [a + b for a, b in zip(total[stage], amounts, strict=True)] if stage in total else [*amounts]
                )
        return total


def job_life(job: JobRecord, *, buckets: int = BUCKETS) -> tuple[AttemptLife, ...]:
    """When a job's ranks were in which stage.

    Args:
        job: What :func:`ett_record.read_job` read; the job may be running.
        buckets: Into how many each attempt's time is cut, at least 1.

    Returns:
        The attempts, oldest first. Each stage's buckets sum to the nanosecond to what the partition gives it.
    """
    lives = []
    high_water = 0
    for index, (record, frame) in enumerate(zip(job.attempts, place_attempts(job.attempts, []), strict=True)):
        partitions = partition_attempt(record, frame, high_water=high_water, first=not index)
        high_water = max(partition.high_water for partition in partitions)
        grid = Grid(frame.start, frame.end, buckets)
        ranks = tuple(
            _rank_life(record.ranks.get(rank), rank, frame, partition, grid)
            for rank, partition in enumerate(partitions)
        )
        lives.append(AttemptLife(number=record.number, start=frame.start, end=frame.end, buckets=buckets, ranks=ranks))
    return tuple(lives)


class Grid:
    """Buckets of equal length, to the nanosecond.

    Args:
        start: Where the first begins, nanoseconds.
        end: Where the last ends.
        buckets: How many there are, at least 1.
    """

    __slots__ = ("edges",)

    def __init__(self, start: int, end: int, buckets: int) -> None:
        self.edges = [start + (end - start) * index // buckets for index in range(buckets + 1)]

    def spread(self, into: list[int], start: int, end: int, amount: int) -> None:
        """Add an amount, spread evenly over a stretch, to the buckets that it lies in; its parts sum to it."""
        edges = self.edges
        last = len(into) - 1
        first = min(max(bisect_right(edges, start) - 1, 0), last)
        if end <= edges[first + 1] or first == last:
            into[first] += amount
            return
        length, given, bucket = end - start, 0, first
        while bucket < last and edges[bucket + 1] < end:
            until = amount * max(0, edges[bucket + 1] - start) // length
            into[bucket] += until - given
            given = until
            bucket += 1
        into[bucket] += amount - given


def _rank_life(
    record: RankRecord | None, rank: int, frame: AttemptFrame, partition: RankPartition, grid: Grid
) -> RankLife:
    left = dict(partition.stages)
    placed: dict[Stage, list[int]] = {}
    owners: dict[tuple[Stage, str], int] = defaultdict(int)
    for piece in _pieces(record, rank, frame, partition, left):
        if not piece.amount:
            continue
        left[piece.stage] -= piece.amount
        if piece.stage not in placed:
            placed[piece.stage] = [0] * (len(grid.edges) - 1)
        grid.spread(placed[piece.stage], piece.start, piece.end, piece.amount)
        if piece.stage is not Stage.TRAINING:
            owners[piece.stage, piece.owner or DEFAULT_OWNERS[piece.stage]] += piece.amount
    background: dict[str, list[tuple[int, int]]] = defaultdict(list)
    if record is not None:
        offset = frame.offsets[rank]
        for span in record.background:
            background[span.name].append((span.t0 + offset, span.t1 + offset))
    return RankLife(
        stages={stage: placed[stage] for stage in STAGES if stage in placed},
        owners=dict(owners),
        background={name: merge(spans) for name, spans in background.items()},
    )


def _pieces(
    record: RankRecord | None, rank: int, frame: AttemptFrame, partition: RankPartition, left: Mapping[Stage, int]
) -> Iterator[Piece]:
    """Lay out a partition.

    Args:
        record: What the rank left; None for nothing.
        rank: Its number.
        frame: Where its attempt lies.
        partition: What to lay out.
        left: By stage, what of it is not laid out yet; kept up to date by whoever takes the pieces.
    """
    if record is None:
        begin = frame.process_start
        yield from _lead(frame, begin)
        yield Piece(begin, frame.end, Stage.UNKNOWN, left[Stage.UNKNOWN], None)
        return
    offset = frame.offsets[rank]
    limit = frame.end - offset
    begin = min(record.header.process_start, limit)
    life = max(begin, min(record.life, limit))
    logged = max(begin, min(record.tail.t0, life)) if record.tail else life
    yield from _lead(frame, begin + offset)
    yield from _logged(record, begin, logged, offset, partition)
    yield Piece(life + offset, frame.end, Stage.DOWNTIME, limit - life, None)
    for stage in STAGES:
        yield Piece(logged + offset, life + offset, stage, left[stage], None)


def _lead(frame: AttemptFrame, process_start: int) -> Iterator[Piece]:
    scheduled = min(frame.scheduled, process_start)
    yield Piece(frame.start, scheduled, Stage.DOWNTIME, scheduled - frame.start, None)
    yield Piece(scheduled, process_start, Stage.SCHEDULING, process_start - scheduled, None)


def _logged(record: RankRecord, begin: int, end: int, offset: int, partition: RankPartition) -> Iterator[Piece]:
    phases = phase_intervals(record, begin, end)
    spans = record.spans
    above: list[tuple[int, int]] = []

    owned, above = _owned(begin, end, Layer([span.t0 for span in spans], [span.t1 for span in spans]), above)
    for start, until, claim in owned:
        span = spans[claim]
        yield Piece(start + offset, until + offset, Stage(span.stage), until - start, span.owner)

    owned, above = _owned(begin, end, Layer(record.steps.t0, record.steps.t1), above)
    yield from _steps(owned, offset, partition)

    owned, above = _owned(begin, end, Layer([t0 for t0, _, _ in phases], [t1 for _, t1, _ in phases]), above)
    for start, until, claim in owned:
        yield Piece(start + offset, until + offset, phases[claim][2], until - start, None)
    for start, until in _gaps(begin, end, above):
        yield Piece(start + offset, until + offset, Stage.UNKNOWN, until - start, None)


def _steps(owned: Sequence[tuple[int, int, int]], offset: int, partition: RankPartition) -> Iterator[Piece]:
    """What each stretch of steps was worth, spread over what it has of the time."""
    lengths: dict[int, int] = defaultdict(int)
    for start, until, claim in owned:
        lengths[claim] += until - start
    before: dict[int, int] = defaultdict(int)
    busy, effective = partition.stretches.busy, partition.stretches.effective
    for start, until, claim in owned:
        length = lengths[claim]
        so_far = before[claim]
        before[claim] = reached = so_far + until - start
        shares = (
            (Stage.INPUT_WAIT, length - busy[claim]),
            (Stage.RETRAINING, busy[claim] - effective[claim]),
            (Stage.TRAINING, effective[claim]),
        )
        for stage, amount in shares:
            part = amount * reached // length - amount * so_far // length
            yield Piece(start + offset, until + offset, stage, part, None)


def _owned(
    start: int, end: int, layer: Layer, above: list[tuple[int, int]]
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """What a layer's claims have of what the layers above it leave, piece by piece, and what is taken now."""
    owned: list[tuple[int, int, int]] = []
    first = 0
    for a, b, claim in innermost(start, end, layer):
        while first < len(above) and above[first][1] <= a:
            first += 1
        now, over = a, first
        while over < len(above) and above[over][0] < b:
            left, right = above[over]
            if now < left:
                owned.append((now, left, claim))
            now = max(now, right)
            over += 1
        if now < b:
            owned.append((now, b, claim))
    return owned, merge([*above, *((a, b) for a, b, _ in owned)])


def _gaps(start: int, end: int, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What merged intervals leave of a window."""
    ends = accumulate((b for _, b in taken), max, initial=start)
    for (a, _), until in zip([*taken, (end, end)], ends, strict=True):
        if until < a:
            yield until, a
