"""``ett ingest``."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from ett_hookspecs import EttError
from ett_record.written import holds_only_what_was_ingested

from .job import Ingested, write_job
from .problems import Problems
from .rows import EventLog, read_events

SCHEMA: Final = "ett.ingest/1"
_SHOWN: Final = 20


@click.command("ingest", epilog="Exit status: 0 ok, 1 no event can be used, 2 wrong usage.")
@click.argument("events", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", "job_dir", metavar="JOB_DIR", required=True, type=click.Path(path_type=Path),
              help="The job directory to write; new or empty.")  # fmt: skip
@click.option("--job", metavar="NAME", help="Which job, where EVENTS holds several.")
@click.option("--force", is_flag=True, help="Replace JOB_DIR if it holds nothing but what was ingested.")
@click.option("--json", "as_json", is_flag=True, help="Print what was read as JSON (schema ett.ingest/1).")
def ingest(events: Path, job_dir: Path, *, job: str | None, force: bool, as_json: bool) -> None:
    """Make a job directory of the EVENTS that another job's log tells of.

    Then `ett report JOB_DIR` says where that job's time went.

    EVENTS is CSV with a header, or JSON lines, with the columns job, attempt, rank, event and time (Unix seconds or RFC
    3339), and position where there is one: the samples, over all ranks, trained before. The events:

    \b
      allocated, started   the hardware was given; the process began
      init_done            all is set up but for the first batch
      first_batch          the first batch is there, its step begins
      step                 a step has ended; position as of then
      save_start/_end      and likewise restore, compile and publish:
                           what training had to wait for
      failed, ended        the process failed; it ended

    JSON lines may also be the entries of ml-goodput-measurement's recorder. What no event explains counts as unknown;
    lines that cannot be used are told on standard error, by number.

    \b
    Examples:
      ett ingest events.csv --out runs/theirs
      ett ingest goodput.jsonl --out runs/theirs --force --json
    """  # noqa: D301  (click wants the character itself)
    problems = Problems()
    with _replacing(job_dir, force=force) as partial:
        log = read_events(events, job, problems)
        try:
            attempts = write_job(log, partial, events.name, problems)
        except OSError as error:
            raise EttError(f"{job_dir} cannot be written: {error.strerror or error}") from error
    for line in problems.lines(_SHOWN):
        click.echo(f"{events}, {line}" if line.startswith("line") else line, err=True)
    if as_json:
        click.echo(json.dumps(_result(log, job_dir, attempts, problems), indent=2))
    else:
        click.echo(_summary(log, job_dir, attempts))


def _result(log: EventLog, job_dir: Path, attempts: Sequence[Ingested], problems: Problems) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "job_id": log.job,
        "job_dir": str(job_dir),
        "format": log.kind,
        "rows": log.rows,
        "used": log.used,
        "left_out": problems.left_out,
        "other_jobs": log.other_jobs,
        "attempts": [asdict(attempt) for attempt in attempts],
        "problem_count": problems.count,
        "problems": [{"line": line, "text": text} for line, text in sorted(problems.found)],
    }


def _summary(log: EventLog, job_dir: Path, attempts: Sequence[Ingested]) -> str:
    others = f", {log.other_jobs:,} rows of other jobs" if log.other_jobs else ""
    left_out = f", {log.problems.left_out:,} lines left out" if log.problems.left_out else ""
    number = f"{len(attempts):,} attempt{'s' if len(attempts) > 1 else ''}"
    return f"Job {log.job}: {number}, {log.used:,} events{left_out}{others}. Now: ett report {job_dir}"


@contextmanager
def _replacing(job_dir: Path, *, force: bool) -> Iterator[Path]:
    """A directory beside the one that is wanted, which becomes it if all goes well, and else is removed.

    Raises:
        EttError: The one that is wanted holds what must not be lost, or cannot be made.
    """
    target = job_dir.resolve()
    in_the_way = _in_the_way(job_dir, target, force=force)
    aside = target.parent / f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
    partial, old = aside.with_name(f"{aside.name}.new"), aside.with_name(f"{aside.name}.old")
    try:
        try:
            partial.mkdir(parents=True)
        except OSError as error:
            raise EttError(f"{job_dir} cannot be made: {error.strerror or error}", exit_code=2) from error
        yield partial
        try:
            if in_the_way:
                target.rename(old)
            partial.rename(target)
        except OSError as error:
            if old.exists():
                old.rename(target)
            raise EttError(f"{job_dir} cannot be made: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _in_the_way(job_dir: Path, target: Path, *, force: bool) -> bool:
    """Whether there is something that may be replaced.

    Raises:
        EttError: There is something that may not.
    """
    if not target.exists():
        return False
    if not target.is_dir():
        raise EttError(f"{job_dir} is not a directory: name one that is new", exit_code=2)
    if not any(target.iterdir()):
        return False
    if not holds_only_what_was_ingested(target):
        raise EttError(f"{job_dir} holds more than what was ingested: name a new directory", exit_code=2)
    if not force:
        raise EttError(
            f"{job_dir} is not empty: name a new directory, or replace what it holds with --force", exit_code=2
        )
    return True
