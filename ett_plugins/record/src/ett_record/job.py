"""A job's directory: its identity, its one writer, its attempts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .clock import boot_id, process_start_ticks
from .files import read_json, read_regular, write_json
from .lines import DAMAGED, decode_header

JOB_SCHEMA: Final = "ett.job/1"
LEASE_S: Final = 30.0
"""How long a writer on another host is believed without a sign of life."""

_GUARD_WAIT_S: Final = 5.0
_LARGEST_PID: Final = 2**31 - 1


class JobDirectoryInUse(Exception):
    """Another job writes here, or a newer version did; the text says who."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write an attempt.

    Attributes:
        job_id: The job's identity.
        attempt: The new attempt's number.
        predecessor: Why the attempt before is known to be over, see :class:`ett_record.lines.Header`.
        notes: What was found damaged on the way, for the report.
    """

    job_id: str
    attempt: int
    predecessor: str | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Owner:
    host: str
    boot: str
    pid: int
    started_ticks: int | None
    run: str | None
    attempt: int


_OWNER_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "host": (str,),
    "boot": (str,),
    "pid": (int,),
    "started_ticks": (int, type(None)),
    "run": (str, type(None)),
    "attempt": (int,),
}


def timeline_dir(job_dir: Path) -> Path:
    """Where a job's timeline is kept."""
    return job_dir / "timeline"


def attempt_dir(job_dir: Path, number: int) -> Path:
    """Where an attempt's files are kept."""
    return timeline_dir(job_dir) / f"attempt-{number:04d}"


def attempt_numbers(job_dir: Path) -> list[int]:
    """The attempts that left a directory, in order.

    Raises:
        OSError: The timeline cannot be listed.
    """
    with contextlib.suppress(FileNotFoundError):
        names = {entry.name for entry in timeline_dir(job_dir).iterdir() if entry.is_dir()}
        numbers = (int(match[1]) for name in names if (match := re.fullmatch(r"attempt-(\d{4,9})", name)))
        # One spelling each: attempt-00001 is nobody's.
        return sorted(number for number in numbers if number and attempt_dir(job_dir, number).name in names)
    return []


def rank_log(attempt: Path, rank: int) -> Path:
    """A rank's log in an attempt's directory."""
    return attempt / f"rank-{rank:05d}.jsonl"


def rank_state(attempt: Path, rank: int) -> Path:
    """A rank's state file in an attempt's directory."""
    return attempt / f"rank-{rank:05d}.state"


def launcher_run_id(environ: Mapping[str, str]) -> str | None:
    """What two launches by the same launcher have in common, and launches by two never have.

    A Slurm job's id alone is shared by whatever its script starts; with the step's it is a launch's own.

    ``torchrun`` calls every run ``none`` unless it is told otherwise; that says nothing and counts as no id.
    """
    torchelastic = environ.get("TORCHELASTIC_RUN_ID", "")
    if torchelastic and torchelastic != "none":
        return f"torchelastic:{torchelastic}"
    if environ.get("SLURM_JOB_ID"):
        return f"slurm:{environ['SLURM_JOB_ID']}.{environ.get('SLURM_STEP_ID', '')}"
    return None


def _is_one_launchs(run: str) -> bool:
    """Whether a launcher's run id belongs to one launch alone: a Slurm job without steps may run several programs."""
    return not (run.startswith("slurm:") and run.endswith("."))


def claim(job_dir: Path, environ: Mapping[str, str]) -> Claim:
    """Become the one writer of a job and open its next attempt.

    A dead writer on this host, and one of the same launcher run, is taken over at once; a writer elsewhere after
    :data:`LEASE_S` without a sign of life.

    Args:
        job_dir: The job's directory; made if missing.
        environ: Where launchers leave their ids.

    Raises:
        JobDirectoryInUse: Another job writes here.
        OSError: The directory cannot be made or written.

    *Runs on* rank zero.
    """
    home = timeline_dir(job_dir)
    home.mkdir(parents=True, exist_ok=True)
    run = launcher_run_id(environ)
    notes: list[str] = []
    with _guarded(home):
        predecessor = _why_over(home, run, notes)
        job_id = _identity(job_dir, notes)
        number = max(attempt_numbers(job_dir), default=0) + 1
        attempt_dir(job_dir, number).mkdir()
        owner = _Owner(socket.gethostname(), boot_id(), os.getpid(), process_start_ticks(os.getpid()), run, number)
        _write_atomically(_lock_file(home), asdict(owner))
    return Claim(job_id, number, predecessor if number > 1 else None, tuple(notes))


def renew(job_dir: Path, attempt: int) -> None:
    """A sign of life for the lease, every second. Does nothing once another attempt holds the lock."""
    path = _lock_file(timeline_dir(job_dir))
    with contextlib.suppress(OSError):
        if _is_mine(_read_owner(path), attempt):
            os.utime(path)


def release(job_dir: Path, attempt: int) -> None:
    """The attempt has ended in order; the next one need not wait."""
    home = timeline_dir(job_dir)
    path = _lock_file(home)
    # Where that fails the lock stays, and a dead process's lock holds nobody up.
    with contextlib.suppress(OSError, JobDirectoryInUse), _guarded(home):
        if _is_mine(_read_owner(path), attempt):
            path.unlink()


def process_is_gone(host: str, boot: str, pid: int, started_ticks: int | None) -> bool | None:
    """Whether a process has ended; None if this host, or this boot of it, cannot say."""
    if host != socket.gethostname() or boot != boot_id():
        return None
    if not 0 < pid <= _LARGEST_PID:
        # No process has such an id, and a signal to it would reach others.
        return True
    ticks = process_start_ticks(pid)
    if ticks is not None:
        return started_ticks is not None and ticks != started_ticks
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    # Something has the id and is no process that runs: a zombie, where the OS tells such things at all.
    return process_start_ticks(os.getpid()) is not None


def _why_over(home: Path, run: str | None, notes: list[str]) -> str:
    owner = _read_owner(_lock_file(home), notes)
    if owner is None:
        return "ended"
    gone = process_is_gone(owner.host, owner.boot, owner.pid, owner.started_ticks)
    if run is not None and owner.run == run and (_is_one_launchs(run) or gone is not False):
        return "same_run"
    if gone:
        return "dead"
    if gone is None and time.time() - _lock_file(home).stat().st_mtime > LEASE_S:
        return "expired"
    raise JobDirectoryInUse(
        f"{home.parent} is being written by process {owner.pid} on host {owner.host}: this job trains unmeasured; give "
        f"each job a directory of its own"
    )


def _is_mine(owner: _Owner | None, attempt: int) -> bool:
    """Whether this process holds the lock; where a directory was deleted and made anew another one's has its number."""
    me = os.getpid()
    return owner is not None and (owner.attempt, owner.pid, owner.started_ticks) == (
        attempt, me, process_start_ticks(me)
    )  # fmt: skip


def _identity(job_dir: Path, notes: list[str]) -> str:
    path = job_dir / "job.json"
    values = _read_values(path, notes)
    if values is not None:
        schema = values.get("schema", JOB_SCHEMA)
        if schema != JOB_SCHEMA:
            raise JobDirectoryInUse(
                f"{path} was written with schema {schema!r:.40} and this version writes {JOB_SCHEMA!r}: this job "
                f"trains unmeasured; upgrade ett-record, or give it a directory of its own"
            )
        job_id = values.get("job_id")
        if isinstance(job_id, str) and job_id.strip():
            return job_id
        notes.append(f"{path} names no job ({job_id!r:.40})")
    job_id = _identity_in_logs(job_dir, notes)
    if job_id is None:
        job_id = f"{job_dir.resolve().name or 'job'}-{secrets.token_hex(4)}"
        if notes or attempt_numbers(job_dir):
            notes.append(
                f"neither job.json nor a log says what job this is: it is {job_id} from here on, and checkpoints saved "
                f"before count as another job's"
            )
    _write_atomically(path, {"schema": JOB_SCHEMA, "job_id": job_id, "created_unix": time.time()})
    return job_id


def _identity_in_logs(job_dir: Path, notes: list[str]) -> str | None:
    """What the newest readable log calls the job."""
    for number in reversed(attempt_numbers(job_dir)):
        for log in sorted(attempt_dir(job_dir, number).glob("rank-*.jsonl")):
            with contextlib.suppress(OSError, *DAMAGED):
                job_id = decode_header(read_regular(log).partition(b"\n")[0]).job
                if job_id.strip():
                    notes.append(f"the job's identity was taken from {log}, since job.json did not say it")
                    return job_id
    return None


def _lock_file(home: Path) -> Path:
    return home / "writer.json"


def _read_owner(path: Path, notes: list[str] | None = None) -> _Owner | None:
    """Who holds the lock; None if nobody does, or nobody can tell."""
    notes = [] if notes is None else notes
    values = _read_values(path, notes)
    if values is None:
        return None
    # What a later version may add is left out, and is no damage.
    known: dict[str, Any] = {name: values.get(name) for name in _OWNER_TYPES}
    for name, value in known.items():
        if type(value) not in _OWNER_TYPES[name] or (name == "pid" and not 0 < value <= _LARGEST_PID):
            notes.append(f"{path} was damaged (its {name} is {value!r:.40}) and holds nobody up")
            return None
    return _Owner(**known)


def _read_values(path: Path, notes: list[str]) -> dict[str, Any] | None:
    """The object in a small JSON file; None if there is no file, and, with a note, if it is damaged.

    Raises:
        OSError: What it holds cannot be told, and may be whole.
    """
    try:
        values = read_json(path)
    except FileNotFoundError:
        return None
    except (IsADirectoryError, ValueError) as error:
        notes.append(f"{path} cannot be read ({error})")
        return None
    if not isinstance(values, dict):
        notes.append(f"{path} holds no JSON object")
        return None
    return values


def _write_atomically(path: Path, values: dict[str, Any]) -> None:
    if path.is_dir():
        # A file cannot replace it.
        path.rename(path.with_name(f"{path.name}.{secrets.token_hex(4)}"))
    write_json(path, values)


@contextlib.contextmanager
def _guarded(home: Path) -> Iterator[None]:
    """Only one process at a time looks at the lock and replaces it."""
    descriptor = os.open(home / ".guard", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _GUARD_WAIT_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise JobDirectoryInUse(
                        f"another process has been opening {home.parent} for {_GUARD_WAIT_S:.0f} s: this job trains "
                        f"unmeasured"
                    ) from None
                time.sleep(0.01)
        try:
            yield
        finally:
            # A child that was forked meanwhile has the descriptor too, and would go on holding the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
