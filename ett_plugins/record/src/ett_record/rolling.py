"""ETT% over a window that moves with time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from .clock import NS
from .steps import Stretches

POINTS: Final = 240
"""Points on the curve, at most."""


def rolling_percent(
    frames: Sequence[tuple[int, int, int]], stretches: Iterable[Stretches], window_ns: int
) -> list[tuple[float, float]]:
    """ETT% of the window that ends at each of a few moments.

    Within a stretch, effective time counts as spread evenly.

    Args:
        frames: Start, end and number of ranks of each attempt, nanoseconds; they touch, in order of time.
        stretches: Of each rank of each attempt.
        window_ns: Length of the window; at the beginning it is shorter.

    Returns:
        Unix seconds and percent, in order of time; empty for an empty job.
    """
    start, end = frames[0][0], frames[-1][1]
    if end <= start:
        return []
    width = -(-(end - start) // POINTS)
    moments = [min(end, moment) for moment in range(start + width, end + width, width)]
    # Every window begins and ends at an edge.
    edges = sorted({start, *moments, *(max(start, moment - window_ns) for moment in moments)})
    effective = [0.0] * (len(edges) - 1)
    held = [0.0] * (len(edges) - 1)
    for columns in stretches:
        for began, ended, _, _, amount in columns:
            _spread(effective, edges, began, ended, amount)
    for began, ended, ranks in frames:
        _spread(held, edges, began, ended, ranks * (ended - began))
    effective_until = [0.0, *accumulate(effective)]
    held_until = [0.0, *accumulate(held)]
    points = []
    for moment in moments:
        first, last = bisect_left(edges, max(start, moment - window_ns)), bisect_left(edges, moment)
        elapsed = held_until[last] - held_until[first]
        percent = 100 * (effective_until[last] - effective_until[first]) / elapsed if elapsed > 0 else 0.0
        points.append((moment / NS, min(100.0, max(0.0, percent))))
    return points


def _spread(buckets: list[float], edges: Sequence[int], start: int, end: int, amount: float) -> None:
    """Add an amount, spread evenly over an interval, to the buckets between edges that it lies in."""
    first = max(0, bisect_right(edges, start) - 1)
    if first == len(buckets) or end <= start:
        return
    if end <= edges[first + 1]:
        buckets[first] += amount
        return
    density = amount / (end - start)
    for bucket in range(first, min(len(buckets), bisect_left(edges, end))):
        buckets[bucket] += density * (min(end, edges[bucket + 1]) - max(start, edges[bucket]))
