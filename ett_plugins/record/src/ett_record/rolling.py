"""ETT% over a window that moves with time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from .clock import NS
from .partition import Stretch

POINTS: Final = 240
"""Points on the curve, at most."""


def rolling_percent(
    start: int, end: int, ranks: int, stretches: Iterable[Stretch], window_ns: int
) -> list[tuple[float, float]]:
    """ETT% of the window that ends at each of a few moments.

    Within a stretch, effective time counts as spread evenly.

    Args:
        start: Where the job begins, nanoseconds.
        end: Where it ends.
        ranks: Number of ranks that the stretches come from.
        stretches: Of all ranks.
        window_ns: Length of the window; at the beginning it is shorter.

    Returns:
        Unix seconds and percent, in order of time; empty for an empty job.
    """
    width = max(1, -(-(end - start) // POINTS))
    count = -(-(end - start) // width)
    if count <= 0 or not ranks:
        return []
    effective = [0.0] * count
    for stretch in stretches:
        length = stretch.end - stretch.start
        if length <= 0 or not stretch.effective:
            continue
        share = stretch.effective / length
        first = max(0, (stretch.start - start) // width)
        last = min(count - 1, (stretch.end - 1 - start) // width)
        for bucket in range(first, last + 1):
            left = start + bucket * width
            effective[bucket] += share * max(0, min(stretch.end, left + width) - max(stretch.start, left))
    sums = [0.0, *accumulate(effective)]
    back = max(1, window_ns // width)
    points = []
    for bucket in range(1, count + 1):
        begin = max(0, bucket - back)
        moment = min(end, start + bucket * width)
        elapsed = (moment - (start + begin * width)) * ranks
        points.append((moment / NS, min(100.0, max(0.0, 100 * (sums[bucket] - sums[begin]) / elapsed))))
    return points
