"""A rank's small file of a fixed size: what must survive SIGKILL, updated every step.

It is written in place by one system call an update, which leaves it in the page cache, where a killed process's data
lives on. (Stores into a memory map would do the same for less, and end the training with SIGBUS once somebody truncates
the file, as ``cp`` and ``rsync --inplace`` do to what they replace.) What happens between two ends of steps is only
held ready: the heartbeat writes it with its next stamp.

Two areas, each written twice in turn and guarded by a sequence number at both ends, so that a kill in the middle of a
write leaves the one before it whole:

* the *current* state: position, open stage, totals per stage up to the last transition;
* the *mark*: the same at the moment up to which the log on disk explains everything, and how many bytes that is.

What happened between mark and current state is known by stage, not by moment. All numbers are little-endian 64-bit.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from ett_hookspecs import AttemptEnd, Stage

from .files import read_regular, was_deleted
from .lines import LARGEST, Header

log = logging.getLogger(__name__)

STAGES: Final = tuple(Stage)
"""Order of the totals."""
AFTER_FIT: Final = len(STAGES)
"""Index of the time after a fit, which is initialization if another fit follows and shutdown otherwise."""
STAGE_COUNT: Final = len(STAGES) + 1
ENDS: Final = tuple(AttemptEnd)
FAILURE_CLASSES: Final = ("infrastructure", "user")

_MAGIC: Final = b"ETTSTAT1"
_HEAD: Final = struct.Struct("<8s4q")
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
        in_step: A step has begun, or its batch has come, and it has not finished.
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
        identity: Of the log it belongs to.
        heartbeat: Last stamp of the heartbeat, monotonic nanoseconds.
        current: None if no state was ever written.
        mark: None if nothing was ever flushed.
    """

    identity: tuple[int, ...]
    heartbeat: int
    current: Current | None
    mark: Mark | None

    def belongs_to(self, header: Header) -> bool:
        """Whether it was written beside the log with this header."""
        return self.identity == _identity(header)


def _identity(header: Header) -> tuple[int, int, int, int]:
    return header.attempt, header.rank, header.wall, header.mono


_TOTALS_COUNT: Final = len(fields(Totals)) - 1 + STAGE_COUNT
_CURRENT: Final = struct.Struct(f"<q{_TOTALS_COUNT + len(fields(Current)) - 1}qq")
_MARK: Final = struct.Struct(f"<q{_TOTALS_COUNT + 1}qq")
_CURRENT_AT: Final = 128
_MARK_AT: Final = _CURRENT_AT + 2 * _CURRENT.size
STATE_BYTES: Final = max(4096, _MARK_AT + 2 * _MARK.size)


def _totals(values: tuple[int, ...]) -> Totals:
    if min(values[:_TOTALS_COUNT]) < 0 or max(values[:_TOTALS_COUNT]) > LARGEST:
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
    """The writer's side. A disk that refuses is one warning, and from then on nothing is written.

    Args:
        path: Must not exist.
        header: That of the log it belongs to.

    *Runs on* the main thread, but for :meth:`beat`, :meth:`write_mark` and :meth:`sync`, which one other thread may
    call.

    Raises:
        OSError: The file cannot be made. Its blocks are allocated up front, so that a disk that fills up later does not
            matter.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._head = _HEAD.pack(_MAGIC, *_identity(header))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, STATE_BYTES)
            os.pwrite(descriptor, self._head, 0)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        self._start(descriptor)

    @classmethod
    def nowhere(cls) -> StateFile:
        """One that is not kept: it survives nothing, and harms nothing."""
        self = cls.__new__(cls)
        self._path = Path(os.devnull)
        self._head = b""
        self._start(None)
        return self

    def _start(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        # Reentrant: a signal handler may save a checkpoint, and so write, in the middle of a write.
        self._writing = threading.RLock()
        self._held: tuple[int, ...] = ()
        self._written: tuple[int, ...] = ()
        self._current_sequence = self._mark_sequence = 0
        self._mark = b""

    def hold(self, values: tuple[int, ...]) -> None:
        """What the next :meth:`beat` will write as the current state, if nothing newer comes before.

        Args:
            values: The numbers of :func:`flatten`, then those of :class:`Current` after `totals`.
        """
        self._held = values

    def write_current(self, values: tuple[int, ...]) -> None:
        """Replace the current state now; the arguments are those of :meth:`hold`."""
        self._held = values
        if self._descriptor is not None:
            with self._writing:
                self._write_current(values)

    def write_mark(self, totals: Totals, log_bytes: int) -> None:
        """Say that the log, up to `log_bytes`, explains everything up to `totals`."""
        with self._writing:
            sequence = self._mark_sequence = self._mark_sequence + 1
            self._mark = _MARK.pack(sequence, *flatten(totals), log_bytes, sequence)
            self._write(self._mark, _MARK_AT + (sequence & 1) * _MARK.size)

    def beat(self, now: int) -> None:
        """Write what is held and stamp the heartbeat, monotonic nanoseconds.

        A file that somebody has truncated or replaced is mended.
        """
        with self._writing:
            self._mend()
            held = self._held
            if held is not self._written:
                self._write_current(held)
            self._write(_HEARTBEAT.pack(now), _HEARTBEAT_AT)

    def _write_current(self, values: tuple[int, ...]) -> None:
        sequence = self._current_sequence = self._current_sequence + 1
        self._written = values
        self._write(_CURRENT.pack(sequence, *values, sequence), _CURRENT_AT + (sequence & 1) * _CURRENT.size)

    def _write(self, data: bytes, at: int) -> None:
        if self._descriptor is not None:
            try:
                os.pwrite(self._descriptor, data, at)
            except OSError as error:
                self._give_up(error)

    def _mend(self) -> None:
        if self._descriptor is None:
            return
        try:
            if (
                os.fstat(self._descriptor).st_size >= STATE_BYTES
                and os.pread(self._descriptor, _HEAD.size, 0) == self._head
            ):
                return
            os.posix_fallocate(self._descriptor, 0, STATE_BYTES)
        except OSError as error:
            self._give_up(error)
        self._write(self._head, 0)
        self._write(self._mark, _MARK_AT + (self._mark_sequence & 1) * _MARK.size)
        self._written = ()

    @property
    def was_deleted(self) -> bool:
        """Somebody has removed the file, or put another in its place, while it was written."""
        return self._descriptor is not None and was_deleted(self._descriptor)

    def sync(self) -> None:
        """Through to the disk, so that a crash of the host loses no more than what came since.

        Raises:
            OSError: The disk refuses.
        """
        if self._descriptor is not None:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Let go of the file; it stays."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _give_up(self, error: OSError) -> None:
        # The descriptor stays open until the end: another thread may be using it.
        self._descriptor = None
        log.warning("%s cannot be written (%s): a kill will lose up to a second of the timeline", self._path, error)


def read_state(path: Path) -> StateRecord:
    """Read a state file, its writer being alive or not.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is no state file.
    """
    data = read_regular(path)
    if len(data) < STATE_BYTES or not data.startswith(_MAGIC):
        raise ValueError(f"{path} is not a state file")
    _, *identity = _HEAD.unpack_from(data)
    (heartbeat,) = _HEARTBEAT.unpack_from(data, _HEARTBEAT_AT)
    if not 0 <= heartbeat <= LARGEST:
        raise ValueError("it says what cannot be")
    current = _newest(data, _CURRENT, _CURRENT_AT)
    mark = _newest(data, _MARK, _MARK_AT)
    return StateRecord(
        identity=tuple(identity),
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
        or not 0 <= current.pending <= LARGEST
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
