"""Estimates how much background work slowed the steps down."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from statistics import median

from .partition import Stretch


def merge(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time as intervals that neither overlap nor touch, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def interference_ns(stretches: Sequence[Stretch], work: Sequence[tuple[int, int]]) -> int:
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
    disturbed: list[Stretch] = []
    for stretch in stretches:
        if not stretch.steps:
            continue
        index = bisect_left(ends, stretch.start + 1)
        if index < len(merged) and merged[index][0] < stretch.end:
            disturbed.append(stretch)
        else:
            quiet.append(stretch.busy / stretch.steps)
    if not quiet or not disturbed:
        return 0
    usual = median(quiet)
    return max(0, round(sum(stretch.busy - stretch.steps * usual for stretch in disturbed)))
