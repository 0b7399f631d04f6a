"""ETT% over a window that moves with time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from .clock import NS
from .partition import Stretch

POINTS: Final = 240
"""Points on the curve, at most."""


def rolling_percent(
    frames: Sequence[tuple[int, int, int]], stretches: Iterable[Stretch], window_ns: int
) -> list[tuple[float, float]]:
    """ETT% of the window that ends at each of a few moments.

    Within a stretch, effective time counts as spread evenly.

    Args:
        frames: Start, end and number of ranks of each attempt, nanoseconds; they touch, in order of time.
        stretches: Of all ranks of all attempts.
        window_ns: Length of the window; at the beginning it is shorter.

    Returns:
        Unix seconds and percent, in order of time; empty for an empty job.
    """
    start, end = frames[0][0], frames[-1][1]
    width = max(1, -(-(end - start) // POINTS))
    count = -(-(end - start) // width)
    effective = [0.0] * count
    held = [0.0] * count
    for stretch in stretches:
        if stretch.end > stretch.start:
            _spread(effective, start, width, stretch.start, stretch.end, stretch.effective)
    for began, ended, ranks in frames:
        if ended > began:
            _spread(held, start, width, began, ended, ranks * (ended - began))
    effective_until = [0.0, *accumulate(effective)]
    held_until = [0.0, *accumulate(held)]
    back = max(1, window_ns // width)
    points = []
    for bucket in range(1, count + 1):
        first = max(0, bucket - back)
        elapsed = held_until[bucket] - held_until[first]
        percent = 100 * (effective_until[bucket] - effective_until[first]) / elapsed if elapsed > 0 else 0.0
        points.append((min(end, start + bucket * width) / NS, min(100.0, max(0.0, percent))))
    return points


def _spread(buckets: list[float], origin: int, width: int, start: int, end: int, amount: float) -> None:
    """Add an amount, spread evenly over an interval, to the buckets it lies in."""
    density = amount / (end - start)
    first = max(0, (start - origin) // width)
    last = min(len(buckets) - 1, (end - 1 - origin) // width)
    for bucket in range(first, last + 1):
        left = origin + bucket * width
        buckets[bucket] += density * (min(end, left + width) - max(start, left))
