"""``ett report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ett_record import report_of


class JobDir(click.Path):
    """The argument that names a job's directory."""

    name = "directory"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take anything but an empty name, which a script's unset variable leaves and which would mean ``.``."""
        if not value:
            self.fail("it is empty: name the directory that EffectiveTrainingTime was given", param, ctx)
        return super().convert(value, param, ctx)


@click.command("report", epilog="Exit status: 0 ok, 1 nothing to report on, 2 wrong usage.")
@click.argument("job_dir", type=JobDir())
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
        click.echo(_as_json(found.to_json()))
        return
    from .terminal import show

    show(found)


def _as_json(value: Any, indent: str = "") -> str:
    """JSON for people as well: a line per key, and a series of numbers in one line."""
    inner = indent + "  "
    match value:
        case {**items} if items:
            lines = [f"{inner}{json.dumps(key)}: {_as_json(item, inner)}" for key, item in items.items()]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        case [{}, *_]:
            return "[\n" + ",\n".join(inner + _as_json(item, inner) for item in value) + f"\n{indent}]"
        case _:
            return json.dumps(value)
