"""Puts the clocks of all processes of a job on one axis, and says where each attempt begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from .clock import NS
from .lines import Header
from .reader import AttemptRecord

_JUMP_NS: Final = NS
_OVERLAP_NS: Final = 5 * NS
"""Longer than a process takes to end whose launcher has started the next."""


@dataclass(slots=True)
class AttemptFrame:
    """Where an attempt lies on the job's axis: nanoseconds since the epoch, as the job's first process saw it.

    Attributes:
        start: End of the attempt before; for the first one the allocation, else its first process start.
        scheduled: From here on waiting for a process is ``scheduling``, before it ``downtime``.
        process_start: First process start.
        end: Last sign of life.
        offsets: By rank: what to add to its monotonic times.
    """

    start: int
    scheduled: int
    process_start: int
    end: int
    offsets: dict[int, int]


def place_attempts(attempts: Sequence[AttemptRecord], warnings: list[str]) -> list[AttemptFrame]:
    """Lay the attempts of a job one after the other.

    Two processes of one boot share a monotonic clock, so what the wall clock did between them does not matter. Across
    boots and hosts wall clocks are all there is: an attempt that seems to begin before the end of the one before it is
    moved behind it, and said so.

    Args:
        attempts: In order, at least one.
        warnings: Gets a line for every clock that cannot be believed.

    Returns:
        A frame for each. They touch: each begins where the one before it ends.
    """
    boots: dict[str, int] = {}
    frames: list[AttemptFrame] = []
    allocations: set[int] = set()
    for attempt in attempts:
        strangers = {rank for rank, r in attempt.ranks.items() if r.header.boot not in boots}
        offsets = {rank: _offset(r.header, boots, warnings) for rank, r in attempt.ranks.items()}
        if frames:
            _put_behind(frames[-1], attempt, offsets, strangers, warnings)
            # A boot that was moved stays where it was put.
            boots.update((r.header.boot, offsets[rank]) for rank, r in attempt.ranks.items() if r.header.boot)
        first = min(_start(attempt, rank, offsets) for rank in attempt.ranks)
        last = max(r.life + offsets[rank] for rank, r in attempt.ranks.items())
        allocated = [
            r.header.allocated - r.header.wall + r.header.mono + offsets[rank]
            for rank, r in attempt.ranks.items()
            if r.header.allocated is not None and r.header.allocated not in allocations
        ]
        allocations |= {r.header.allocated for r in attempt.ranks.values() if r.header.allocated is not None}
        if frames:
            start = frames[-1].end
            # Restarts inside an allocation wait for no scheduler.
            scheduled = max(start, min(allocated, default=first))
        else:
            start = scheduled = min([first, *allocated])
        frames.append(AttemptFrame(start, min(scheduled, first), first, max(last, first), offsets))
    return frames


def _start(attempt: AttemptRecord, rank: int, offsets: Mapping[int, int]) -> int:
    return attempt.ranks[rank].header.process_start + offsets[rank]


def _put_behind(
    before: AttemptFrame,
    attempt: AttemptRecord,
    offsets: dict[int, int],
    strangers: AbstractSet[int],
    warnings: list[str],
) -> None:
    """See to it that an attempt begins when the one before it ends, and not earlier.

    Args:
        before: The frame of the attempt before; it ends earlier where a clock that both know says so.
        attempt: The attempt.
        offsets: By rank; those whose clocks cannot be believed are moved.
        strangers: Ranks whose clock no earlier attempt had.
        warnings: Gets a line for what was moved.
    """
    known = attempt.ranks.keys() - strangers
    if known:
        # The clock is the same: a process of the attempt before did outlive the start of this one.
        first = min(_start(attempt, rank, offsets) for rank in known)
        beside = before.end - first
        if beside > _OVERLAP_NS:
            warnings.append(
                f"the attempt before attempt {attempt.number} lived on for {beside / NS:.1f} s beside it: two jobs may "
                f"have written here at once; its time ends where attempt {attempt.number} began"
            )
        before.end = max(min(before.end, first), before.process_start)
    for ranks in (known, strangers):
        behind = max((before.end - _start(attempt, rank, offsets) for rank in ranks), default=0)
        if behind > 0:
            warnings.append(
                f"attempt {attempt.number} began {behind / NS:.1f} s before the end of the one before it, by their "
                f"clocks; it was moved behind it"
            )
            offsets.update((rank, offsets[rank] + behind) for rank in ranks)


def _offset(header: Header, boots: dict[str, int], warnings: list[str]) -> int:
    own = header.wall - header.mono
    if not header.boot:
        return own
    known = boots.setdefault(header.boot, own)
    if abs(own - known) > _JUMP_NS:
        warnings.append(
            f"attempt {header.attempt}, rank {header.rank}: the wall clock had jumped by {(own - known) / NS:+.1f} s "
            f"since the job began; the monotonic clock was used"
        )
    return known
