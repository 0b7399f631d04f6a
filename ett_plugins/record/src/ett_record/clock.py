"""Time: durations from the monotonic clock, anchored once per process to wall time; process start from the OS."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

NS: Final = 1_000_000_000
"""Nanoseconds in a second."""

ALLOCATED_AT_VARIABLE: Final = "ETT_ALLOCATED_AT"
_ALLOCATION_VARIABLES: Final = (ALLOCATED_AT_VARIABLE, "SLURM_JOB_START_TIME")
_OLDEST_ALLOCATION_NS: Final = 366 * 86_400 * NS
_CLOCK_SKEW_NS: Final = 60 * NS


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """One moment read from both clocks.

    Attributes:
        wall_ns: Nanoseconds since the Unix epoch.
        monotonic_ns: ``time.monotonic_ns()`` at that moment.
    """

    wall_ns: int
    monotonic_ns: int

    @classmethod
    def now(cls) -> ClockAnchor:
        """Read both clocks, the monotonic one on both sides of the other, and take the middle."""
        before = time.monotonic_ns()
        wall = time.time_ns()
        return cls(wall, (before + time.monotonic_ns()) // 2)

    def wall(self, monotonic_ns: int) -> int:
        """The wall time of a monotonic time, in nanoseconds, as this anchor knows it."""
        return self.wall_ns + (monotonic_ns - self.monotonic_ns)

    def jump_ns(self) -> int:
        """How far the wall clock has moved against the monotonic one since the anchor was taken."""
        now = ClockAnchor.now()
        return now.wall_ns - self.wall(now.monotonic_ns)


@lru_cache(maxsize=1)
def boot_id() -> str:
    """What tells one boot of a machine from another; empty where the OS does not say.

    Monotonic times of two processes can be compared when this is equal and not empty.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def process_start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is no such process or the OS does not say.

    Together with the process id it tells a process from a later one with the same id. *Source* proc(5), field 22.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process_start_monotonic_ns() -> int | None:
    """When this process started, on the monotonic clock, to 10 ms; None where the OS does not say."""
    ticks = process_start_ticks(os.getpid())
    if ticks is None or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * NS // os.sysconf("SC_CLK_TCK")
    return time.monotonic_ns() - max(0, age_ns)


def allocation_time(environ: Mapping[str, str], process_start_wall_ns: int) -> tuple[int | None, list[str]]:
    """When the hardware was allocated, as the environment says.

    Args:
        environ: ``ETT_ALLOCATED_AT``, else ``SLURM_JOB_START_TIME``, in Unix seconds.
        process_start_wall_ns: When this process started.

    Returns:
        Nanoseconds since the epoch, or None, and a line for every value that was refused.
    """
    refused = []
    for name in _ALLOCATION_VARIABLES:
        text = environ.get(name, "").strip()
        if not text:
            continue
        try:
            allocated = int(float(text) * NS)
        except (ValueError, OverflowError):
            refused.append(f"{name}={text!r} is not a number of Unix seconds; it was ignored")
            continue
        age = process_start_wall_ns - allocated
        if age < -_CLOCK_SKEW_NS:
            refused.append(f"{name}={text} lies after the process started; it was ignored (Unix seconds are wanted)")
        elif allocated <= 0 or age > _OLDEST_ALLOCATION_NS:
            refused.append(f"{name}={text} lies over a year before the process started; it was ignored")
        else:
            return min(allocated, process_start_wall_ns), refused
    return None, refused
