"""The accounting itself: intervals in, partition out. No clock, no file, no Trainer.

All times are integers of nanoseconds on one clock, so that sums are exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Interval:
    """A claim on time.

    Attributes:
        start: Nanoseconds.
        end: Nanoseconds, not before `start`.
        level: A higher level wins over a lower one: phases lie below steps, steps below spans.
    """

    start: int
    end: int
    level: int = 0


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

    Of those that claim an instant the highest level wins; within a level the innermost, which is the one that started
    last, then the one that ends first, then the one listed last. Claims need not nest; what lies outside the window
    is ignored.

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
    claims: list[tuple[int, int, int, int]] = []
    now, upcoming = start, 0
    pending: Segment | None = None
    while now < end:
        while upcoming < len(order) and intervals[order[upcoming]].start <= now:
            index = order[upcoming]
            interval = intervals[index]
            heapq.heappush(claims, (-interval.level, -interval.start, interval.end, -index))
            upcoming += 1
        while claims and claims[0][2] <= now:
            heapq.heappop(claims)
        until = min(end, intervals[order[upcoming]].start) if upcoming < len(order) else end
        index = -1
        if claims:
            index = -claims[0][3]
            until = min(until, claims[0][2])
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


def own_time(start: int, end: int, intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """What each interval has of a window.

    Args:
        start: Where the window begins, nanoseconds.
        end: Where it ends.
        intervals: In any order.

    Returns:
        Nanoseconds for each interval, in the order given, and nanoseconds that none claims. Together they are exactly
        the window.
    """
    owned = [0] * len(intervals)
    unclaimed = 0
    for segment in sweep(start, end, intervals):
        if segment.claim < 0:
            unclaimed += segment.end - segment.start
        else:
            owned[segment.claim] += segment.end - segment.start
    return owned, unclaimed


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


def split(total: int, part: int, whole: int) -> tuple[int, int]:
    """Divide an integer in the ratio of `part` to the rest of `whole`; the two parts sum to `total`."""
    first = total * part // whole if whole else 0
    return first, total - first
