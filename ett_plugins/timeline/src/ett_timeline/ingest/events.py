"""Events as they are kept between reading and accounting: in columns, for there may be millions."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Final

from ett_record.written import AXIS_NS, LARGEST, NS

NO_POSITION: Final = -1
NO_NAME: Final = -1


class Kind(IntEnum):
    """What an event says."""

    ALLOCATED = 0
    STARTED = 1
    INIT_DONE = 2
    FIRST_BATCH = 3
    """The first batch is there; its step begins."""
    STEP = 4
    """A step has ended."""
    STEP_BEGUN = 5
    """A step begins, and with it the one before has ended."""
    SPAN_START = 6
    SPAN_END = 7
    FAILED = 8
    ENDED = 9


class RankEvents:
    """The events of one rank of one attempt.

    Attributes:
        time: Nanoseconds since the epoch, and :data:`~ett_record.written.AXIS_NS`; like the others, a column.
        line: Where in the file.
        kind: A :class:`Kind`.
        name: For spans: index of their name; else :data:`NO_NAME`.
        position: Sample position, or :data:`NO_POSITION`.
        latest: Index of the latest so far.
    """

    __slots__ = ("_in_order", "kind", "latest", "line", "name", "position", "time")

    def __init__(self) -> None:
        self.time, self.line, self.position = array("q"), array("q"), array("q")
        self.kind = array("b")
        self.name = array("h")
        self.latest = 0
        self._in_order = True

    def add(self, line: int, time: int, kind: int, name: int, position: int) -> int:
        """Add an event.

        Returns:
            The line of an event that was there before and is later; 0 if there is none.
        """
        later = 0
        if self.time and time < self.time[self.latest]:
            self._in_order = False
            later = self.line[self.latest]
        else:
            self.latest = len(self.time)
        self.time.append(time)
        self.line.append(line)
        self.kind.append(kind)
        self.name.append(name)
        self.position.append(position)
        return later

    def sort(self) -> None:
        """Put the events in order of time; those of one moment stay as they are."""
        if self._in_order:
            return
        order = sorted(range(len(self.time)), key=self.time.__getitem__)
        for column in ("time", "line", "kind", "name", "position"):
            values = getattr(self, column)
            setattr(self, column, array(values.typecode, map(values.__getitem__, order)))
        self.latest = len(self.time) - 1
        self._in_order = True

    def part(self, begin: int, end: int) -> RankEvents:
        """Some of them, which are in order."""
        part = RankEvents()
        for column in ("time", "line", "kind", "name", "position"):
            setattr(part, column, getattr(self, column)[begin:end])
        part.latest = end - begin - 1
        return part

    def __len__(self) -> int:
        return len(self.time)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Time, line, kind, name and position."""
        return zip(self.time, self.line, self.kind, self.name, self.position, strict=True)

    def first(self, kind: Kind) -> int | None:
        """The time of the first event of a kind; None if there is none."""
        try:
            return self.time[self.kind.index(kind)]
        except ValueError:
            return None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def moment(value: Any) -> int:
    """A time on the axis of the events.

    Args:
        value: Unix seconds, as a number or text, or an RFC 3339 date and time.

    Raises:
        ValueError: It is neither; the text says what is wrong.
    """
    try:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
            raise ValueError
        nanoseconds = round(float(value) * NS)
    except (TypeError, OverflowError):
        raise ValueError("is neither Unix seconds nor an RFC 3339 time") from None
    except ValueError:
        nanoseconds = _from_rfc3339(value)
    if nanoseconds < 0:
        raise ValueError("lies before 1970")
    if nanoseconds > LARGEST - AXIS_NS:
        raise ValueError("lies beyond 2116 (seconds are wanted, not milliseconds)")
    return nanoseconds + AXIS_NS


def _from_rfc3339(value: Any) -> int:
    try:
        parsed = datetime.fromisoformat(value.strip().upper())
    except (AttributeError, ValueError):
        raise ValueError("is neither Unix seconds nor an RFC 3339 time") from None
    if parsed.tzinfo is None:
        raise ValueError("says no time zone: end it with Z or an offset like +01:00")
    return (parsed - _EPOCH) // _MICROSECOND * 1000


def count(value: Any, largest: int) -> int:
    """A whole number that is not negative.

    Raises:
        ValueError: It is none; the text says what is wrong.
    """
    if isinstance(value, str):
        text = value.strip()
        if not (text.isascii() and text.removesuffix(".0").isdigit()):
            raise ValueError("is no whole number from 0 on")
        number = int(text.removesuffix(".0")) if len(text) < 30 else largest + 1
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1 and value >= 0:
        number = int(value)
    else:
        raise ValueError("is no whole number from 0 on")
    if number > largest:
        raise ValueError(f"is beyond {largest:,}")
    return number
