"""Writes the directory of a job that was not recorded as it happened: lines that are known already, and their sum.

What is written is read like any other job. No process is behind it, so that it never counts as running and holds no
lock; a training may go on in the same directory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from .clock import NS
from .files import read_json, write_json
from .job import JOB_SCHEMA, attempt_dir, attempt_numbers, rank_log, rank_state
from .lines import (
    LARGEST,
    EndLine,
    Header,
    Line,
    NoteLine,
    OutcomeLine,
    Phase,
    PhaseLine,
    PositionLine,
    SpanLine,
    StepsLine,
    encode,
)
from .state import ENDS, FAILURE_CLASSES, STAGE_COUNT, Current, StateFile, Totals, flatten

__all__ = [
    "AXIS_NS",
    "ENDS",
    "FAILURE_CLASSES",
    "INGESTED_HOST",
    "LARGEST",
    "NS",
    "STAGE_COUNT",
    "Current",
    "EndLine",
    "Header",
    "NoteLine",
    "OutcomeLine",
    "Phase",
    "PhaseLine",
    "PositionLine",
    "RankWriter",
    "SpanLine",
    "Totals",
    "holds_only_what_was_ingested",
    "ingested_header",
    "write_identity",
]

INGESTED_HOST: Final = "ingested"
"""Host and boot of what no process wrote; no machine can say whether it is alive, and its heart never beat."""

AXIS_NS: Final = NS
"""What the axis of the lines is ahead of the epoch: no moment is 0, which stands for none, and a heart that never beat
stood still before anything began."""

_BUFFERED_LINES: Final = 4096


def ingested_header(
    *, job: str, attempt: int, rank: int, world: int, start: int, allocated: int | None, **more: Any
) -> Header:
    """The header of a log that no process wrote.

    Times, here and in the lines, are nanoseconds since the epoch and :data:`AXIS_NS`.

    Args:
        job: The job's id.
        attempt: From 1.
        rank: Global rank.
        world: Number of ranks.
        start: Process start.
        allocated: Allocation, or None.
        **more: Further fields of :class:`~ett_record.lines.Header`.
    """
    return Header(
        job=job,
        attempt=attempt,
        rank=rank,
        world=world,
        host=INGESTED_HOST,
        pid=0,
        # One boot for all: the times of one log are of one axis.
        boot=INGESTED_HOST,
        wall=start - AXIS_NS,
        mono=start,
        process_start=start,
        allocated=None if allocated is None else allocated - AXIS_NS,
        **{"versions": {}, **more},
    )


class RankWriter:
    """A rank's log and state file, written once from beginning to end.

    Used as a context manager, it closes the log; :meth:`finish` must have been called.

    Raises:
        OSError: The disk refuses.
    """

    def __init__(self, job_dir: Path, header: Header) -> None:
        directory = attempt_dir(job_dir, header.attempt)
        directory.mkdir(parents=True, exist_ok=True)
        self._state = rank_state(directory, header.rank)
        self._log = rank_log(directory, header.rank).open("xb")
        self._header = header
        self._lines = [encode(header)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._log.close()

    def put(self, line: Line) -> None:
        """Write a line; the end of the process, where it is known, comes last."""
        self._lines.append(encode(line))
        if len(self._lines) >= _BUFFERED_LINES:
            self._flush()

    def put_steps(self, t0: int, t1: int, n: int, p0: int, p1: int) -> None:
        """Write a :class:`~ett_record.lines.StepsLine` without waits. There may be a million."""
        self._lines.append(_STEPS % (t0, t1, n, p0, p1))
        if len(self._lines) >= _BUFFERED_LINES:
            self._flush()

    def finish(self, current: Current) -> None:
        """Write the state file: the log explains everything.

        Args:
            current: As of the rank's last sign of life.
        """
        self._flush()
        state = StateFile(self._state, self._header)
        try:
            state.write_mark(current.totals, self._log.tell())
            rest = (getattr(current, each.name) for each in fields(Current) if each.name != "totals")
            state.write_current((*flatten(current.totals), *rest))
        finally:
            state.close()

    def _flush(self) -> None:
        self._log.write(b"".join(self._lines))
        self._log.flush()
        self._lines.clear()


_STEPS: Final = b'{"k":"' + StepsLine.KIND.encode() + b'","t0":%d,"t1":%d,"n":%d,"wait":0,"p0":%d,"p1":%d}\n'


def write_identity(job_dir: Path, job_id: str, ingested: Mapping[str, Any]) -> None:
    """Say whose directory this is, and that its attempts so far were ingested.

    Args:
        job_dir: The job's directory, its attempts written.
        job_id: The job's id.
        ingested: Where the attempts are from, JSON types only.
    """
    values = {
        "schema": JOB_SCHEMA,
        "job_id": job_id,
        "created_unix": time.time(),
        "ingested": {**ingested, "attempts": attempt_numbers(job_dir)},
    }
    write_json(job_dir / "job.json", values)


def holds_only_what_was_ingested(job_dir: Path) -> bool:
    """Whether nothing is lost with a directory that could not be written again from the same events."""
    try:
        ingested = read_json(job_dir / "job.json")["ingested"]["attempts"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    known = {"job.json", "timeline"}
    return attempt_numbers(job_dir) == ingested and {entry.name for entry in job_dir.iterdir()} <= known
