"""``ett report``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ett_record import report_of


@click.command("report", epilog="Exit status: 0 ok, 1 nothing to report on, 2 wrong usage.")
@click.argument("job_dir", type=click.Path(path_type=Path))
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as JSON (schema ett.report/1) and nothing else."
)
def report(job_dir: Path, *, as_json: bool) -> None:
    """Say where the time of the job in JOB_DIR went, and who owns it.

    JOB_DIR is the directory that EffectiveTrainingTime was given. The job may be running.

    ETT% is the share of the job's wall time, over all its restarts, in which training advanced on new data. Every other
    second belongs to one stage, and each stage has an owner:

    \b
      scheduler   scheduling, downtime
      trainer     initialization, validation
      data        input_wait
      compiler    compilation
      checkpoint  checkpoint_save, checkpoint_restore, retraining
      publisher   publishing, shutdown

    \b
    Examples:
      ett report runs/job1
      ett report runs/job1 --json | jq .ett_percent
    """  # noqa: D301  (click wants the character itself)
    found = report_of(job_dir)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
        return
    from .terminal import show

    show(found)
