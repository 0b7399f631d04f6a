"""The accounting itself: intervals in, partition out. No clock, no file, no Trainer.

All times are integers of nanoseconds on one clock, so that sums are exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import le
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Interval:
    """A claim on time.

    Attributes:
        start: Nanoseconds.
        end: Nanoseconds, not before `start`.
    """

    start: int
    end: int


class Segment(NamedTuple):
    """A stretch of the window that belongs to one interval.

    Attributes:
        start: Nanoseconds.
        end: Nanoseconds.
        claim: Index of the interval that has it, or -1 for none.
    """

    start: int
    end: int
    claim: int


def sweep(start: int, end: int, intervals: Sequence[Interval]) -> Iterator[Segment]:
    """Give every instant of a window to exactly one interval, in order of time.

    Of those that claim an instant the innermost wins, which is the one that started last, then the one that ends first,
    then the one listed first, as spans are listed when they end. Claims need not nest; what lies outside the window is
    ignored.

    Args:
        start: Where the window begins, nanoseconds.
        end: Where it ends; an empty window has no segments.
        intervals: In any order.

    Yields:
        Segments that touch one another and together are the window.
    """
    order = sorted(
        (i for i in range(len(intervals)) if _claims(intervals[i], start, end)), key=lambda i: intervals[i].start
    )
    claims: list[tuple[int, int, int]] = []
    now, upcoming = start, 0
    pending: Segment | None = None
    while now < end:
        while upcoming < len(order) and intervals[order[upcoming]].start <= now:
            index = order[upcoming]
            interval = intervals[index]
            heapq.heappush(claims, (-interval.start, interval.end, index))
            upcoming += 1
        while claims and claims[0][1] <= now:
            heapq.heappop(claims)
        until = min(end, intervals[order[upcoming]].start) if upcoming < len(order) else end
        index = -1
        if claims:
            _, claim_ends, index = claims[0]
            until = min(until, claim_ends)
        if pending is not None and pending.claim == index:
            pending = Segment(pending.start, until, index)
        else:
            if pending is not None:
                yield pending
            pending = Segment(now, until, index)
        now = until
    if pending is not None:
        yield pending


def _claims(interval: Interval, start: int, end: int) -> bool:
    return interval.end > interval.start and interval.end > start and interval.start < end


class Layer(NamedTuple):
    """Claims by column, as there may be a million. Spans are a layer above steps, and steps above phases.

    Attributes:
        starts: Nanoseconds.
        ends: Nanoseconds, each not before its start.
    """

    starts: Sequence[int]
    ends: Sequence[int]


def own_times(start: int, end: int, layers: Sequence[Layer]) -> tuple[list[list[int]], int]:
    """What each claim has of a window: the highest layer wins, and within a layer the innermost, as in :func:`sweep`.

    Args:
        start: Where the window begins, nanoseconds.
        end: Where it ends.
        layers: The lowest level first.

    Returns:
        Nanoseconds for each claim of each layer, in the order given, and nanoseconds that none claims. Together they
        are exactly the window.
    """
    owned: list[list[int]] = []
    taken: list[tuple[int, int]] = []
    for layer in reversed(layers):
        own, taken = _beneath(start, end, layer, taken)
        owned.append(own)
    unclaimed = max(0, end - start) - sum(b - a for a, b in taken)
    return owned[::-1], unclaimed


def _beneath(
    start: int, end: int, layer: Layer, taken: list[tuple[int, int]]
) -> tuple[list[int], list[tuple[int, int]]]:
    """What a layer's claims have of what the layers above it leave.

    Args:
        start: Where the window begins.
        end: Where it ends.
        layer: The claims.
        taken: What the layers above have, merged.

    Returns:
        Nanoseconds for each claim, and what is taken now.
    """
    own = [0] * len(layer.starts)
    joined: list[tuple[int, int]] = []
    joined_start = joined_end = start
    first, count = 0, len(taken)
    for a, b, claim in innermost(start, end, layer):
        while first < count and taken[first][1] <= a:
            first += 1
        free = b - a
        above = first
        while above < count and taken[above][0] < b:
            left, right = taken[above]
            free -= min(b, right) - max(a, left)
            above += 1
        own[claim] += free
        if a != joined_end:
            joined.append((joined_start, joined_end))
            joined_start = a
        joined_end = b
    joined.append((joined_start, joined_end))
    return own, merge([*taken, *joined])


def innermost(start: int, end: int, layer: Layer) -> Iterator[tuple[int, int, int]]:
    """Who has what within one layer, in order of time: start, end and claim.

    Args:
        start: Where the window begins, nanoseconds.
        end: Where it ends.
        layer: The claims.
    """
    if _is_in_order(layer):
        # Claims one after the other are their own answer.
        for claim, (a, b) in enumerate(zip(layer.starts, layer.ends, strict=True)):
            left, right = max(a, start), min(b, end)
            if left < right:
                yield left, right, claim
        return
    intervals = [Interval(a, b) for a, b in zip(layer.starts, layer.ends, strict=True)]
    for segment in sweep(start, end, intervals):
        if segment.claim >= 0:
            yield segment


def _is_in_order(layer: Layer) -> bool:
    return all(map(le, layer.ends, islice(layer.starts, 1, None))) and all(map(le, layer.starts, layer.ends))


def merge(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time as intervals that neither overlap nor touch nor are empty, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif start < end:
            merged.append((start, end))
    return merged


class Progress:
    """Tells new data from data trained before, by position, attempt after attempt.

    Attributes:
        high_water: Highest position reached so far.
    """

    __slots__ = ("high_water",)

    def __init__(self, high_water: int = 0) -> None:
        self.high_water = high_water

    def advance(self, p0: int, p1: int) -> int:
        """Train the samples between two positions.

        Returns:
            How many of them had been trained before.
        """
        repeated = min(max(self.high_water - p0, 0), p1 - p0)
        self.high_water = max(self.high_water, p1)
        return repeated

    def step(self, p0: int, p1: int) -> tuple[int, int]:
        """Train a step between two positions.

        Returns:
            Its samples, and how many of them had been trained before. A step whose samples nothing counts weighs as
            one, on the side of the high-water mark where it begins.
        """
        if p1 > p0:
            return p1 - p0, self.advance(p0, p1)
        return 1, int(p0 < self.high_water)


def split(total: int, part: int, whole: int) -> tuple[int, int]:
    """Divide an integer in the ratio of `part` to the rest of `whole`; the two parts sum to `total`."""
    first = total * part // whole if whole else 0
    return first, total - first
