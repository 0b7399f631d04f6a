"""Opens the record of this process in a job's directory, once, and closes it when the process ends."""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import multiprocessing.util
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .clock import ClockAnchor, allocation_time, boot_id, process_start_monotonic_ns, process_start_ticks
from .files import read_regular
from .job import (
    Claim,
    JobDirectoryInUse,
    attempt_dir,
    attempt_numbers,
    claim,
    launcher_run_id,
    rank_log,
    rank_state,
    release,
    renew,
)
from .lines import DAMAGED, Header, StepsLine, decode_lines
from .recorder import Recorder
from .state import StateFile, read_state
from .steps import Steps
from .writer import LogWriter

log = logging.getLogger(__name__)

Share = Callable[["Opening | str"], "Opening | str"]
"""Gives every rank what rank zero has: a broadcast."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What every rank must know to write its part of an attempt.

    Attributes:
        claim: Job, attempt, and why the attempt before is over.
        high_water: Position that earlier attempts had reached.
    """

    claim: Claim
    high_water: int


@dataclass(frozen=True, slots=True)
class Recording:
    """The record of this process.

    Attributes:
        job_id: The job's identity.
        attempt: This launch's number, from 1.
        high_water: Position that earlier attempts had reached.
        recorder: What to tell.
    """

    job_id: str
    attempt: int
    high_water: int
    recorder: Recorder


class OpenRecordings:
    """The records that this process has open, and those it was refused: a process is one attempt of a job.

    Attributes:
        answers: What rank zero was told of each directory, by resolved path.
        recordings: This rank's records, by job and attempt; None where it trains unmeasured.
        lock: Held while one is opened.
    """

    def __init__(self) -> None:
        self.answers: dict[Path, Opening | str] = {}
        self.recordings: dict[tuple[str, int], Recording | None] = {}
        self.lock = threading.RLock()


_OPEN = OpenRecordings()


def _disown() -> None:
    """This is a forked child: what is open is its parent's."""
    global _OPEN  # noqa: PLW0603
    for recording in _OPEN.recordings.values():
        if recording is not None:
            recording.recorder.disown()
    _OPEN = OpenRecordings()


os.register_at_fork(after_in_child=_disown)


def open_recording(
    job_dir: Path,
    *,
    rank: int = 0,
    world_size: int = 1,
    share: Share = lambda opening: opening,
    versions: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Recording | None:
    """Open the record of this process, or return the one that is open: a process is one attempt of a job.

    Whatever goes wrong is one warning, and the job trains unmeasured.

    Args:
        job_dir: Local or shared POSIX path; made if missing.
        rank: Global rank of this process.
        world_size: Number of ranks.
        share: Broadcasts rank zero's value. Every rank calls it, once, whether it has a record or not.
        versions: Of what matters, for the header.
        environ: Where launchers and schedulers leave their facts.

    Returns:
        The record, or None if this rank trains unmeasured.

    *Runs on* every rank, at the same point of the program.
    """
    job_dir = _resolved(job_dir)
    with _OPEN.lock:
        opening = share(_answer(job_dir, environ) if rank == 0 else "rank zero decides")
        if isinstance(opening, str):
            return None
        key = (opening.claim.job_id, opening.claim.attempt)
        if key not in _OPEN.recordings:
            _OPEN.recordings[key] = _open_rank(job_dir, opening, rank, world_size, versions or {}, environ)
        return _OPEN.recordings[key]


def _answer(job_dir: Path, environ: Mapping[str, str]) -> Opening | str:
    """What rank zero tells the others, the same each time it is asked about a directory."""
    if job_dir not in _OPEN.answers:
        answer = _OPEN.answers[job_dir] = _open_attempt(job_dir, environ)
        if isinstance(answer, str):
            log.warning("%s", answer)
    return _OPEN.answers[job_dir]


def _resolved(job_dir: Path) -> Path:
    """The one spelling of a directory, which stays right wherever the process goes."""
    try:
        return job_dir.resolve()
    except (OSError, RuntimeError, ValueError):
        # No path at all, a loop of links, no working directory: rank zero will say so when it cannot be opened.
        return job_dir


def _open_attempt(job_dir: Path, environ: Mapping[str, str]) -> Opening | str:
    try:
        # Read before the claim makes the new attempt's directory.
        reached = high_water_mark(job_dir)
        return Opening(claim(job_dir, environ), reached)
    except JobDirectoryInUse as refused:
        return str(refused)
    except Exception as error:  # noqa: BLE001  (the other ranks wait for an answer)
        return (
            f"{job_dir} cannot hold a timeline ({error}): this job trains unmeasured; name a directory that can be "
            f"written"
        )


def _open_rank(
    job_dir: Path, opening: Opening, rank: int, world_size: int, versions: Mapping[str, str], environ: Mapping[str, str]
) -> Recording | None:
    job_id, attempt = opening.claim.job_id, opening.claim.attempt
    anchor = ClockAnchor.now()
    started = process_start_monotonic_ns()
    process_start = anchor.monotonic_ns if started is None else started
    allocated, notes = allocation_time(environ, anchor.wall(process_start))
    if rank == 0:
        notes += opening.claim.notes
    if started is None:
        notes.append("the system does not say when a process started; time before the Trainer's setup is missing")
    directory = attempt_dir(job_dir, attempt)
    header = Header(
        job=job_id,
        attempt=attempt,
        rank=rank,
        world=world_size,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_ticks=process_start_ticks(os.getpid()),
        boot=boot_id(),
        run=launcher_run_id(environ),
        wall=anchor.wall_ns,
        mono=anchor.monotonic_ns,
        process_start=process_start,
        allocated=allocated,
        predecessor=opening.claim.predecessor,
        notes=tuple(notes),
        versions=dict(versions),
    )
    try:
        writer = LogWriter(rank_log(directory, rank), header)
    except OSError as error:
        log.warning("rank %d trains unmeasured: its log cannot be written (%s)", rank, error)
        return None
    try:
        state = StateFile(rank_state(directory, rank), header)
    except OSError as error:
        log.warning("rank %d: a kill will lose up to a second of its timeline (%s)", rank, error)
        state = StateFile.nowhere()
    for note in notes:
        log.warning("%s", note)
    recorder = Recorder(
        writer,
        state,
        anchor,
        process_start_ns=process_start,
        high_water=opening.high_water,
        on_beat=(lambda: renew(job_dir, attempt)) if rank == 0 else None,
    )

    process = os.getpid()

    def close() -> None:
        if os.getpid() != process:
            # A forked child that runs its parent's exit handlers.
            return
        try:
            recorder.finish()
        finally:
            if rank == 0:
                release(job_dir, attempt)

    atexit.register(close)
    if multiprocessing.parent_process() is not None:
        # Processes that multiprocessing forks leave without the interpreter's exit handlers.
        multiprocessing.util.Finalize(None, close, exitpriority=0)
    return Recording(job_id, attempt, opening.high_water, recorder)


def high_water_mark(job_dir: Path) -> int:
    """Highest sample position that any attempt so far has reached; 0 for a new job."""
    reached = 0
    for number in attempt_numbers(job_dir):
        for path in attempt_dir(job_dir, number).glob("rank-*.jsonl"):
            try:
                current = read_state(path.with_suffix(".state")).current
            except (OSError, ValueError):
                current = None
            reached = max(reached, _reached_by_log(path) if current is None else current.totals.high_water)
    return reached


def _reached_by_log(path: Path) -> int:
    steps = Steps()
    # What cannot be read is in the report's warnings, and no reason to train unmeasured.
    with contextlib.suppress(OSError, ValueError):
        data = read_regular(path)
        for block in decode_lines(data, 0, data.rfind(b"\n") + 1):
            for values in block:
                with contextlib.suppress(*DAMAGED):
                    if values["k"] == StepsLine.KIND:
                        steps.extend([values])
    return max(steps.p1, default=0)
