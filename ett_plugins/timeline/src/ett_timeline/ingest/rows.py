"""Reads a file of events, CSV or JSON lines, row by row, and keeps what can be used."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from ett_hookspecs import EttError, Stage

from .events import NO_NAME, NO_POSITION, Kind, RankEvents, count, moment
from .goodput import JOB_NAME, entry_of, payload_of
from .problems import Problems, shown

COLUMNS: Final = ("job", "attempt", "rank", "event", "time")
_OPTIONAL: Final = "position"

_MOMENTS: Final = {
    "allocated": Kind.ALLOCATED,
    "started": Kind.STARTED,
    "init_done": Kind.INIT_DONE,
    "first_batch": Kind.FIRST_BATCH,
    "step": Kind.STEP,
    "failed": Kind.FAILED,
    "ended": Kind.ENDED,
}
_SPANS: Final = {
    "save": Stage.CHECKPOINT_SAVE,
    "restore": Stage.CHECKPOINT_RESTORE,
    "compile": Stage.COMPILATION,
    "publish": Stage.PUBLISHING,
}
_EDGES: Final = {"_start": Kind.SPAN_START, "_end": Kind.SPAN_END}

_LONGEST_LINE: Final = 1 << 16
_MOST_NAMES: Final = 1000
_MOST_LOGS: Final = 100_000
LARGEST_ATTEMPT: Final = 10**9
LARGEST_RANK: Final = 65_535
LARGEST_POSITION: Final = 2**60


@dataclass(slots=True)
class EventLog:
    """The events of one job.

    Attributes:
        problems: What was wrong with the file.
        wanted: The job that was asked for, or None for the only one.
        job: Its name; empty until a row names it.
        kind: ``events`` or ``goodput``; empty until a row shows it.
        ranks: Events by attempt and rank.
        spans: Name and stage of each kind of span.
        rows: How many rows there were, unusable ones included.
        other_jobs: How many were of other jobs.
    """

    problems: Problems
    wanted: str | None = None
    job: str = ""
    kind: str = ""
    ranks: dict[tuple[int, int], RankEvents] = field(default_factory=dict)
    spans: list[tuple[str, Stage]] = field(default_factory=list)
    rows: int = 0
    other_jobs: int = 0

    @property
    def used(self) -> int:
        """How many events there are."""
        return sum(map(len, self.ranks.values()))


def read_events(path: Path, job: str | None, problems: Problems) -> EventLog:
    """Read the events of one job.

    Args:
        path: CSV with a header, or JSON lines.
        job: The job's name; None if the file holds but one.
        problems: Gets what is wrong with single lines.

    Raises:
        EttError: The file cannot be used at all; the text says why.
    """
    log = EventLog(problems, wanted=job)
    try:
        with path.open(encoding=_encoding(path), errors="replace") as file:
            _read(file, path, log)
    except OSError as error:
        raise EttError(f"{path} cannot be read: {error.strerror or error}", exit_code=2) from error
    log.ranks = {key: events for key, events in log.ranks.items() if events}
    if not log.ranks:
        others = f"; {log.other_jobs:,} rows are of other jobs" if log.other_jobs else ""
        first = next(iter(problems.lines(1)), "it is empty")
        raise EttError(f"{path} holds no event that can be used: {first}{others}")
    return log


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        begin = file.read(2)
    return "utf-16" if begin in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _read(file: IO[str], path: Path, log: EventLog) -> None:
    lines = _lines(file, log.problems)
    for first in lines:
        collect = _Collector(log, path)
        if first[1].lstrip().startswith("{"):
            _read_json(chain([first], lines), collect)
        else:
            _read_csv(first[1], lines, collect)


def _lines(file: IO[str], problems: Problems) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blank ones; a line of any length costs no more memory than a long one."""
    number = 0
    while text := file.readline(_LONGEST_LINE):
        number += 1
        if len(text) == _LONGEST_LINE and not text.endswith("\n"):
            problems.leave_out(number, f"is longer than {_LONGEST_LINE:,} characters")
            while text and not text.endswith("\n"):
                text = file.readline(_LONGEST_LINE)
        elif not text.isspace():
            yield number, text


def _read_csv(header: str, lines: Iterator[tuple[int, str]], collect: _Collector) -> None:
    delimiter = max(",;\t", key=header.count)
    names = [name.strip().lower() for name in _fields(header, delimiter)]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise EttError(
            f"{collect.path} has no column {', '.join(missing)}: its first line must name the columns "
            f"{','.join(COLUMNS)} and may name {_OPTIONAL}"
        )
    for name in sorted({name for name in names if name in (*COLUMNS, _OPTIONAL) and names.count(name) > 1}):
        collect.problems.add(1, f"the column {name} stands there twice; the first one is used")
    job, attempt, rank, event, time = map(names.index, COLUMNS)
    position = names.index(_OPTIONAL) if _OPTIONAL in names else None
    width = len(names)
    needed = max(job, attempt, rank, event, time) + 1
    for number, text in lines:
        fields = _fields(text, delimiter)
        if len(fields) != width and len(fields) >= needed and not any(fields[width:]):
            # A position left out, or a comma too many.
            fields = [*fields, *[""] * width][:width]
        if len(fields) != width:
            collect.log.rows += 1
            collect.problems.leave_out(number, f"has {len(fields)} fields where the header has {width}")
        elif fields[job].strip().lower() == "job" and [each.strip().lower() for each in fields] == names:
            collect.problems.add(number, "is the header again; it was skipped")
        else:
            where = "" if position is None else fields[position]
            collect.add(number, fields[job], fields[attempt], fields[rank], fields[event], fields[time], where)


def _fields(line: str, delimiter: str) -> Sequence[str]:
    line = line.rstrip("\r\n")
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except (csv.Error, StopIteration):
        return ()


def _read_json(lines: Iterator[tuple[int, str]], collect: _Collector) -> None:
    for number, text in lines:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            collect.log.rows += 1
            collect.problems.leave_out(number, "is not a JSON object")
        elif "event" not in row and (payload := payload_of(row)) is not None:
            collect.add_goodput(number, payload)
        else:
            job, attempt, rank, event, time = map(row.get, COLUMNS)
            collect.add(number, job, attempt, rank, event, time, row.get(_OPTIONAL))


class _Refused(Exception):
    """Why a row cannot be used."""


class _Collector:
    """Puts rows where they belong."""

    def __init__(self, log: EventLog, path: Path) -> None:
        self.log = log
        self.path = path
        self.problems = log.problems
        self._known: dict[tuple[Any, Any], RankEvents] = {}
        self._codes: dict[Any, tuple[int, int]] = {}
        self._jobs: dict[Any, str] = {}

    def add(self, line: int, job: Any, attempt: Any, rank: Any, event: Any, time: Any, position: Any) -> None:
        """Take a row of our own columns."""
        self.log.rows += 1
        try:
            if not self._is_ours(line, job, "events"):
                return
            try:
                events = self._known[attempt, rank]
            except (KeyError, TypeError):
                events = self._events(attempt, rank)
            try:
                kind, name = self._codes[event]
            except (KeyError, TypeError):
                kind, name = self._code(line, event)
            self._keep(line, events, kind, name, time, position)
        except _Refused as refused:
            self.problems.leave_out(line, str(refused))

    def add_goodput(self, line: int, payload: Mapping[str, Any]) -> None:
        """Take an entry of a goodput recorder. All are of one rank, and for now of one attempt."""
        self.log.rows += 1
        try:
            if not self._is_ours(line, payload[JOB_NAME], "goodput"):
                return
            try:
                entry = entry_of(payload)
            except ValueError as error:
                raise _Refused(str(error)) from None
            name = NO_NAME if entry.span is None else self._name(*entry.span)
            if entry.kind is Kind.STEP_BEGUN:
                _whole("step_count", entry.step, LARGEST_POSITION)
            self._keep(line, self._events(1, 0), entry.kind, name, entry.time, entry.step)
            if entry.note:
                self.problems.add(line, entry.note)
        except _Refused as refused:
            self.problems.leave_out(line, str(refused))

    def _is_ours(self, line: int, job: Any, kind: str) -> bool:
        name = self._jobs.get(job) if isinstance(job, str) else None
        if name is None:
            if isinstance(job, bool) or not isinstance(job, (str, int)) or not str(job).strip():
                raise _Refused("names no job")
            name = str(job).strip()
            if len(self._jobs) < _MOST_NAMES:
                self._jobs[job] = name
        log = self.log
        if log.wanted is not None and name != log.wanted:
            log.other_jobs += 1
            return False
        if name != log.job:
            if log.job:
                raise EttError(
                    f"{self.path} holds several jobs ({shown(log.job)}, and on line {line} {shown(name)}): say which "
                    f"one with --job NAME",
                    exit_code=2,
                )
            log.job = name
        if kind != log.kind:
            if log.kind:
                raise _Refused("is of another format than the rows before it")
            log.kind = kind
        return True

    def _events(self, attempt: Any, rank: Any) -> RankEvents:
        key = (_whole("attempt", attempt, LARGEST_ATTEMPT), _whole("rank", rank, LARGEST_RANK))
        if key not in self.log.ranks and len(self.log.ranks) >= _MOST_LOGS:
            raise _Refused(f"is of one rank more than {_MOST_LOGS:,}, which is too many")
        events = self.log.ranks.setdefault(key, RankEvents())
        if len(self._known) < _MOST_LOGS:
            self._known[attempt, rank] = events
        return events

    def _code(self, line: int, event: Any) -> tuple[int, int]:
        text = event.strip().lower() if isinstance(event, str) else ""
        edge = next((edge for edge in _EDGES if text.endswith(edge) and text != edge), None)
        if text in _MOMENTS:
            code = (_MOMENTS[text].value, NO_NAME)
        elif edge is None:
            raise _Refused(f"the event {shown(event)} is not known")
        else:
            span = text.removesuffix(edge)
            code = (_EDGES[edge].value, self._name(span, _SPANS.get(span, Stage.UNKNOWN)))
            if span not in _SPANS:
                self.problems.add(line, f"the event {shown(event)} is not known: the time of {shown(span)} is unknown")
                return code
        self._codes[event] = code
        return code

    def _name(self, name: str, stage: Stage) -> int:
        spans = self.log.spans
        if (name, stage) not in spans:
            if len(spans) >= _MOST_NAMES:
                raise _Refused(f"the event {shown(name)} is one kind more than {_MOST_NAMES:,}, which is too many")
            spans.append((name, stage))
        return spans.index((name, stage))

    def _keep(self, line: int, events: RankEvents, kind: int, name: int, time: Any, position: Any) -> None:
        try:
            when = moment(time)
        except ValueError as error:
            raise _Refused(f"the time {shown(time)} {error}") from None
        where = NO_POSITION
        if position is not None and position != "":
            try:
                where = count(position, LARGEST_POSITION)
            except ValueError as error:
                if not (isinstance(position, str) and position.isspace()):
                    self.problems.add(line, f"the position {shown(position)} {error}; the event was used without")
        if later := events.add(line, when, kind, name, where):
            self.problems.add(line, f"is earlier than line {later} of the same rank; it was put in order")


def _whole(name: str, value: Any, largest: int) -> int:
    try:
        return count(value, largest)
    except ValueError as error:
        raise _Refused(f"the {name} {shown(value)} {error}") from None
