"""A report for people: in a terminal, with rich."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ett_hookspecs import DEFAULT_OWNERS, AttemptEnd, AttemptReport, Durations, Report, Stage
from ett_hookspecs.output import draw

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
_INDENT: Final = 2
_SHOWN_S: Final = 0.005
"""Less than this would read as 0.00."""
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
    draw(page(report, console), console)


def page(report: Report, console: Console) -> RenderableType:
    """A report, drawn for a console: no wider than that, and without what only colours tell where it has none."""
    console.width = min(console.width, _WIDEST)
    parts = [
        _headline(report),
        *_life(report, console),
        _indented(_figures(report)),
        *_stages(report, max(1, min(_BAR_WIDTH, console.width - 55))),
        *_owners(report),
        *_attempts(report, console),
        *_sections(report),
        *_warnings(report),
    ]
    return Group(*parts)


def _indented(part: RenderableType) -> RenderableType:
    return Padding(part, (0, 0, 0, _INDENT))


def _titled(title: str, table: Table, *notes: str) -> list[RenderableType]:
    """A table under its title, with footnotes."""
    return [Text(f"\n{title}\n", "bold"), _indented(table), *(_indented(Text(note, "dim")) for note in notes)]


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


def _life(report: Report, console: Console) -> list[RenderableType]:
    """The job in one bar, stages in the order of the table, told apart by nothing but colour."""
    if console.no_color or console.color_system is None:
        return []
    width = min(_LIFE_WIDTH, console.width - 2 * _INDENT)
    bar = Text()
    drawn = 0
    reached = 0.0
    for stage in _largest_first(report):
        reached += report.stages[stage]
        until = round(width * reached / report.wall_s) if report.wall_s else 0
        bar.append("█" * (until - drawn), STAGE_COLOURS[stage])
        drawn = until
    return [_indented(bar), Text("")]


def _figures(report: Report) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row("Time to start", duration(report.time_to_start_s), "from allocation to the end of the first batch")
    table.add_row(
        "Time to recover",
        duration(report.time_to_recover_s.mean),
        _restarts(report, report.time_to_recover_s, "new step", "got to new data"),
    )
    table.add_row(
        "Time to resume",
        duration(report.time_to_resume_s.mean),
        _restarts(report, report.time_to_resume_s, "step", "trained a step"),
    )
    table.add_row("Failures", str(report.failures), "attempts ended by infrastructure")
    trained = report.samples.new + report.samples.repeated
    if trained:
        share = f"{_percent(report.samples.repeated, trained)} of {trained:,} trained"
        table.add_row("Samples repeated", f"{report.samples.repeated:,}", share)
    if report.samples.skipped:
        table.add_row("Samples skipped", f"{report.samples.skipped:,}", "jumped over by a resume")
    for name, seconds in sorted(report.background.items()):
        if seconds >= _SHOWN_S:
            label = name.removesuffix("_s").replace("_", " ")
            table.add_row(Text(label), duration(seconds), "in the background, while training went on")
    if report.interference_s >= _SHOWN_S:
        table.add_row("Interference", duration(report.interference_s), "steps slowed by background work, estimated")
    rolling = report.sections.get("timeline", {})
    lately, window_s = rolling.get("rolling_ett_percent"), rolling.get("rolling_window_s", 0.0)
    if report.state == AttemptEnd.RUNNING and lately is not None and report.wall_s > window_s:
        table.add_row("ETT lately", f"{lately:.1f} %", f"over the last {duration(window_s)}")
    return table


def _restarts(report: Report, durations: Durations, until: str, reached: str) -> str:
    """What a figure of restarts measures and how it is spread, or why there is none."""
    if not durations.each:
        if len(report.attempts) < 2:
            return "no restart"
        if not any(attempt.steps.new for attempt in report.attempts[:-1]):
            return "no restart after a first step"
        return f"no restart has {reached}"
    meaning = f"from the last new step to the next {until}"
    if len(durations.each) == 1:
        return meaning
    if len(durations.each) <= _FEW:
        spread = ", ".join(duration(seconds) for seconds in durations.each)
    else:
        spread = f"p50 {duration(durations.p50)}, p95 {duration(durations.p95)}, max {duration(durations.max)}"
    return f"{meaning}\nmean of {len(durations.each):,}: {spread}"


def _largest_first(report: Report) -> list[Stage]:
    """Training, then what it was lost to."""
    lost = [stage for stage in Stage if stage is not Stage.TRAINING and report.stages.get(stage, 0.0) >= _SHOWN_S]
    return [Stage.TRAINING, *sorted(lost, key=lambda stage: -report.stages[stage])]


def _bar(share: float, colour: str, width: int = _BAR_WIDTH) -> Text:
    eighths = round(8 * width * share)
    return Text("█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip(), colour)


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def _stages(report: Report, bar_width: int) -> list[RenderableType]:
    table = _table()
    table.add_column("stage", no_wrap=True)
    table.add_column("", width=bar_width)
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    table.add_column("default owner", style="dim")
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
    notes = []
    if any(attempt.world_size > 1 for attempt in report.attempts):
        notes = ["Means over ranks; the ETT above counts the seconds of every rank."]
    return _titled("Where the time went", table, *notes)


def _owners(report: Report) -> list[RenderableType]:
    owners = {owner: seconds for owner, seconds in report.owners.items() if seconds >= _SHOWN_S}
    if not owners:
        return []
    table = _table()
    table.add_column("owner")
    table.add_column("", width=_BAR_WIDTH)
    table.add_column("seconds", justify="right")
    table.add_column("of the job", justify="right")
    for owner, seconds in sorted(owners.items(), key=lambda item: -item[1]):
        share = seconds / report.wall_s if report.wall_s else 0.0
        table.add_row(Text(owner), _bar(share, "#999999"), f"{seconds:,.2f}", f"{100 * share:.1f} %")
    return _titled("Who owns what was lost", table)


def _attempts(report: Report, console: Console) -> list[RenderableType]:
    attempts = report.attempts
    left_out = len(attempts) - _FIRST_ATTEMPTS - _LAST_ATTEMPTS
    if left_out <= 1:
        first, last = attempts, attempts[:0]
    else:
        first, last = attempts[:_FIRST_ATTEMPTS], attempts[-_LAST_ATTEMPTS:]
    gaps = any(_gap_s(attempt) >= _SHOWN_S for attempt in attempts)
    columns = tuple(column for column in _ATTEMPT_COLUMNS if gaps or column.name != "gap")
    table = _attempt_table(columns, first, last)
    for name in _DROPPED_FIRST:
        if _natural_width(table, console) <= console.width - _INDENT:
            break
        columns = tuple(column for column in columns if column.name != name)
        table = _attempt_table(columns, first, last)
    notes = []
    if last:
        notes.append(f"⋮ {left_out:,} more attempts; --json has them all")
    if gaps:
        notes.append("Wall and ETT include the gap before the process began.")
    return _titled("Attempts", table, *notes)


def _natural_width(table: Table, console: Console) -> int:
    """What a table takes where nothing limits it, in columns of the terminal."""
    return console.measure(table, options=console.options.update(width=10_000)).maximum


def _attempt_table(columns: Sequence[_Column], first: Sequence[AttemptReport], last: Sequence[AttemptReport]) -> Table:
    table = _table()
    for column in columns:
        table.add_column(column.name, justify=column.justify, no_wrap=True)
    for attempt in first:
        table.add_row(*(column.cell(attempt) for column in columns))
    if last:
        table.add_row("⋮")
    for attempt in last:
        table.add_row(*(column.cell(attempt) for column in columns))
    return table


def _end(attempt: AttemptReport) -> Text:
    colour = {"finished": "green", "running": "cyan", "preempted": "yellow"}.get(attempt.end, "red")
    return Text(attempt.end, colour)


def _gap_s(attempt: AttemptReport) -> float:
    """Seconds between the end of what was before and the start of its process: downtime or scheduling."""
    return max(0.0, attempt.process_start_unix - attempt.start_unix)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of attempts.

    Attributes:
        name: Its head.
        cell: What it says of an attempt.
        justify: Where its text stands.
    """

    name: str
    cell: Callable[[AttemptReport], str | Text]
    justify: Literal["left", "right"] = "right"


_ATTEMPT_COLUMNS: Final = (
    _Column("#", lambda attempt: str(attempt.number)),
    _Column("began (UTC)", lambda attempt: _moment(attempt.process_start_unix), "left"),
    _Column("gap", lambda attempt: duration(_gap_s(attempt)) if _gap_s(attempt) >= _SHOWN_S else "-"),
    _Column("wall", lambda attempt: duration(attempt.wall_s)),
    _Column("end", _end, "left"),
    _Column("from sample", lambda attempt: f"{attempt.resumed_from_samples:,}"),
    _Column("to sample", lambda attempt: f"{attempt.reached_samples:,}"),
    _Column("repeated", lambda attempt: f"{attempt.samples.repeated:,}"),
    _Column("ETT", lambda attempt: _percent(attempt.stages.get(Stage.TRAINING, 0.0), attempt.wall_s)),
)
_DROPPED_FIRST: Final = ("began (UTC)", "gap", "from sample", "repeated")
"""What narrow terminals do without, in this order."""


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
            lines.append(_indented(Text.assemble((plugin, "bold"), "  " + "  ·  ".join(plain))))
    return [Text(""), *lines] if lines else []


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _warnings(report: Report) -> list[RenderableType]:
    lines: list[RenderableType] = [_indented(Text(f"! {warning}", "yellow")) for warning in report.warnings]
    return [Text(""), *lines] if lines else []
