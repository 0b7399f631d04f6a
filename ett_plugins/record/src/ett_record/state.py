"""A rank's small memory-mapped file: what must survive SIGKILL, updated every step.

Two areas, each written twice in turn and guarded by a sequence number at both ends, so that a kill in the middle of a
write leaves the one before it whole:

* the *current* state: position, open stage, totals per stage up to the last transition;
* the *mark*: the same at the moment up to which the log on disk explains everything, and how many bytes that is.

What happened between mark and current state is known by stage, not by moment. All numbers are little-endian 64-bit.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from ett_hookspecs import AttemptEnd, Stage

STAGES: Final = tuple(Stage)
"""Order of the totals."""
AFTER_FIT: Final = len(STAGES)
"""Index of the time after a fit, which is initialization if another fit follows and shutdown otherwise."""
STAGE_COUNT: Final = len(STAGES) + 1
ENDS: Final = tuple(AttemptEnd)
FAILURE_CLASSES: Final = ("infrastructure", "user")

_LARGEST: Final = 2**62 - 1

_MAGIC: Final = b"ETTSTAT1"
_HEADER: Final = struct.Struct("<8s")
_HEARTBEAT_AT: Final = 64
_HEARTBEAT: Final = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything up to a moment, by stage.

    Attributes:
        t: The moment, monotonic nanoseconds of the rank.
        position: Samples over all ranks since the job began.
        high_water: Highest position any attempt has reached, this one included.
        steps_new: Steps on new data; one across the high-water mark is new.
        steps_repeated: Steps on data trained before.
        samples_new: Samples over all ranks, trained first.
        samples_repeated: Samples over all ranks, trained again.
        stages: Nanoseconds by :data:`STAGES`, then :data:`AFTER_FIT`.
    """

    t: int
    position: int
    high_water: int
    steps_new: int
    steps_repeated: int
    samples_new: int
    samples_repeated: int
    stages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Current:
    """Where the rank is now.

    Attributes:
        totals: Up to the last transition. A step counts only when it finished.
        open_stage: Index of what has been open since then.
        in_step: A step has begun and not finished.
        pending: Nanoseconds of the unfinished step before the last transition.
        first_start: Start of the attempt's first step, 0 for none; like those below, monotonic nanoseconds.
        first_end: End of the attempt's first step.
        new_start: Start of its first step on new data.
        new_end: End of its last step on new data.
        ended: The process ended in order.
        outcome: Index in :data:`ENDS` of how the last fit went, or -1.
        failure_class: Index in :data:`FAILURE_CLASSES`, or -1.
        log_failing: The disk refused the log, the last time it was tried.
    """

    totals: Totals
    open_stage: int
    in_step: int
    pending: int
    first_start: int
    first_end: int
    new_start: int
    new_end: int
    ended: int
    outcome: int
    failure_class: int
    log_failing: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to where the log explains everything.

    Attributes:
        totals: At that moment.
        log_bytes: Length of the log then.
    """

    totals: Totals
    log_bytes: int


@dataclass(frozen=True, slots=True)
class StateRecord:
    """What a state file says.

    Attributes:
        heartbeat: Last stamp of the heartbeat, monotonic nanoseconds.
        current: None if no state was ever written.
        mark: None if nothing was ever flushed.
    """

    heartbeat: int
    current: Current | None
    mark: Mark | None


_TOTALS_COUNT: Final = len(fields(Totals)) - 1 + STAGE_COUNT
_CURRENT: Final = struct.Struct(f"<q{_TOTALS_COUNT + len(fields(Current)) - 1}qq")
_MARK: Final = struct.Struct(f"<q{_TOTALS_COUNT + 1}qq")
_CURRENT_AT: Final = 128
_MARK_AT: Final = _CURRENT_AT + 2 * _CURRENT.size
STATE_BYTES: Final = max(4096, _MARK_AT + 2 * _MARK.size)


def _totals(values: tuple[int, ...]) -> Totals:
    if min(values[:_TOTALS_COUNT]) < 0 or max(values[:_TOTALS_COUNT]) > _LARGEST:
        raise ValueError("it says what cannot be")
    t, position, high_water, steps_new, steps_repeated, samples_new, samples_repeated, *stages = values[:_TOTALS_COUNT]
    return Totals(t, position, high_water, steps_new, steps_repeated, samples_new, samples_repeated, tuple(stages))


def flatten(totals: Totals) -> tuple[int, ...]:
    """The numbers of totals in the order of the file."""
    return (
        totals.t,
        totals.position,
        totals.high_water,
        totals.steps_new,
        totals.steps_repeated,
        totals.samples_new,
        totals.samples_repeated,
        *totals.stages,
    )


class StateFile:
    """The writer's side.

    *Runs on* the main thread, but for :meth:`beat`, :meth:`write_mark` and :meth:`sync`, which one other thread may
    call.

    Raises:
        OSError: The file cannot be made; its blocks are allocated up front, because a write to a hole of a memory map
            on a full disk would kill the process.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.posix_fallocate(self._descriptor, 0, STATE_BYTES)
            self._map = mmap.mmap(self._descriptor, STATE_BYTES)
        except BaseException:
            os.close(self._descriptor)
            path.unlink(missing_ok=True)
            raise
        self._start()

    @classmethod
    def in_memory(cls) -> StateFile:
        """One that no file backs: it survives nothing, and harms nothing."""
        self = cls.__new__(cls)
        self._descriptor = None
        self._map = mmap.mmap(-1, STATE_BYTES)
        self._start()
        return self

    def _start(self) -> None:
        self._current_sequence = 0
        self._mark_sequence = 0
        _HEADER.pack_into(self._map, 0, _MAGIC)

    def write_current(self, *values: int) -> None:
        """Replace the current state: the numbers of :func:`flatten`, then those of :class:`Current` after `totals`."""
        sequence = self._current_sequence = self._current_sequence + 1
        _CURRENT.pack_into(self._map, _CURRENT_AT + (sequence & 1) * _CURRENT.size, sequence, *values, sequence)

    def write_mark(self, totals: Totals, log_bytes: int) -> None:
        """Say that the log, up to `log_bytes`, explains everything up to `totals`."""
        sequence = self._mark_sequence = self._mark_sequence + 1
        _MARK.pack_into(
            self._map, _MARK_AT + (sequence & 1) * _MARK.size, sequence, *flatten(totals), log_bytes, sequence
        )

    def beat(self, now: int) -> None:
        """Stamp the heartbeat, monotonic nanoseconds."""
        _HEARTBEAT.pack_into(self._map, _HEARTBEAT_AT, now)

    def sync(self) -> None:
        """Through to the disk, so that a crash of the host loses no more than what came since.

        Raises:
            OSError: The disk refuses.
        """
        if self._descriptor is not None:
            # Not mmap.flush, which keeps the interpreter's lock: training would wait for the disk.
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Let go of the file; it stays."""
        self._map.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_state(path: Path) -> StateRecord:
    """Read a state file, its writer being alive or not.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is no state file.
    """
    data = path.read_bytes()
    if len(data) < STATE_BYTES or not data.startswith(_MAGIC):
        raise ValueError(f"{path} is not a state file")
    (heartbeat,) = _HEARTBEAT.unpack_from(data, _HEARTBEAT_AT)
    if not 0 <= heartbeat <= _LARGEST:
        raise ValueError("it says what cannot be")
    current = _newest(data, _CURRENT, _CURRENT_AT)
    mark = _newest(data, _MARK, _MARK_AT)
    return StateRecord(
        heartbeat=heartbeat,
        current=_current(current) if current else None,
        mark=Mark(_totals(mark), mark[_TOTALS_COUNT]) if mark else None,
    )


def _current(values: tuple[int, ...]) -> Current:
    current = Current(_totals(values), *values[_TOTALS_COUNT:])
    if (
        current.open_stage not in range(STAGE_COUNT)
        or current.outcome not in range(-1, len(ENDS))
        or current.failure_class not in range(-1, len(FAILURE_CLASSES))
        or not 0 <= current.pending <= _LARGEST
    ):
        raise ValueError("it says what cannot be")
    return current


def _newest(data: bytes, layout: struct.Struct, at: int) -> tuple[int, ...] | None:
    """The newer of an area's two slots that is whole."""
    best: tuple[int, ...] | None = None
    best_sequence = 0
    for slot in (0, 1):
        first, *values, last = layout.unpack_from(data, at + slot * layout.size)
        if first == last and first > best_sequence:
            best, best_sequence = tuple(values), first
    return best
