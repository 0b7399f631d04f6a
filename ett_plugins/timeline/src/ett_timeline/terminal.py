"""A report for people: in a terminal, with rich."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ett_hookspecs import DEFAULT_OWNERS, AttemptEnd, AttemptReport, Durations, Report, Stage

STAGE_COLOURS: Final[Mapping[Stage, str]] = {
    Stage.TRAINING: "#009e73",
    Stage.RETRAINING: "#e69f00",
    Stage.INITIALIZATION: "#56b4e9",
    Stage.COMPILATION: "#0072b2",
    Stage.INPUT_WAIT: "#f0e442",
    Stage.CHECKPOINT_SAVE: "#d55e00",
    Stage.CHECKPOINT_RESTORE: "#a04a00",
    Stage.VALIDATION: "#cc79a7",
    Stage.PUBLISHING: "#8c5a9e",
    Stage.SHUTDOWN: "#b39ddb",
    Stage.SCHEDULING: "#999999",
    Stage.DOWNTIME: "#666666",
    Stage.UNKNOWN: "#bbbbbb",
}
"""Okabe and Ito's colours and shades of them: told apart by the colour-blind."""

_FEW: Final = 4
_BAR_WIDTH: Final = 24
_LIFE_WIDTH: Final = 72
_WIDEST: Final = 100
_FIRST_ATTEMPTS: Final = 3
_LAST_ATTEMPTS: Final = 17
"""Of more attempts than these together, those in the middle are left out."""


def show(report: Report, console: Console | None = None) -> None:
    """Print a report.

    Args:
        report: Any job's.
        console: Where; standard output by default.
    """
    console = console or Console(highlight=False)
    console.width = min(console.width, _WIDEST)
    console.print(
        Group(
            _headline(report),
            _life(report, min(_LIFE_WIDTH, console.width - 4)),
            Text(""),
            Padding(_figures(report), (0, 0, 0, 2)),
            Text(""),
            _stages(report, max(1, min(_BAR_WIDTH, console.width - 52))),
            Text(""),
            _owners(report),
            Text(""),
            _attempts(report, console.width),
            *_sections(report),
            *_warnings(report),
        )
    )


def duration(seconds: float | None) -> str:
    """A duration as people say it."""
    if seconds is None:
        return "-"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole > 0 else "-"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _headline(report: Report) -> RenderableType:
    percent = "-" if report.ett_percent is None else f"{report.ett_percent:.1f} %"
    return Text.assemble(
        ("\nETT ", "bold"),
        (percent, "bold green"),
        f"  of {duration(report.wall_s)}",
        f"  ·  {report.state}",
        f"  ·  {_plural(len(report.attempts), 'attempt')}",
        f"  ·  {_plural(report.world_size, 'rank')}",
        (f"  ·  {report.job_id}", "dim"),
        "\n",
    )


def _life(report: Report, width: int) -> RenderableType:
    """The job in one bar, stages in the order of the table."""
    bar = Text("  ")
    drawn = 0
    reached = 0.0
    for stage in _largest_first(report):
        reached += report.stages[stage]
        until = round(width * reached / report.wall_s) if report.wall_s else 0
        bar.append("█" * (until - drawn), STAGE_COLOURS[stage])
        drawn = until
    return bar


def _figures(report: Report) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("Time to start", duration(report.time_to_start_s), "allocation to the end of the first batch")
    table.add_row(
        "Time to recover", duration(report.time_to_recover_s.mean), _spread(report.time_to_recover_s, "new data again")
    )
    table.add_row(
        "Time to resume", duration(report.time_to_resume_s.mean), _spread(report.time_to_resume_s, "any step again")
    )
    table.add_row("Failures", str(report.failures), "ends by infrastructure")
    trained = report.samples.new + report.samples.repeated
    table.add_row(
        "Samples repeated",
        f"{report.samples.repeated:,}",
        f"{_percent(report.samples.repeated, trained)} of {trained:,} trained; skipped: {report.samples.skipped:,}",
    )
    for name, seconds in sorted(report.background.items()):
        table.add_row(Text(name.removesuffix("_s").replace("_", " ")), duration(seconds), "in the background")
    if report.background:
        table.add_row("Interference", duration(report.interference_s), "steps slowed by background work, estimated")
    rolling = report.sections.get("timeline", {})
    if report.state == AttemptEnd.RUNNING and rolling.get("rolling_ett_percent") is not None:
        table.add_row(
            "ETT lately",
            f"{rolling['rolling_ett_percent']:.1f} %",
            f"over the last {duration(min(report.wall_s, rolling['rolling_window_s']))}",
        )
    return table


def _spread(durations: Durations, until: str) -> str:
    if not durations.each:
        return "no restart yet"
    if len(durations.each) == 1:
        return f"last new data to {until}"
    if len(durations.each) <= _FEW:
        return f"to {until}: " + ", ".join(duration(seconds) for seconds in durations.each)
    return f"to {until}: p50 {duration(durations.p50)}, p95 {duration(durations.p95)}, max {duration(durations.max)}"


def _largest_first(report: Report) -> list[Stage]:
    """Training, then what it was lost to."""
    lost = [stage for stage in Stage if stage is not Stage.TRAINING and report.stages.get(stage, 0.0) > 0]
    return [Stage.TRAINING, *sorted(lost, key=lambda stage: -report.stages[stage])]


def _bar(share: float, colour: str, width: int = _BAR_WIDTH) -> Text:
    eighths = round(8 * width * share)
    return Text("█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip(), colour)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _stages(report: Report, bar_width: int) -> RenderableType:
    table = _table("Where the time went")
    table.add_column("stage", no_wrap=True)
    table.add_column("", width=bar_width)
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    table.add_column("owner", style="dim")
    for stage in _largest_first(report):
        seconds = report.stages.get(stage, 0.0)
        share = seconds / report.wall_s if report.wall_s else 0.0
        table.add_row(
            stage.value,
            _bar(share, STAGE_COLOURS[stage], bar_width),
            f"{seconds:,.2f}",
            f"{100 * share:.1f} %",
            DEFAULT_OWNERS.get(stage, ""),
        )
    return table


def _owners(report: Report) -> RenderableType:
    table = _table("Who owns what was lost")
    table.add_column("owner")
    table.add_column("", width=_BAR_WIDTH)
    table.add_column("seconds", justify="right")
    table.add_column("of the job", justify="right")
    for owner, seconds in sorted(report.owners.items(), key=lambda item: -item[1]):
        share = seconds / report.wall_s if report.wall_s else 0.0
        table.add_row(Text(owner), _bar(share, "#999999"), f"{seconds:,.2f}", f"{100 * share:.1f} %")
    return table


def _attempts(report: Report, width: int) -> RenderableType:
    shown = [column for column in _ATTEMPT_COLUMNS if width >= column.from_width]
    table = _table("Attempts")
    for column in shown:
        table.add_column(column.name, justify=column.justify, no_wrap=True)
    attempts = report.attempts
    left_out = len(attempts) - _FIRST_ATTEMPTS - _LAST_ATTEMPTS
    if left_out <= 1:
        first, last = attempts, attempts[:0]
    else:
        first, last = attempts[:_FIRST_ATTEMPTS], attempts[-_LAST_ATTEMPTS:]
    for attempt in (*first, *last):
        table.add_row(*(column.cell(attempt) for column in shown))
        if last and attempt is first[-1]:
            table.add_row("⋮")
    if not last:
        return table
    return Group(table, Text(f" ⋮ {left_out:,} more attempts; --json has them all", "dim"))


def _end(attempt: AttemptReport) -> Text:
    colour = {"finished": "green", "running": "cyan", "preempted": "yellow"}.get(attempt.end, "red")
    return Text(attempt.end, colour)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of attempts.

    Attributes:
        name: Its head.
        cell: What it says of an attempt.
        from_width: Narrower terminals do without it.
        justify: Where its text stands.
    """

    name: str
    cell: Callable[[AttemptReport], str | Text]
    from_width: int = 0
    justify: Literal["left", "right"] = "right"


_ATTEMPT_COLUMNS: Final = (
    _Column("#", lambda attempt: str(attempt.number)),
    _Column("began (UTC)", lambda attempt: _moment(attempt.process_start_unix), 76, "left"),
    _Column("wall", lambda attempt: duration(attempt.wall_s)),
    _Column("end", _end, justify="left"),
    _Column("from sample", lambda attempt: f"{attempt.resumed_from_samples:,}", 100),
    _Column("to sample", lambda attempt: f"{attempt.reached_samples:,}"),
    _Column("repeated", lambda attempt: f"{attempt.samples.repeated:,}", 90),
    _Column("ETT", lambda attempt: _percent(attempt.stages.get(Stage.TRAINING, 0.0), attempt.wall_s)),
)


def _moment(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%d %b %H:%M:%S")


def _sections(report: Report) -> list[RenderableType]:
    """What other plugins have added, as far as it is plain."""
    lines: list[RenderableType] = []
    for plugin, section in sorted(report.sections.items()):
        if plugin == "timeline":
            continue
        plain = [f"{key} {_plain(value)}" for key, value in section.items() if isinstance(value, (str, int, float))]
        if plain:
            lines.append(Text.assemble(("  " + plugin, "bold"), "  " + "  ·  ".join(plain)))
    return lines


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _warnings(report: Report) -> list[RenderableType]:
    return [Text(f"  ! {warning}", "yellow") for warning in report.warnings]
