"""The lines of a rank's log, and nothing else: what each kind holds, to and from JSON.

A log is append-only JSON lines. Times are ``time.monotonic_ns()`` of the process that wrote the log; the header says
how they relate to wall time. Every line has a kind under ``k``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

from ett_hookspecs import AttemptEnd, Stage

from .files import loads

LOG_SCHEMA: Final = "ett.log/1"


class Phase(StrEnum):
    """What the main thread is about when no span and no step says otherwise."""

    INITIALIZATION = "initialization"
    TRAINING = "training"
    """First batch to the end of the training loop; steps cover it."""
    SHUTDOWN = "shutdown"
    AFTER_FIT = "after_fit"
    """Initialization if another fit follows in the process, else shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line: who writes, and how its clock relates to the world's.

    Attributes:
        job: The job's id.
        attempt: From 1.
        rank: Global rank.
        world: Number of ranks.
        host: Host name.
        pid: Process id.
        started_ticks: Process start in clock ticks since boot, or None.
        boot: The boot's id, or empty.
        run: The launcher's run id, or None.
        wall: Anchor, nanoseconds since the epoch.
        mono: The same moment on the monotonic clock.
        process_start: Process start on the monotonic clock.
        allocated: Allocation, nanoseconds since the epoch, or None.
        predecessor: Why the attempt before was known to be over: ``ended``, ``dead``, ``same_run``, ``expired``; None
            for the first.
        notes: Lines for the report's warnings.
        versions: Of what matters, by name.
    """

    KIND: ClassVar = "attempt"
    schema: str = LOG_SCHEMA
    job: str
    attempt: int
    rank: int
    world: int
    host: str
    pid: int
    started_ticks: int | None = None
    boot: str
    run: str | None = None
    wall: int
    mono: int
    process_start: int
    allocated: int | None = None
    predecessor: str | None = None
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLine:
    """From here on the main thread is in another phase."""

    KIND: ClassVar = "phase"
    t: int
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsLine:
    """A stretch of steps, one after the other, in which nothing was nested but waits for the loader.

    A step with anything nested is a stretch of its own, and its waits are spans.

    Attributes:
        t0: Where the first one begins: the start of its wait.
        t1: Where the wait after the last one begins.
        n: Number of steps; 0 for time of the loop between steps.
        wait: Nanoseconds of it spent waiting for the loader.
        p0: Sample position before.
        p1: Sample position after.
        stage: For ``n == 0``: the stage of the step it surrounds.
    """

    KIND: ClassVar = "steps"
    t0: int
    t1: int
    n: int
    wait: int
    p0: int
    p1: int
    stage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLine:
    """Time with a name.

    Attributes:
        bg: Beside the partition, not in it.
    """

    KIND: ClassVar = "span"
    t0: int
    t1: int
    stage: str
    name: str
    plugin: str
    owner: str | None = None
    bg: bool = False
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionLine:
    """The sample position was set: a checkpoint was loaded, or training begins at zero."""

    KIND: ClassVar = "position"
    t: int
    p: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLine:
    """How a fit, validate, test or predict went; the last one before the end is the attempt's.

    Attributes:
        end: An :class:`~ett_hookspecs.AttemptEnd`.
        failure_class: ``infrastructure``, ``user`` or None.
        error: Type and text of the exception, or None.
    """

    KIND: ClassVar = "outcome"
    t: int
    end: str
    failure_class: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLine:
    """Something the report should warn about: a clock that jumped, a disk that was full."""

    KIND: ClassVar = "note"
    t: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLine:
    """The process ends in order."""

    KIND: ClassVar = "end"
    t: int


_T = TypeVar("_T")

Line = PhaseLine | StepsLine | SpanLine | PositionLine | OutcomeLine | NoteLine | EndLine

_KINDS: Final[dict[str, type[Line]]] = {
    kind.KIND: kind for kind in (PhaseLine, StepsLine, SpanLine, PositionLine, OutcomeLine, NoteLine, EndLine)
}
_NAMES: Final = {kind: tuple(f.name for f in fields(kind)) for kind in (Header, *_KINDS.values())}
_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=str).encode

LARGEST: Final = 2**62 - 1
"""Largest number in a line or a state file: nanoseconds to the year 2116, and two of them still fit into 64 bits."""
LARGEST_WORLD: Final = 1 << 17
"""Most ranks that a log is believed about."""
DAMAGED: Final = (KeyError, OverflowError, TypeError, ValueError)
"""What reading a line raises that says what cannot be."""
_BLOCK_BYTES: Final = 1 << 20
_TIMES: Final = frozenset({"allocated", "mono", "process_start", "started_ticks", "t", "t0", "t1", "wait", "wall"})
_NUMBERS: Final = _TIMES | {"attempt", "n", "p", "p0", "p1", "pid", "rank", "world"}
_TEXTS: Final = frozenset({"boot", "error", "host", "job", "name", "owner", "plugin", "predecessor", "run", "text"})
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "end": tuple(AttemptEnd),
    "failure_class": ("infrastructure", "user"),
    "phase": tuple(Phase),
    "stage": tuple(Stage),
}


def encode(line: Header | Line) -> bytes:
    """One line of JSON, with its newline; what is None or empty is left out.

    Details that JSON cannot hold, whoever gave them, are replaced by their text: no line is worth losing a log.
    """
    values: dict[str, Any] = {"k": line.KIND}
    for name in _NAMES[type(line)]:
        value = getattr(line, name)
        if value is not None and value is not False and value != ():
            values[name] = value
    try:
        text = _ENCODE(values)
    except Exception:  # noqa: BLE001  (a circular value, a key that is no text, a mapping changed meanwhile, ...)
        values["details"] = {"not_json": repr(type(values.get("details")))}
        text = _ENCODE(values)
    return text.encode("utf-8", "replace") + b"\n"


def decode(text: bytes) -> Line | None:
    """Read a line after the header.

    Returns:
        The line, or None for a kind this version does not know.

    Raises:
        ValueError: It is not a JSON object, or does not hold what its kind must hold.
    """
    return build(_object(loads(text)))


def decode_header(text: bytes) -> Header:
    """Read the first line.

    Raises:
        ValueError: It is no header, or of a schema this version does not know; the text says which.
    """
    values = _object(loads(text))
    if values.get("k") != Header.KIND:
        raise ValueError("the first line is not the header of a rank's log")
    schema = values.get("schema")
    if schema != LOG_SCHEMA:
        raise ValueError(
            f"it was written with schema {schema!r} and this version reads {LOG_SCHEMA!r}: upgrade ett-record"
        )
    notes = values.get("notes", ())
    if not isinstance(notes, (list, tuple)):
        raise ValueError(f"notes is {notes!r}")
    values["notes"] = tuple(map(str, notes))
    header = _build(Header, values)
    if not 0 <= header.rank < header.world <= LARGEST_WORLD:
        raise ValueError(f"rank {header.rank} of {header.world} cannot be")
    return header


def decode_lines(data: bytes, start: int, end: int) -> Iterator[list[Any]]:
    """Read the lines between two bytes of a log, many at once: that is several times as fast as one by one.

    Args:
        data: The log.
        start: Where a line begins.
        end: Where a line has ended.

    Yields:
        Blocks of lines: for each line its JSON value, or the ValueError that says why it has none.
    """
    while start < end:
        cut = data.rfind(b"\n", start, min(end, start + _BLOCK_BYTES)) + 1 or data.index(b"\n", start) + 1
        yield _decode_block(data[start:cut])
        start = cut


def _decode_block(block: bytes) -> list[Any]:
    count = block.count(b"\n")
    try:
        values: list[Any] = json.loads(b"[" + block[:-1].replace(b"\n", b",") + b"]")
    except (ValueError, RecursionError):
        pass
    else:
        if len(values) == count:
            return values
    return [_value(text) for text in block[:-1].split(b"\n")]


def build(values: Mapping[str, Any]) -> Line | None:
    """A line from its JSON object.

    Returns:
        The line, or None for a kind this version does not know.

    Raises:
        ValueError: It does not hold what its kind must hold.
    """
    kind = _object(values).get("k")
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    return None if cls is None else _build(cls, values)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _value(text: bytes) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        return error


def _build(kind: type[_T], values: Mapping[str, Any]) -> _T:
    known = {name: values[name] for name in _NAMES[kind] if values.get(name) is not None}  # type: ignore[index]
    for name, value in known.items():
        if name in _NUMBERS:
            good = type(value) is int and 0 <= value <= LARGEST
        elif name in _TEXTS:
            good = isinstance(value, str)
        elif name in _WORDS:
            good = value in _WORDS[name]
        elif name in ("details", "versions"):
            good = isinstance(value, dict)
        else:
            continue
        if not good:
            raise ValueError(f"{name} is {value!r}")
    if known.get("t1", LARGEST) < known.get("t0", 0):
        raise ValueError("it ends before it starts")
    try:
        return kind(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None
