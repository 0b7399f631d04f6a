"""Reads what the recorders of a job left on disk, whole or not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ett_hookspecs import EttError, Stage

from .clock import NS
from .files import read_regular
from .findings import in_words, rank_logs, strange_attempts
from .job import LEASE_S, attempt_dir, attempt_numbers, process_is_gone, rank_state, timeline_dir
from .lines import (
    DAMAGED,
    EndLine,
    Header,
    Line,
    NoteLine,
    OutcomeLine,
    PhaseLine,
    PositionLine,
    SpanLine,
    StepsLine,
    build,
    decode,
    decode_header,
    decode_lines,
)
from .sections import read_sections
from .state import AFTER_FIT, ENDS, FAILURE_CLASSES, STAGE_COUNT, STAGES, Current, Mark, StateRecord, Totals, read_state
from .steps import Steps

_INITIALIZATION: Final = STAGES.index(Stage.INITIALIZATION)
_TRAINING: Final = STAGES.index(Stage.TRAINING)
_RETRAINING: Final = STAGES.index(Stage.RETRAINING)
_UNKNOWN: Final = STAGES.index(Stage.UNKNOWN)
_STEP_CODES: Final = (_TRAINING, _RETRAINING)
_DOWNTIME: Final = STAGES.index(Stage.DOWNTIME)
_ZERO: Final = (0,) * STAGE_COUNT

_LONG_NS: Final = 30 * NS
"""A step that has been open for longer is worth a word."""
_SILENT_NS: Final = 10 * NS
"""A running process that has not stamped its heartbeat for longer is worth a word."""
_RACE_NS: Final = NS
"""What two threads that charge time at once may charge twice."""
_LAST_BYTES: Final = 1 << 16
"""Where in a log its end is looked for."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What the state file knows and the log does not: how long each stage was, but not when.

    Attributes:
        t0: Where the log ends, monotonic nanoseconds of the rank.
        t1: Its last sign of life.
        stages: Nanoseconds by :data:`~ett_record.state.STAGES`, then after a fit; they sum to ``t1 - t0``.
        steps_new: Steps on new data.
        steps_repeated: Steps on data trained before.
        samples_new: Samples over all ranks.
        samples_repeated: Samples over all ranks.
        position: Where it ended.
        reached_before: Highest position reached where the log ends; 0 if the log says nothing.
        reached: Highest position reached by then.
        fit_followed: What the log has as time after a fit was followed by another one.
    """

    t0: int
    t1: int
    stages: tuple[int, ...]
    steps_new: int
    steps_repeated: int
    samples_new: int
    samples_repeated: int
    position: int
    reached_before: int
    reached: int
    fit_followed: bool


@dataclass(slots=True, kw_only=True)
class RankRecord:
    """What one rank of one attempt left.

    Times are monotonic nanoseconds of that rank.

    Attributes:
        header: Who wrote it.
        phases: In order.
        steps: In order.
        spans: Blocking ones, in the order they ended.
        background: The others.
        positions: Where the sample position was set.
        outcome: The last one.
        ended: The process ended in order.
        running: The process is there.
        life: Its last sign of life.
        tail: What only the state file knows; None if the log says all.
        current: The state file's last state; None if there was none.
        notes: Warnings it wrote itself.
    """

    header: Header
    phases: list[PhaseLine] = field(default_factory=list)
    steps: Steps = field(default_factory=Steps)
    spans: list[SpanLine] = field(default_factory=list)
    background: list[SpanLine] = field(default_factory=list)
    positions: list[PositionLine] = field(default_factory=list)
    outcome: OutcomeLine | None = None
    ended: bool = False
    running: bool = False
    life: int = 0
    tail: Tail | None = None
    current: Current | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """One launch.

    Attributes:
        number: From 1.
        world: Number of ranks it had.
        ranks: Those that left a readable log.
    """

    number: int
    world: int
    ranks: dict[int, RankRecord]


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """Everything a job left.

    Attributes:
        job_id: Its identity.
        attempts: In order; those without a readable rank are left out.
        warnings: What could not be read, a line each.
        sections: What plugins left for the report, by plugin.
    """

    job_id: str
    attempts: list[AttemptRecord]
    warnings: list[str]
    sections: Mapping[str, Mapping[str, Any]]


def read_job(job_dir: Path, *, now_unix: float | None = None) -> JobRecord:
    """Read a job's directory. The job may be running.

    Args:
        job_dir: What the callback was given.
        now_unix: The current time in Unix seconds.

    Raises:
        EttError: There is no timeline to read; the text says what was found instead.
    """
    try:
        if not job_dir.exists():
            raise EttError(f"{job_dir} does not exist: give the job directory that the training was given", exit_code=2)
        if not job_dir.is_dir():
            raise EttError(f"{job_dir} is not a directory: give the job directory, not a file in it", exit_code=2)
        numbers = attempt_numbers(job_dir)
    except (OSError, ValueError) as error:
        raise EttError(f"{job_dir!s:.200} cannot be read: {error!s:.200}", exit_code=2) from error
    if not numbers:
        raise EttError(
            f"{job_dir} holds no timeline ({timeline_dir(job_dir)} has no attempts): was EffectiveTrainingTime among "
            f"the callbacks, and has a fit begun?"
        )
    now = time.time() if now_unix is None else now_unix
    warnings = strange_attempts(job_dir, numbers)
    attempts = []
    for number in numbers:
        reading = _Reading(number=number, is_last=number == numbers[-1], now_unix=now, warnings=warnings)
        if (attempt := reading.attempt(attempt_dir(job_dir, number))) is not None:
            attempts.append(attempt)
    if not attempts:
        raise EttError(f"{job_dir} holds no attempt that can be read: {'; '.join(warnings)}")
    job_id = next(iter(attempts[0].ranks.values())).header.job
    others = sorted({rank.header.job for attempt in attempts for rank in attempt.ranks.values()} - {job_id})
    if others:
        warnings.append(f"logs of other jobs lie in this directory and are counted as this one's: {', '.join(others)}")
    return JobRecord(job_id=job_id, attempts=attempts, warnings=warnings, sections=read_sections(job_dir, warnings))


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The reading of one attempt."""

    number: int
    is_last: bool
    now_unix: float
    warnings: list[str]

    def attempt(self, directory: Path) -> AttemptRecord | None:
        ranks: dict[int, RankRecord] = {}
        unusable: set[int] = set()
        for rank, path in self._logs(directory):
            try:
                ranks[rank] = self._rank(rank, path, rank_state(directory, rank))
            except (OSError, ValueError) as error:
                unusable.add(rank)
                self._warn(rank, f"its log cannot be used: {error}")
        if not ranks:
            self.warnings.append(
                f"attempt {self.number}: no rank left a log that can be read; its time counts as downtime"
            )
            return None
        world = max(record.header.world for record in ranks.values())
        missing = [rank for rank in range(world) if rank not in ranks and rank not in unusable]
        if len(missing) == 1:
            self._warn(missing[0], "its log is missing; its time is unknown")
        elif missing:
            self.warnings.append(
                f"attempt {self.number}, ranks {in_words(missing)}: their logs are missing; their time is unknown"
            )
        self._watch(ranks)
        return AttemptRecord(number=self.number, world=world, ranks=ranks)

    def _logs(self, directory: Path) -> list[tuple[int, Path]]:
        try:
            logs, strange = rank_logs(directory)
        except OSError as error:
            self.warnings.append(f"attempt {self.number} cannot be listed: {error}")
            return []
        self.warnings += [f"attempt {self.number}: {name} is no rank's log and was left out" for name in strange]
        return logs

    def _watch(self, ranks: Mapping[int, RankRecord]) -> None:
        """Say what a running attempt seems to wait for."""
        silent: dict[int, int] = {}
        stuck: dict[int, int] = {}
        for rank, record in ranks.items():
            if not record.running or record.current is None:
                continue
            now = round(self.now_unix * NS) - record.header.wall + record.header.mono
            if now - record.life > _SILENT_NS:
                silent[rank] = now - record.life
            elif record.current.open_stage in _STEP_CODES:
                in_step = record.life - record.current.totals.t + record.current.pending
                if in_step > _LONG_NS:
                    stuck[rank] = in_step
        if silent:
            rank = max(silent, key=silent.__getitem__)
            header = ranks[rank].header
            process = f"process {header.pid} on host {header.host}"
            text = f" although {process} is there: frozen, or waiting for its disk"
            if process_is_gone(header.host, header.boot, header.pid, header.started_ticks) is None:
                text = f"; {process} cannot be seen from here"
            self._warn(rank, f"has given no sign of life for {silent[rank] / NS:,.0f} s{text}{_and_others(silent)}")
        if stuck:
            rank = max(stuck, key=stuck.__getitem__)
            text = f"has been in the same step for {stuck[rank] / NS:,.0f} s, which is unknown until it ends"
            self._warn(rank, text + _and_others(stuck))

    def _rank(self, rank: int, log: Path, state: Path) -> RankRecord:
        # The state first: what it says of the log stays true while the log grows.
        saved = self._saved(rank, state)
        data = read_regular(log)
        # A whole log ends with a newline: what follows the last one is torn, or nothing.
        length = data.rfind(b"\n") + 1
        if not length:
            raise ValueError("it holds no whole line")
        first = data.index(b"\n") + 1
        record = RankRecord(header=decode_header(data[:first]))
        if (record.header.attempt, record.header.rank) != (self.number, rank):
            raise ValueError(f"it is that of attempt {record.header.attempt}, rank {record.header.rank}")
        if saved is not None and (reason := _disbelief(saved, record.header, length)):
            self._warn(rank, f"its state file {reason}; the log alone may lack its last second")
            saved = None
        record.notes.extend(record.header.notes)
        record.life = record.header.process_start
        record.ended = _ends_in_order(data[first:length][-_LAST_BYTES:])
        explained = length
        if saved is not None and not record.ended:
            explained = min(length, saved.mark.log_bytes if saved.mark else 0)
            explained = max(first, data.rfind(b"\n", 0, explained) + 1)
        number = self._lines(record, data, first, explained, 2, in_partition=True)
        self._lines(record, data, explained, length, number, in_partition=False)
        record.life = max(record.life, max(record.steps.t1, default=0))
        if saved is not None and saved.current is not None:
            record.current = saved.current
            record.life = max(record.life, saved.current.totals.t)
            if not record.ended:
                self._finish(record, saved, saved.current)
        elif not record.ended:
            record.running = self._is_running(record.header)
        return record

    def _saved(self, rank: int, path: Path) -> StateRecord | None:
        try:
            return read_state(path)
        except FileNotFoundError:
            self._warn(rank, "its state file is missing; the log alone may lack its last second")
        except (OSError, ValueError) as error:
            self._warn(rank, f"its state file cannot be used: {error}")
        return None

    def _lines(self, record: RankRecord, data: bytes, start: int, end: int, number: int, *, in_partition: bool) -> int:
        """Sort in the lines between two bytes of a log.

        Args:
            record: Gets them.
            data: The log.
            start: Where a line begins.
            end: Where a line ends.
            number: Of the first line.
            in_partition: False for what the partition must not use twice.

        Returns:
            The number of the line after them.
        """
        rank = record.header.rank
        for block in decode_lines(data, start, end):
            steps = [line for line in block if _is_steps(line)]
            try:
                record.steps.extend(steps if in_partition else [])
                one_by_one = False
            except DAMAGED:
                one_by_one = True
            if one_by_one or len(steps) < len(block):
                for line_number, values in enumerate(block, number):
                    try:
                        if not _is_steps(values):
                            self._sort_in(record, line_number, values, in_partition=in_partition)
                        elif one_by_one:
                            record.steps.extend([values])
                    except DAMAGED as error:
                        self._warn(rank, f"line {line_number} of its log is damaged and was left out ({error})")
            number += len(block)
        return number

    def _sort_in(self, record: RankRecord, number: int, values: Any, *, in_partition: bool) -> None:
        """Put a line that holds no steps where it belongs."""
        if isinstance(values, ValueError):
            raise values
        if (line := build(values)) is not None:
            _sort_in(record, line, in_partition=in_partition)
        elif "k" in values:
            self._warn(record.header.rank, f"line {number} of its log is of a kind that this version does not know")
        else:
            raise ValueError("it has no kind")

    def _finish(self, record: RankRecord, saved: StateRecord, current: Current) -> None:
        """Complete a record without an end by what the state file says."""
        if current.ended:
            record.ended = True
            self._warn(record.header.rank, "the end of its log is missing; stages since then come from its state file")
        else:
            if current.log_failing:
                self._warn(
                    record.header.rank,
                    "the end of its log could not be written; stages since then come from its state file",
                )
            record.life = max(record.life, saved.heartbeat)
            record.running = self._is_running(record.header, saved.heartbeat)
        if record.outcome is None and current.outcome >= 0:
            record.outcome = OutcomeLine(
                t=current.totals.t,
                end=ENDS[current.outcome].value,
                failure_class=FAILURE_CLASSES[current.failure_class] if current.failure_class >= 0 else None,
            )
        record.tail = _tail(saved.mark, current, record)

    def _is_running(self, header: Header, heartbeat: int | None = None) -> bool:
        if not self.is_last:
            return False
        gone = process_is_gone(header.host, header.boot, header.pid, header.started_ticks)
        if gone is not None:
            return not gone
        return heartbeat is not None and (header.wall + heartbeat - header.mono) / NS > self.now_unix - LEASE_S

    def _warn(self, rank: int, text: str) -> None:
        self.warnings.append(f"attempt {self.number}, rank {rank}: {text}")


def _and_others(ranks: Mapping[int, int]) -> str:
    return f" (and {len(ranks) - 1} more)" if len(ranks) > 1 else ""


def _disbelief(saved: StateRecord, header: Header, log_bytes: int) -> str | None:
    """Why a state file says nothing of the log beside it; None if it does."""
    if not saved.belongs_to(header):
        return "belongs to another log"
    if saved.current is None:
        return "is empty"
    if saved.mark is not None and saved.mark.log_bytes > log_bytes:
        return f"explains {saved.mark.log_bytes - log_bytes:,} bytes that the log has lost"
    charged = sum(saved.current.totals.stages) + saved.current.pending
    if charged > saved.current.totals.t - header.process_start + _RACE_NS:
        return "says what cannot be: more time than there was since the process began"
    return None


def _is_steps(line: Any) -> bool:
    return isinstance(line, dict) and line.get("k") == StepsLine.KIND


def _ends_in_order(last: bytes) -> bool:
    """Whether one of the last lines is the end of the process; little may come after it."""
    for text in last.split(b"\n")[-4:-1]:
        try:
            if isinstance(decode(text), EndLine):
                return True
        except ValueError:
            continue
    return False


def _sort_in(record: RankRecord, line: Line, *, in_partition: bool) -> None:
    """Put a line where it belongs; what the partition must not use twice is left out of it."""
    if isinstance(line, SpanLine):
        if line.bg:
            record.background.append(line)
        elif in_partition:
            record.spans.append(line)
            record.life = max(record.life, line.t1)
    elif isinstance(line, PhaseLine):
        if in_partition:
            record.phases.append(line)
            record.life = max(record.life, line.t)
    elif isinstance(line, PositionLine):
        record.positions.append(line)
    elif isinstance(line, OutcomeLine):
        record.outcome = line
    elif isinstance(line, NoteLine):
        record.notes.append(line.text)
    elif isinstance(line, EndLine):
        record.life = line.t


def _tail(mark: Mark | None, current: Current, record: RankRecord) -> Tail:
    since = mark.totals if mark else Totals(record.header.process_start, 0, 0, 0, 0, 0, 0, _ZERO)
    now = current.totals if current.totals.t >= since.t else since
    record.life = max(record.life, now.t)
    stages = [max(0, b - a) for a, b in zip(since.stages, now.stages, strict=True)]
    fit_followed = now.stages[AFTER_FIT] < since.stages[AFTER_FIT]
    if fit_followed:
        # It became initialization when the next fit began; the log has it already.
        stages[AFTER_FIT] = now.stages[AFTER_FIT]
        stages[_INITIALIZATION] = max(0, stages[_INITIALIZATION] - since.stages[AFTER_FIT])
    # A step counts when it finished: one that a kill cut short trained nothing.
    unfinished = _UNKNOWN if record.running else _DOWNTIME
    stages[unfinished] += current.pending
    open_stage = current.open_stage
    if open_stage in _STEP_CODES and (current.in_step or record.running):
        open_stage = unfinished
    stages[open_stage] += record.life - now.t
    _fit(stages, record.life - since.t)
    return Tail(
        t0=since.t,
        t1=record.life,
        stages=tuple(stages),
        steps_new=max(0, now.steps_new - since.steps_new),
        steps_repeated=max(0, now.steps_repeated - since.steps_repeated),
        samples_new=max(0, now.samples_new - since.samples_new),
        samples_repeated=max(0, now.samples_repeated - since.samples_repeated),
        position=now.position,
        reached_before=since.high_water,
        reached=now.high_water,
        fit_followed=fit_followed,
    )


def _fit(stages: list[int], total: int) -> None:
    """Take what a span reported late has moved across the mark from the largest stages, so that the sum is exact."""
    excess = sum(stages) - total
    for index in sorted(range(len(stages)), key=lambda i: -stages[i]):
        taken = min(excess, stages[index])
        stages[index] -= taken
        excess -= taken
