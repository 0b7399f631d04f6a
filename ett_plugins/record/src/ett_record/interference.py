"""Estimates how much background work slowed the steps down."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from statistics import median

from .accounting import merge
from .steps import Stretches


def interference_ns(stretches: Stretches, work: Sequence[tuple[int, int]]) -> int:
    """What steps took longer while background work went on than the median step took without.

    An estimate: steps are known about a second at a time, and a step may be slow for another reason.

    Args:
        stretches: Steps of one rank.
        work: Background intervals on the same axis.

    Returns:
        Nanoseconds, never negative; 0 where there is nothing to compare with.
    """
    merged = merge(work)
    if not merged:
        return 0
    ends = [end for _, end in merged]
    quiet: list[float] = []
    disturbed: list[tuple[int, int]] = []
    for start, end, steps, busy, _ in stretches:
        if not steps:
            continue
        index = bisect_left(ends, start + 1)
        if index < len(merged) and merged[index][0] < end:
            disturbed.append((busy, steps))
        else:
            quiet.append(busy / steps)
    if not quiet or not disturbed:
        return 0
    usual = median(quiet)
    return max(0, round(sum(busy - steps * usual for busy, steps in disturbed)))
