"""Events of jobs that are not ours become timelines, and what no event explains stays unknown."""

from __future__ import annotations

import json
import socket
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ett_hookspecs import EttError, Report, report_json_schema
from ett_record import report_of
from ett_record.accounting import merge
from ett_timeline.ingest.command import ingest
from ett_timeline.ingest.events import moment
from ett_timeline.ingest.rows import _LONGEST_LINE

HEADER = "job,attempt,rank,event,time,position"


def table(*rows: str) -> str:
    return "\n".join([HEADER, *rows]) + "\n"


def events(text: str, *, attempt: int = 1, rank: int = 0, job: str = "theirs") -> list[str]:
    """Rows from pairs of event and time, with a position after a slash."""
    rows = []
    for pair in text.split(","):
        event, _, when = pair.strip().rpartition(" ")
        when, _, position = when.partition("/")
        rows.append(f"{job},{attempt},{rank},{event},{when},{position}")
    return rows


class Desk:
    """Where events come in and job directories go out."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.out = home / "job"

    def ingest(self, text: str | bytes, *options: str, name: str = "events.csv") -> Result:
        path = self.home / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return CliRunner().invoke(ingest, [str(path), "--out", str(self.out), *options], catch_exceptions=True)

    def report(self, text: str | bytes, *options: str, **more: Any) -> Report:
        result = self.ingest(text, *options, **more)
        assert result.exit_code == 0, result.exception or result.output
        return check(self.out)

    def result(self, text: str | bytes, *options: str, **more: Any) -> dict[str, Any]:
        result = self.ingest(text, "--json", *options, **more)
        assert result.exit_code == 0, result.exception or result.output
        return json.loads(result.stdout)

    def refusal(self, text: str | bytes, *options: str, **more: Any) -> EttError:
        result = self.ingest(text, *options, **more)
        assert isinstance(result.exception, EttError), result.output
        assert "\n" not in str(result.exception)
        return result.exception


def check(job_dir: Path) -> Report:
    """The report, after the checks that every report must pass."""
    report = report_of(job_dir)
    jsonschema.validate(json.loads(json.dumps(report.to_json())), report_json_schema())
    assert sum(report.stages.values()) == pytest.approx(report.wall_s, abs=1e-3)
    for attempt in report.attempts:
        assert sum(attempt.stages.values()) == pytest.approx(attempt.wall_s, abs=1e-3)
        assert min(attempt.stages.values()) >= 0
    assert report.ett_percent is None or 0 <= report.ett_percent <= 100
    return report


def seconds(report: Report) -> dict[str, float]:
    return {str(stage): round(value, 6) for stage, value in report.stages.items() if value}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


TWO_ATTEMPTS = [
    *events(
        "allocated 1000, started 1010, init_done 1020, first_batch 1025, step 1030/4, step 1035/8, save_start 1035, "
        "save_end 1037, step 1042/12, failed 1043"
    ),
    *events(
        "started 1100, restore_start 1101, restore_end 1103, compile_start 1103, compile_end 1104, first_batch 1105, "
        "step 1110/12, step 1115/16, publish_start 1116, publish_end 1118, ended 1120",
        attempt=2,
    ),
]


def test_every_event_has_its_stage(desk):
    report = desk.report(table(*TWO_ATTEMPTS))
    assert seconds(report) == {
        "scheduling": 10, "initialization": 17, "training": 20, "retraining": 5, "checkpoint_save": 2,
        "checkpoint_restore": 2, "compilation": 1, "publishing": 2, "shutdown": 3, "downtime": 57, "unknown": 1,
    }  # fmt: skip
    assert report.job_id == "theirs"
    assert [attempt.end for attempt in report.attempts] == ["failed", "finished"]
    assert (report.state, report.failures) == ("finished", 1)
    assert (report.samples.new, report.samples.repeated) == (16, 4)
    assert (report.steps.new, report.steps.repeated) == (4, 1)
    assert report.time_to_start_s == 30
    assert report.time_to_recover_s.each == (68,)
    assert report.time_to_resume_s.each == (63,)
    assert report.attempts[1].resumed_from_samples == 8
    assert not report.warnings


@pytest.mark.parametrize(
    "when", ["2026-01-01T00:00:00Z", "2026-01-01t01:00:00+01:00", "1767225600", "1767225600.0", 1767225600]
)
def test_times_are_rfc_3339_or_unix_seconds(when):
    assert moment(when) == moment(1767225600)


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("yesterday", "neither"), ("", "neither"), (None, "neither"), (True, "neither"), ("nan", "neither"),
        ("inf", "neither"), ("1_0", "neither"), ([1], "neither"), ("2026-01-01T00:00:00", "time zone"),
        ("-1", "before 1970"), ("1767225600000", "not milliseconds"), ("2026-02-30T00:00:00Z", "neither"),
    ],
)  # fmt: skip
def test_a_bad_time_says_what_is_bad(when, why):
    with pytest.raises(ValueError, match=why):
        moment(when)


def as_json_lines(rows: Iterable[str]) -> str:
    names = HEADER.split(",")
    return "".join(json.dumps(dict(zip(names, row.split(","), strict=True))) + "\n" for row in rows)


def quoted(text: str) -> str:
    return "".join(",".join(f'"{field}"' for field in line.split(",")) + "\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",\n", "\n"),
        lambda text: text.replace("\n", ",\n"),
        lambda text: text.replace(",", " , ").upper().replace("THEIRS", "theirs"),
        lambda text: text.encode("utf-16"),
        quoted,
        lambda text: as_json_lines(text.splitlines()[1:]),
        lambda text: "\ufeff" + as_json_lines(text.splitlines()[1:]).replace("\n", "\r\n"),
    ],
    ids=["bom", "crlf", "blank lines", "no last newline", "semicolons", "no positions", "a comma more", "loose",
         "utf-16", "quoted", "json", "json with bom and crlf"],
)  # fmt: skip
def test_a_file_may_be_written_in_many_ways(desk, disguise: Callable[[str], str | bytes]):
    result = desk.ingest(disguise(table(*TWO_ATTEMPTS)))
    assert (result.exit_code, result.stderr) == (0, "")
    assert seconds(check(desk.out))["training"] == 20


def test_columns_may_stand_in_any_order_with_others_between(desk):
    rows = ["time,host,event,rank,attempt,job", "10,a,started,0,1,j", "20,a,first_batch,0,1,j", "30,b,step,0,1,j"]
    assert seconds(desk.report("\n".join(rows))) == {"initialization": 10, "training": 10}


def problems_of(desk: Desk, *rows: str) -> list[tuple[int, str]]:
    """What is said of lines, whose numbers are those of a file with a header."""
    return [(each["line"], each["text"]) for each in desk.result(table(*rows))["problems"]]


GOOD = events("started 10, first_batch 20, step 30/4, step 40/8, ended 50")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("theirs,1,0,step,yesterday,4", "the time 'yesterday' is neither"),
        ("theirs,1,0,step,2026-01-01T00:00:00,4", "no time zone"),
        ("theirs,1,-1,step,30,4", "the rank '-1' is no whole number"),
        ("theirs,1,70000,step,30,4", "the rank '70000' is beyond 65,535"),
        ("theirs,one,0,step,30,4", "the attempt 'one' is no whole number"),
        ("theirs,,0,step,30,4", "the attempt '' is no whole number"),
        ("theirs,1,0,dance,30,4", "the event 'dance' is not known"),
        ("theirs,1,0,,30,4", "the event '' is not known"),
        (" ,1,0,step,30,4", "names no job"),
        ("theirs,1,0", "has 3 fields where the header has 6"),
        ("theirs,1,0,step,30,4,5", "has 7 fields where the header has 6"),
        ('theirs,1,0,"step,30,4', "has 4 fields where the header has 6"),
        ("x" * _LONGEST_LINE * 3, "is longer than"),
    ],
)
def test_a_row_that_cannot_be_used_is_told_by_its_line_and_the_rest_is_used(desk, row, why):
    result = desk.result(table(*GOOD[:2], row, *GOOD[2:]))
    ((line, text),) = [(each["line"], each["text"]) for each in result["problems"]]
    assert line == 4
    assert why in text
    assert (result["left_out"], result["used"], result["rows"] - result["used"] <= 1) == (1, 5, True)
    report = check(desk.out)
    assert seconds(report) == {"initialization": 10, "training": 20, "shutdown": 10}
    assert report.warnings == ("attempt 1: lines of events.csv that could not be used, and were left out: 1",)


def test_a_header_that_comes_again_is_skipped(desk):
    assert problems_of(desk, *GOOD, HEADER) == [(7, "is the header again; it was skipped")]


def test_a_column_named_twice_counts_once(desk):
    result = desk.ingest(
        "job,attempt,rank,event,time,time\n" + "\n".join(f"{row.rpartition(',')[0]},0" for row in GOOD)
    )
    assert "line 1: the column time stands there twice; the first one is used" in result.stderr
    assert seconds(check(desk.out))["training"] == 20


def test_a_bad_position_is_told_and_the_event_used_without(desk):
    ((line, text),) = problems_of(desk, *events("started 10, first_batch 20, step 30/x, step 40/8, ended 50"))
    assert (line, "'x' is no whole number" in text) == (4, True)
    assert check(desk.out).steps.new == 2


def test_disorder_is_told_and_put_right(desk):
    shuffled = [GOOD[3], GOOD[0], GOOD[4], GOOD[1], GOOD[2]]
    told = problems_of(desk, *shuffled)
    assert [line for line, _ in told] == [3, 5, 6]
    assert told[0][1] == "is earlier than line 2 of the same rank; it was put in order"
    assert seconds(check(desk.out)) == {"initialization": 10, "training": 20, "shutdown": 10}


def test_what_is_told_is_capped_on_standard_error(desk):
    result = desk.ingest(table(*GOOD, *["theirs,1,0,dance,30,"] * 2000))
    lines = result.stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 1,980 more"
    assert "2,000 lines left out" in result.stdout


@pytest.mark.parametrize(
    ("story", "expected", "told"),
    [
        # A span without an end says nothing of what follows but that it began.
        ("save_start 30, step 40/8, step 50/12, ended 60", {"training": 20, "unknown": 10}, "does not end"),
        ("save_start 30, save_start 35, save_end 37, step 50/8, ended 60", {"training": 23, "checkpoint_save": 2,
         "unknown": 5}, "does not end"),
        ("step 40/8, save_end 45, step 50/12, ended 60", {"training": 25, "unknown": 5}, "did not begin"),
        ("save_start 30, failed 40, ended 60", {"training": 10, "unknown": 10, "shutdown": 20}, "does not end"),
        ("save_start 32, save_start 33, save_end 34, save_end 36, step 50/8, ended 60", {"training": 26,
         "checkpoint_save": 4}, None),
        # Steps do not end while training waits.
        ("save_start 32, step 40/8, save_end 45, step 50/12, ended 60", {"training": 17, "checkpoint_save": 13},
         "steps end during this 'save'"),
        ("save_start 30, compile_start 35, save_end 40, compile_end 45, step 50/8, ended 60", {"training": 15,
         "checkpoint_save": 5, "compilation": 10}, "before what began in it has ended"),
        # What is not known to begin a step, or to end one, is no step.
        ("started 40, first_batch 45, step 50/8, ended 60", {"initialization": 15, "training": 15, "unknown": 10},
         "a second start"),
        ("init_done 40, step 50/8, ended 60", {"training": 10, "unknown": 20}, "comes after the first step"),
        ("first_batch 40, step 50/8, ended 60", {"training": 20, "unknown": 10}, "comes after the first step"),
        ("ended 50, step 60/8", {"training": 10, "unknown": 10, "shutdown": 20}, None),
        ("dance_start 35, dance_end 40, step 50/8, ended 60", {"training": 25, "unknown": 5}, "'dance' is unknown"),
        ("step 40/4, step 50/8, ended 60", {"training": 30}, "is a step that ends where it began"),
        ("failed 45, ended 60", {"training": 10, "unknown": 15, "shutdown": 15}, None),
    ],
)  # fmt: skip
def test_what_events_do_not_explain_is_unknown(desk, story, expected, told):
    found = problems_of(desk, *events("started 10, first_batch 20, step 30/4, " + story))
    measured = seconds(check(desk.out))
    for stage in ("training", "unknown", "checkpoint_save", "compilation"):
        assert measured.get(stage, 0) == expected.get(stage, 0), measured
    assert measured.items() >= expected.items()
    assert any(told in text for _, text in found) if told else not [t for _, t in found if "end" not in t]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ("started 10, step 30/4, step 40/8, ended 50", {"unknown": 20, "training": 10, "shutdown": 10}),
        ("started 10, init_done 15, step 30/4, step 40/8", {"initialization": 5, "unknown": 15, "training": 10}),
        ("init_done 15, first_batch 20, step 30/4", {"initialization": 5, "training": 10}),
        ("allocated 5, init_done 15, first_batch 20, step 30/4", {"unknown": 10, "initialization": 5, "training": 10}),
        ("started 10, ended 50", {"unknown": 40}),
        ("started 10, first_batch 20, ended 50", {"initialization": 10, "shutdown": 30}),
        ("allocated 10", {}),
        ("step 10", {}),
    ],
)
def test_without_its_beginning_or_end_a_stage_is_unknown(desk, story, expected):
    assert seconds(desk.report(table(*events(story)))) == expected


def test_an_attempt_without_an_end_is_unknown_until_the_next_one_is_heard_of(desk):
    second = events("allocated 100, started 130, first_batch 140, step 150/12, ended 150", attempt=2)
    report = desk.report(table(*GOOD[:-1], *second))
    assert seconds(report) == {"initialization": 20, "training": 30, "unknown": 60, "scheduling": 30}
    assert [attempt.end for attempt in report.attempts] == ["lost", "finished"]


def test_a_job_without_an_end_is_lost_and_never_running(desk):
    report = desk.report(table(*events("started 4000000000, first_batch 4000000010, step 4000000020")))
    assert (report.state, report.failures) == ("lost", 1)


def test_minutes_between_a_clean_end_and_a_start_are_downtime_and_nothing_is_repeated(desk):
    """M1: nothing that lies between two attempts is training."""
    second = events("started 650, first_batch 660, step 670/12, ended 670", attempt=2)
    report = desk.report(table(*GOOD, *second))
    assert seconds(report) == {"initialization": 20, "training": 30, "shutdown": 10, "downtime": 600}
    assert report.samples.repeated == report.failures == 0


def test_steps_of_five_milliseconds_count(desk):
    """M2: nothing is too short to be a step."""
    steps = ", ".join(f"step {20 + 0.005 * n:.3f}/{n}" for n in range(1, 1001))
    report = desk.report(table(*events(f"started 10, first_batch 20, {steps}, ended 25")))
    assert seconds(report) == {"initialization": 10, "training": 5}
    assert report.steps.new == 1000


def test_a_rank_that_tells_no_end_is_unknown_until_the_end_that_another_tells(desk):
    report = desk.report(table(*GOOD, *events("started 10, first_batch 20, step 30/4", rank=1)))
    assert (report.state, report.world_size) == ("finished", 2)
    assert seconds(report) == {"initialization": 10, "training": 15, "shutdown": 5, "unknown": 10}


def test_a_rank_without_events_is_unknown_and_told(desk):
    result = desk.ingest(table(*GOOD, *events("started 10, first_batch 20, step 30/4, step 40/8, ended 50", rank=2)))
    assert "attempt 1 has ranks up to 2 and no events of 1 of them" in result.stderr
    assert check(desk.out).rank_seconds["unknown"] == 40


def test_attempts_counted_from_zero_are_counted_from_one(desk):
    report = desk.report(table(*events("started 10, ended 20", attempt=0), *events("started 30, ended 40", attempt=1)))
    assert [attempt.number for attempt in report.attempts] == [1, 2]


def test_an_attempt_that_begins_before_the_one_before_it_ended_is_told(desk):
    result = desk.ingest(table(*GOOD, *events("started 45, first_batch 46, step 55/12, ended 60", attempt=2)))
    assert "line 7: attempt 2 begins before the one before it has ended" in result.stderr
    assert check(desk.out).wall_s == 50


def test_without_positions_a_restore_resumes_at_the_last_save_that_ended(desk):
    first = "started 0, first_batch 10, step 20, save_start 20, save_end 22, step 30, save_start 30, failed 31"
    second = "started 40, restore_start 41, restore_end 43, first_batch 50, step 60, step 70, ended 70"
    report = desk.report(table(*events(first), *events(second, attempt=2)))
    assert (report.steps.new, report.steps.repeated) == (3, 1)
    assert seconds(report)["training"] == 10 + 8 + 10
    assert seconds(report)["retraining"] == 10


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("save_start 30, save_end 31, failed 32", ""),
        ("failed 32", "restore_start 41, restore_end 43,"),
        ("save_start 30, failed 32", "restore_start 41, restore_end 43,"),
    ],
)
def test_without_positions_and_a_restore_of_a_save_new_and_repeated_are_unknown(desk, first, second):
    """Steps after a restart may repeat: to call them training would be a guess."""
    first = f"started 0, first_batch 10, step 20, step 30, {first}"
    second = f"started 40, {second} first_batch 50, step 60, step 70, ended 70"
    third = "started 80, restore_start 81, restore_end 83, first_batch 90, step 100, ended 100"
    result = desk.ingest(table(*events(first), *events(second, attempt=2), *events(third, attempt=3)))
    report = check(desk.out)
    assert seconds(report)["training"] == 20
    assert [attempt.stages["unknown"] >= 10 for attempt in report.attempts] == [False, True, True]
    assert "says where training went on" in result.stderr


def test_a_restore_may_tell_where_training_goes_on(desk):
    second = "started 60, restore_start 61, restore_end 63/4, first_batch 70, step 80/10, ended 80"
    report = desk.report(table(*GOOD, *events(second, attempt=2)))
    assert report.attempts[1].resumed_from_samples == 4
    assert (report.samples.new, report.samples.repeated) == (10, 4)
    assert seconds(report)["retraining"] == pytest.approx(10 * 4 / 6, abs=1e-6)


def test_a_rollback_within_an_attempt_is_retraining(desk):
    before = "started 0, first_batch 10, step 20/4, step 30/8, restore_start 30, restore_end 32"
    story = f"{before}, step 42/4, step 50/8, step 60/12, ended 60"
    report = desk.report(table(*events(story)))
    assert (report.samples.new, report.samples.repeated) == (12, 8)
    assert seconds(report)["retraining"] == 18
    assert seconds(report)["training"] == 30


def test_without_positions_a_restore_within_an_attempt_goes_back_to_its_last_save(desk):
    before = "started 0, first_batch 10, step 20, save_start 20, save_end 22, step 30, restore_start 30, restore_end 32"
    report = desk.report(table(*events(f"{before}, step 40, step 50, ended 50")))
    assert (report.steps.new, report.steps.repeated) == (3, 1)
    assert (seconds(report)["training"], seconds(report)["retraining"]) == (28, 8)


def test_short_steps_that_share_a_line_are_all_new_or_all_repeated(desk):
    second = "started 60, first_batch 70, step 70.1/4, step 70.2/8, step 70.5/12, step 70.8/16, ended 71"
    report = desk.report(table(*GOOD, *events(second, attempt=2)))
    assert seconds(report)["retraining"] == pytest.approx(0.2, abs=1e-5)
    assert seconds(report)["training"] == pytest.approx(20.6, abs=1e-5)


def test_steps_without_a_position_count_with_the_next_one_that_has_one(desk):
    report = desk.report(table(*events("started 0, first_batch 10, step 20, step 30/8, step 40/12, step 50, ended 60")))
    assert (report.steps.new, report.samples.new) == (3, 12)
    assert seconds(report) == {"initialization": 10, "training": 30, "unknown": 10, "shutdown": 10}


def test_ranks_train_the_same_samples_once(desk):
    rows = [
        row
        for rank in range(3)
        for row in events("started 0, first_batch 10, step 20/4, step 30/8, ended 30", rank=rank)
    ]
    report = desk.report(table(*rows))
    assert report.samples.new == 8
    assert report.rank_seconds["training"] == 60


# Files and directories.


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        (HEADER, "holds no event"),
        (table("theirs,1,0,dance,1,"), "line 2: the event 'dance' is not known"),
        ("job,attempt,when\n", "has no column rank, event, time"),
        ("{}\n", "line 1: names no job"),
        ("[1]\n", "no column"),
        ('{"job": "x"', "line 1: is not a JSON object"),
        (b"\x00\xff\xfe" * 100, "no column"),
        ('{"a":' * 20000, "holds no event"),
    ],
)
def test_a_file_without_events_is_refused_in_one_line_and_leaves_nothing(desk, text, why):
    refusal = desk.refusal(text)
    assert why in str(refusal)
    assert refusal.exit_code == 1
    assert [path.name for path in desk.home.iterdir()] == ["events.csv"]


def test_several_jobs_in_a_file_are_refused_unless_one_is_named(desk):
    mixed = table(*GOOD, *events("started 100, ended 200", job="other"))
    refusal = desk.refusal(mixed)
    assert "several jobs ('theirs', and on line 7 'other')" in str(refusal)
    assert "--job" in str(refusal)
    assert refusal.exit_code == 2
    result = desk.result(mixed, "--job", "other")
    assert (result["job_id"], result["used"], result["other_jobs"], result["left_out"]) == ("other", 2, 5, 0)
    assert check(desk.out).wall_s == 100


def test_a_job_that_the_file_does_not_hold_is_refused(desk):
    assert "5 rows are of other jobs" in str(desk.refusal(table(*GOOD), "--job", "nobody"))


def test_what_was_ingested_is_replaced_only_with_force(desk):
    assert desk.ingest(table(*GOOD)).exit_code == 0
    assert "--force" in str(desk.refusal(table(*TWO_ATTEMPTS)))
    assert check(desk.out).wall_s == 40
    assert desk.report(table(*TWO_ATTEMPTS), "--force").wall_s == 120
    assert {path.name for path in desk.home.iterdir()} == {"events.csv", "job"}


def foreign_file(job_dir: Path) -> None:
    (job_dir / "page.html").write_text("mine")


def trained_attempt(job_dir: Path) -> None:
    (job_dir / "timeline/attempt-0002").mkdir()


def recorded(job_dir: Path) -> None:
    (job_dir / "job.json").write_text('{"schema": "ett.job/1", "job_id": "ours"}')


@pytest.mark.parametrize("happens", [foreign_file, trained_attempt, recorded])
def test_what_could_not_be_ingested_again_is_never_replaced(desk, happens):
    assert desk.ingest(table(*GOOD)).exit_code == 0
    happens(desk.out)
    before = sorted(desk.out.rglob("*"))
    assert "holds more than what was ingested" in str(desk.refusal(table(*TWO_ATTEMPTS), "--force"))
    assert sorted(desk.out.rglob("*")) == before


def test_a_refused_file_leaves_what_it_should_have_replaced(desk):
    assert desk.ingest(table(*GOOD)).exit_code == 0
    desk.refusal("", "--force")
    assert check(desk.out).wall_s == 40


def test_an_empty_directory_and_new_parents_are_taken(desk):
    desk.out = desk.home / "runs/theirs"
    assert desk.ingest(table(*GOOD)).exit_code == 0
    desk.out = desk.home / "empty"
    desk.out.mkdir()
    assert desk.ingest(table(*GOOD)).exit_code == 0


def test_a_file_in_the_way_is_refused(desk):
    desk.out.write_text("")
    assert "is not a directory" in str(desk.refusal(table(*GOOD)))


def test_no_process_of_this_host_is_behind_it_and_nobody_is_locked_out(desk, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "ingested")
    assert desk.report(table(*GOOD[:-1])).state == "lost"
    assert not (desk.out / "timeline/writer.json").exists()


def test_a_large_file_costs_little_memory(desk):
    steps = (f"theirs,1,0,step,{20 + n}.5,{4 * n}\n" for n in range(1, 100_001))
    text = table(*GOOD[:2]) + "".join(steps)
    tracemalloc.start()
    try:
        assert desk.ingest(text).exit_code == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (peak - len(text)) / 100_000 < 60
    assert check(desk.out).samples.new == 400_000


# Goodput recorder.


def goodput(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps({"job_name": "tpu", **entry}) + "\n" for entry in entries)


def span(name: str, start: float, end: float, **more: str) -> list[dict[str, Any]]:
    return [{f"{name}_start_time": start, **more}, {f"{name}_end_time": end, **more}]


def steps(first: int, *times: float) -> list[dict[str, Any]]:
    return [{"step_count": n, "step_start_time": time} for n, time in enumerate(times, first)]


RUN = [
    {"job_start_time": 100.0},
    *span("tpu_init", 101.0, 105.0),
    *span("training_prep", 105.0, 110.0),
    *span("data_loading", 110.0, 112.0),
    *steps(0, 112.0, 115.0),
    *span("data_loading", 116.0, 117.0),
    *steps(2, 118.0),
    *span("custom_badput_event", 119.0, 121.0, custom_badput_event_type="eval_step"),
    *span("custom_badput_event", 121.0, 122.0, custom_badput_event_type="sdc_scan"),
    *steps(3, 124.0, 127.0),
]


def test_a_goodput_log_is_read(desk):
    rerun = [{"job_start_time": 200.0}, *steps(3, 220.0, 223.0, 226.0), {"job_end_time": 230.0}]
    result = desk.ingest(goodput(*RUN, *rerun))
    report = check(desk.out)
    assert report.job_id == "tpu"
    assert [attempt.end for attempt in report.attempts] == ["lost", "finished"]
    assert seconds(report) == {
        "initialization": 10 + 20, "input_wait": 3, "training": 3 + 2 + 3 + 3 + 3, "validation": 2,
        "unknown": 1 + 73 + 4, "retraining": 3,
    }  # fmt: skip
    assert (report.steps.new, report.steps.repeated) == (5, 1)
    assert report.time_to_resume_s.each == (93,)
    assert "attempt 1 has no end" in result.stderr


def test_entries_exported_from_cloud_logging_are_read(desk):
    lines = [{"jsonPayload": {"job_name": "tpu", **entry}, "severity": "INFO"} for entry in RUN]
    report = desk.report("".join(json.dumps(line) + "\n" for line in lines))
    assert report.steps.new == 4


def test_goodput_entries_that_are_not_known_are_told_and_their_time_is_unknown(desk):
    more = [*span("elastic_wait", 128.0, 138.0), {"active_slices": 3}, {"step_start_time": 139.0}, *steps(5, 140.0)]
    result = desk.ingest(goodput(*RUN, *more))
    lines = result.stderr.splitlines()
    assert [f"line {n}" in line for n, line in zip((19, 20, 21, 22), lines, strict=False)] == [True] * 4
    assert "elastic_wait_start_time" in lines[0]
    assert "active_slices" in lines[2]
    assert "step_count None" in lines[3]
    assert seconds(check(desk.out))["unknown"] == 1 + 10


def test_a_goodput_step_that_goes_back_begins_anew(desk):
    report = desk.report(goodput({"job_start_time": 100.0}, *steps(0, 110.0, 113.0), *steps(0, 120.0, 123.0, 126.0)))
    assert (report.steps.new, report.steps.repeated) == (2, 1)
    assert seconds(report) == {"initialization": 10, "training": 6, "retraining": 3, "unknown": 7}


def test_two_formats_in_a_file_do_not_mix(desk):
    result = desk.result(goodput(*RUN) + as_json_lines(events("started 10", job="tpu")))
    assert result["format"] == "goodput"
    assert result["problems"][-1] == {"line": 19, "text": "is of another format than the rows before it"}


# Any events in any order.

NAMES = [
    "allocated", "started", "init_done", "first_batch", *["step"] * 6, "save_start", "save_end", "restore_start",
    "restore_end", "compile_start", "compile_end", "publish_start", "publish_end", "dance_start", "failed", "ended",
]  # fmt: skip
ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 2, 3]),
        st.sampled_from([0, 0, 0, 1, 3]),
        st.sampled_from(NAMES),
        st.one_of(st.integers(0, 60), st.floats(0, 60)),
        st.one_of(st.none(), st.integers(0, 20)),
    ),
    min_size=1,
    max_size=40,
)


def covered_by_steps(rows: list[tuple[int, int, str, float, int | None]]) -> float:
    """Seconds that lie between two steps of a rank, or between a first batch and a step, and nothing else ended."""
    total = 0
    for key in {row[:2] for row in rows}:
        mine = sorted((row[3], index, row[2]) for index, row in enumerate(rows) if row[:2] == key)
        marks = [
            (when, name)
            for when, _, name in mine
            if name in ("started", "init_done", "first_batch", "step", "failed", "ended")
        ]
        spans = [
            (a, b) for (a, before), (b, name) in pairwise(marks) if name == "step" and before in ("first_batch", "step")
        ]
        total += sum(b - a for a, b in merge((round(a * 1e9), round(b * 1e9)) for a, b in spans))
    return total / 1e9


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, with_positions=st.booleans())
def test_any_events_in_any_order_sum_to_the_wall_time_and_training_is_never_more_than_steps(
    tmp_path_factory, rows, with_positions
):
    desk = Desk(tmp_path_factory.mktemp("any"))
    text = [
        {
            "job": "any",
            "attempt": attempt,
            "rank": rank,
            "event": event,
            "time": time,
            "position": position if with_positions else None,
        }
        for attempt, rank, event, time, position in rows
    ]
    report = desk.report("".join(json.dumps(row) + "\n" for row in text))
    trained = report.rank_seconds["training"] + report.rank_seconds["retraining"]
    assert trained <= covered_by_steps(rows) + 1e-3
    assert report.steps.new + report.steps.repeated <= sum(event == "step" for _, _, event, _, _ in rows)
    assert not [text for text in report.warnings if "damaged" in text or "state file" in text]
