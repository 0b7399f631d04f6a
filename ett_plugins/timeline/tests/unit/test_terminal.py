"""A report for people, at every width and in every state of a job."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from ett_hookspecs import AttemptReport, Durations, Report, SampleCounts, Stage, StepCounts
from ett_timeline.terminal import STAGE_COLOURS, duration, show

EMPTY = {stage.value: 0.0 for stage in Stage}
STAGES = {
    **EMPTY,
    "training": 5400.0,
    "retraining": 300.0,
    "initialization": 120.5,
    "compilation": 61.25,
    "input_wait": 0.006,
    "shutdown": 0.004,
    "checkpoint_save": 31.0,
    "downtime": 87.246,
}
WALL_S = 6000.0


def attempt(number: int = 1, end: str = "killed", **changes) -> AttemptReport:
    values = {
        "number": number,
        "start_unix": 1_700_000_000.0,
        "process_start_unix": 1_700_000_003.0,
        "end_unix": 1_700_006_000.0,
        "wall_s": WALL_S,
        "world_size": 2,
        "end": end,
        "failure_class": "infrastructure" if end == "killed" else None,
        "resumed_from_samples": 123_456,
        "reached_samples": 12_345_678,
        "steps": StepCounts(new=1000, repeated=10),
        "samples": SampleCounts(new=12_000_000, repeated=222_222, skipped=0),
        "stages": STAGES,
        "rank_seconds": {stage: 2 * seconds for stage, seconds in STAGES.items()},
    }
    return AttemptReport(**{**values, **changes})


def report(**changes) -> Report:
    values = {
        "job_id": "job-1a2b3c4d",
        "state": "killed",
        "wall_s": WALL_S,
        "ett_percent": 90.0,
        "stages": STAGES,
        "rank_seconds": {stage: 2 * seconds for stage, seconds in STAGES.items()},
        "owners": {
            "trainer": 120.5,
            "checkpoint": 331.0,
            "compiler": 61.25,
            "scheduler": 87.246,
            "data": 0.006,
            "publisher": 0.004,
        },
        "time_to_start_s": 42.1,
        "time_to_recover_s": Durations.of((30.0, 90.0)),
        "time_to_resume_s": Durations.of((10.0,)),
        "failures": 1,
        "steps": StepCounts(new=1000, repeated=10),
        "samples": SampleCounts(new=12_000_000, repeated=222_222, skipped=7),
        "background": {"snapshot_write_s": 12.5},
        "interference_s": 0.25,
        "world_size": 2,
        "sections": {"timeline": {"rolling_ett_percent": 88.5, "rolling_window_s": 600.0, "rolling": []}},
        "attempts": (attempt(),),
        "warnings": (),
    }
    return Report(**{**values, **changes})


NOTHING = report(
    state="running",
    wall_s=0.0,
    ett_percent=None,
    stages=EMPTY,
    rank_seconds=EMPTY,
    owners={},
    time_to_start_s=None,
    time_to_recover_s=Durations(),
    time_to_resume_s=Durations(),
    failures=0,
    samples=SampleCounts(),
    background={},
    interference_s=0.0,
    attempts=(attempt(end="running", wall_s=0.0, stages=EMPTY),),
)
JOBS = {
    "killed": report(),
    "running": report(state="running", attempts=(attempt(), attempt(2, "running"))),
    "empty": NOTHING,
    "warned": report(warnings=("attempt 1, rank 1: its log is missing; its time is unknown",)),
    "with sections": report(sections={"publish": {"time_to_published_s": 12.3456, "model": "r1", "parts": [1, 2]}}),
    "1000 attempts": report(attempts=tuple(attempt(n) for n in range(1, 1001))),
    "ranks": report(attempts=(attempt(), attempt(2, world_size=4, start_unix=1_700_006_000.0))),
    "a year": report(wall_s=3.2e7, stages={**STAGES, "training": 3.1e7}),
}


def printed(shown: Report, width: int = 100, **options) -> str:
    out = io.StringIO()
    show(shown, Console(file=out, width=width, highlight=False, **options))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", JOBS)
def test_a_report_fits_the_terminal(name, width):
    text = printed(JOBS[name], width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "ETT" in text


COLOURED = {"force_terminal": True, "color_system": "truecolor"}


def bars(text: str) -> list[str]:
    return [line for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines() if re.fullmatch(r" *█+ *", line)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_job_is_one_bar_of_one_line_where_colours_tell_its_parts_apart(width, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert len(bars(printed(report(), width, **COLOURED))) == 1
    assert bars(printed(report(), width)) == []
    monkeypatch.setenv("NO_COLOR", "1")
    assert bars(printed(report(), width, **COLOURED)) == []


@pytest.mark.parametrize("name", JOBS)
def test_no_line_ends_in_blanks(name):
    assert [line for line in printed(JOBS[name]).splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off(width):
    assert "…" not in printed(JOBS["running"], width)
    assert "…" not in printed(JOBS["1000 attempts"], width)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_stage_and_owner_stands_there_in_full_with_its_seconds(width):
    text = printed(report(), width)
    for name in (
        "training",
        "retraining",
        "initialization",
        "compilation",
        "input_wait",
        "checkpoint_save",
        "downtime",
    ):
        assert re.search(rf"^ *{name} ", text, re.MULTILINE), name
    assert "5,400.00" in text
    assert "90.0 %" in text
    for owner in ("trainer", "compiler", "scheduler"):
        assert owner in text


def test_what_would_read_zero_is_left_out_but_for_training():
    text = printed(report(background={"snapshot_write_s": 0.0}, interference_s=0.0, samples=SampleCounts(new=1)))
    for nothing in ("shutdown", "publisher", "publishing", "snapshot write", "Interference", "skipped"):
        assert nothing not in text
    text = printed(NOTHING)
    assert "repeated  " not in text.partition("Attempts")[0]
    assert "Who owns" not in text
    assert re.search(r"^ *training ", text, re.MULTILINE)


def test_the_largest_loss_comes_first_after_training():
    text = printed(report())
    places = [text.index(f" {name} ") for name in ("training", "retraining", "initialization", "downtime")]
    assert places == sorted(places)


def test_a_running_job_says_how_it_went_lately():
    assert "ETT lately" in printed(JOBS["running"])
    assert "88.5 %" in printed(JOBS["running"])
    assert "ETT lately" not in printed(JOBS["killed"])
    assert "ETT lately" not in printed(report(state="running", wall_s=599.0))


def test_figures_of_restarts_say_what_they_measure_and_of_how_many_they_are_the_mean():
    text = " ".join(printed(report()).split())
    assert "60.0 s from the last new step to the next new step mean of 2: 30.0 s, 90.0 s" in text
    assert "10.0 s from the last new step to the next step Failures" in text
    many = Durations.of(tuple(float(seconds) for seconds in range(1, 41)))
    text = " ".join(printed(report(time_to_recover_s=many)).split())
    assert "20.5 s from the last new step to the next new step" in text
    assert "mean of 40: p50 20.0 s, p95 38.0 s, max 40.0 s" in text


@pytest.mark.parametrize(
    ("steps", "recover", "resume"),
    [
        ([5], "no restart", "no restart"),
        ([0, 5], "no restart after a first step", "no restart after a first step"),
        ([5, 0], "no restart has got to new data", "no restart has trained a step"),
    ],
)
def test_without_a_figure_of_restarts_it_says_why(steps, recover, resume):
    attempts = tuple(attempt(number, steps=StepCounts(new=new)) for number, new in enumerate(steps, 1))
    text = printed(report(attempts=attempts, time_to_recover_s=Durations(), time_to_resume_s=Durations()))
    assert re.search(rf"Time to recover +- +{recover}$", text, re.MULTILINE)
    assert re.search(rf"Time to resume +- +{resume}$", text, re.MULTILINE)


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_keeps_what_was_trained_and_goes_without_the_time_of_day(width):
    text = printed(JOBS["running"], width)
    for column in ("wall", "end", "from sample", "to sample", "repeated", "ETT"):
        assert re.search(rf"^ +#.* {column}( |$)", text, re.MULTILINE), column
    assert ("began (UTC)" in text) is (width == 100)


def test_a_gap_before_an_attempt_is_named_and_explained():
    text = printed(JOBS["killed"])
    assert re.search(r"^ *1 .* 3\.0 s +1 h 40 min +killed", text, re.MULTILINE)
    assert "Wall and ETT include the gap before the process began." in text
    whole = attempt(process_start_unix=1_700_000_000.0)
    assert "gap" not in printed(report(attempts=(whole,)))


def test_means_over_ranks_are_called_so():
    note = "Means over ranks; the ETT above counts the seconds of every rank."
    assert note in printed(JOBS["ranks"])
    assert note not in printed(report(attempts=(attempt(world_size=1),)))


def test_background_work_and_its_interference_are_beside_the_rest():
    text = printed(report())
    assert re.search(r"snapshot write +12\.5 s +in the background,", text)
    assert "Interference" in text
    assert "Interference" not in printed(NOTHING)


def test_warnings_are_shown():
    assert "! attempt 1, rank 1: its log is missing; its time is unknown" in printed(JOBS["warned"])


def test_what_other_plugins_add_is_shown_as_far_as_it_is_plain():
    text = printed(JOBS["with sections"])
    assert "time_to_published_s 12.35" in text
    assert "model r1" in text
    assert "parts" not in text


def test_names_with_brackets_are_shown_as_they_are():
    names = report(job_id="[red]job", owners={"[team] a": 3.0}, background={"[x]_s": 1.0}, warnings=("[b]w",))
    text = printed(names)
    for name in ("[red]job", "[team] a", "[x]", "[b]w"):
        assert name in text


def test_of_many_attempts_the_first_and_the_last_are_shown():
    text = printed(JOBS["1000 attempts"])
    assert len(text.splitlines()) < 80
    assert "1,000 attempts" in text
    for number in (1, 991, 1000):
        assert re.search(rf"^ *{number} ", text, re.MULTILINE), number
    assert "more attempts" in text
    assert "--json" in text


def test_every_stage_has_a_colour_of_its_own():
    assert set(STAGE_COLOURS) == set(Stage)
    assert len(set(STAGE_COLOURS.values())) == len(Stage)


def test_a_terminal_gets_colours_unless_it_asks_for_none(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[38;" in printed(report(), **COLOURED)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[38;" not in printed(report(), **COLOURED)


def test_a_file_gets_no_escape_codes():
    assert "\x1b" not in printed(report())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (12.34, "12.3 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (119.6, "2 min 00 s"),
        (5999.4, "99 min 59 s"),
        (5999.6, "1 h 40 min"),
        (6000.0, "1 h 40 min"),
        (3.2e7, "8888 h 53 min"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_shares_of_a_job_without_time_are_not_divided_by_it():
    assert "nan" not in printed(NOTHING)
    assert "-" in printed(replace(NOTHING, attempts=()))
