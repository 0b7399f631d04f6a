"""What others put into a job's directory, or took out of it: one clear line, and the rest is reported."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ett_hookspecs import EttError
from ett_record import report_of, write_section
from ett_record.job import process_is_gone
from ett_record.state import STAGE_COUNT, flatten, read_state

DEEP = b"[" * 100_000


@pytest.fixture
def whole(job):
    """A job of three attempts."""
    for attempt in range(3):
        job.run(at=10.0 * attempt, resume=10 * attempt, end="finished")
    return job.ranks


def edit_header(fake, **changes):
    first, rest = fake.log.read_bytes().split(b"\n", 1)
    fake.log.write_bytes(json.dumps({**json.loads(first), **changes}).encode() + b"\n" + rest)


@pytest.mark.parametrize("changes", [{"world": 10**9}, {"world": 0}, {"rank": 1}, {"pid": 10**30}, {"attempt": -1}])
def test_a_header_that_says_what_cannot_be_costs_that_log_and_nothing_else(job, whole, changes):
    edit_header(whole[1], **changes)
    report = job.report()
    assert [attempt.number for attempt in report.attempts] == [1, 3]
    assert any("attempt 2, rank 0: its log cannot be used" in warning for warning in report.warnings)


@pytest.mark.parametrize("pid", [2**31, 2**40])
def test_a_process_id_that_no_process_has_is_a_process_that_is_gone(job, whole, pid):
    edit_header(whole[1], pid=pid)
    assert len(job.report().attempts) == 3
    header = job.read().attempts[1].ranks[0].header
    assert process_is_gone(header.host, header.boot, pid, None)


def test_lines_that_are_nested_too_deeply_are_damaged_lines(job, whole):
    whole[1].log.write_bytes(whole[1].log.read_bytes().replace(b"\n", b"\n" + DEEP + b"\n", 1))
    report = job.report()
    assert report.steps.new == 3
    (warning,) = report.warnings
    assert "line 2 of its log is damaged" in warning


def test_a_header_that_is_nested_too_deeply_costs_its_log(job, whole):
    whole[1].log.write_bytes(DEEP + b"\n")
    assert len(job.report().attempts) == 2


@pytest.mark.parametrize("content", [DEEP, b"[1]", b'{"auc": NaN}', b'{"auc": -Infinity}', b'{"auc": 1e999}', b"\xff"])
def test_a_section_that_is_no_json_object_is_left_out(job, whole, content):
    write_section(job.dir, "good", {"auc": 0.5})
    (job.dir / "sections" / "bad.json").write_bytes(content)
    report = job.report()
    assert report.sections.keys() == {"good", "timeline"}
    (warning,) = report.warnings
    assert "sections/bad.json cannot be used" in warning
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_no_section_is_written_that_could_not_be_read(job, number):
    write_section(job.dir, "mine", {"auc": 0.5})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_section(job.dir, "mine", {"auc": number})
    assert (job.dir / "sections" / "mine.json").read_text() == '{"auc": 0.5}\n'


@pytest.mark.parametrize("what", ["pipe", "directory", "device"])
@pytest.mark.parametrize("suffix", [".jsonl", ".state"])
def test_what_is_no_file_is_not_waited_for(job, whole, what, suffix):
    path = whole[1].log.with_suffix(suffix)
    path.unlink()
    {"pipe": os.mkfifo, "directory": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero")}[what](path)
    report = job.report()
    assert len(report.attempts) == (2 if suffix == ".jsonl" else 3)
    assert any("attempt 2, rank 0" in warning for warning in report.warnings)


def test_a_timeline_that_is_a_file_is_one_line(job):
    job.dir.mkdir()
    (job.dir / "timeline").touch()
    with pytest.raises(EttError, match="cannot be read"):
        report_of(job.dir)


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000 + "x", "a\0b"], ids=["long name", "long path", "nul"])
def test_a_path_that_cannot_be_is_one_line(job, name):
    with pytest.raises(EttError) as raised:
        report_of(job.dir / name)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_an_attempt_whose_directory_was_deleted_is_named(job, whole):
    shutil.rmtree(whole[1].log.parent)
    report = job.report()
    assert [attempt.number for attempt in report.attempts] == [1, 3]
    (warning,) = report.warnings
    assert "no directory of attempt 2: it was deleted" in warning


def test_of_a_number_far_beyond_the_others_a_few_missing_attempts_are_named(job, whole):
    (job.dir / "timeline" / "attempt-99999999").mkdir()
    warning = job.report().warnings[0]
    assert "no directory of attempt 4, 5, 6, 7, 8, ...: it was deleted" in warning


@pytest.mark.parametrize("name", ["attempt-00001", "attempt-1", "attempt-0000", "attempt-0001.bak"])
def test_a_copy_of_an_attempt_under_another_name_is_left_out(job, whole, name):
    shutil.copytree(whole[0].log.parent, job.dir / "timeline" / name)
    report = job.report()
    assert report.steps.new == 3
    (warning,) = report.warnings
    assert f"timeline/{name} is no attempt's directory" in warning


@pytest.mark.parametrize("name", ["rank-000000.jsonl", "rank-0.jsonl", "rank-00000.copy.jsonl"])
def test_a_copy_of_a_log_under_another_name_is_left_out(job, whole, name):
    copy = shutil.copy(whole[0].log, whole[0].log.with_name(name))
    report = job.report()
    assert report.steps.new == 3
    (warning,) = report.warnings
    assert f"attempt 1: {name} is no rank's log and was left out" in warning
    assert copy.exists()


def test_of_many_ranks_without_a_log_a_few_are_named(job, whole):
    edit_header(whole[1], world=100_000)
    report = job.report()
    assert report.attempts[1].world_size == 100_000
    (warning,) = (warning for warning in report.warnings if "missing" in warning)
    assert warning.startswith("attempt 2, ranks 1, 2, 3, 4, 5 and 99,994 more: their logs are missing; their time is")


@pytest.mark.parametrize("where", ["sections", "timeline/attempt-0002"])
def test_a_directory_that_may_not_be_listed_is_said_so(job, whole, where, monkeypatch):
    listed = Path.iterdir

    def refuse(path):
        if path == job.dir / where:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    write_section(job.dir, "good", {"auc": 0.5})
    monkeypatch.setattr(Path, "iterdir", refuse)
    report = job.report()
    assert len(report.attempts) == (3 if where == "sections" else 2)
    (warning,) = (warning for warning in report.warnings if "Permission denied" in warning)
    assert where in warning


def test_a_log_of_another_job_is_named(job, whole):
    edit_header(whole[1], job="job-2")
    assert any("logs of other jobs" in warning and "job-2" in warning for warning in job.report().warnings)


def test_a_long_pause_after_a_finished_attempt_is_named(job):
    for at in (0.0, 86_401.0):
        job.run(at=at, end="finished")
    report = job.report()
    assert report.stages["downtime"] == 86_400.0
    (warning,) = report.warnings
    assert "attempt 2 began 86,400 s after attempt 1 had finished; the gap counts as downtime" in warning


def test_what_several_attempts_noted_is_one_line(job):
    for attempt in range(8):
        rank = job.launch(at=10.0 * attempt)
        rank.step(1.0)
        rank.recorder.note("the same thing")
        rank.leave()
    assert job.report().warnings == ("attempts 1, 2, 3, 4, 5 and 3 more: the same thing",)


@pytest.mark.parametrize("kept", [True, False], ids=["with a state file", "without"])
def test_an_attempt_that_died_before_its_first_step_had_ended_did_not_start(job, kept):
    first = job.launch()
    first.load(1.0)
    first.recorder.begin_step()
    first.wait_for(50.0)
    first.beat()
    if not kept:
        first.state_path.unlink()
    second = job.launch(at=60.0)
    second.step(2.0)
    second.leave()
    assert job.report().time_to_start_s == 62.0


def test_an_attempt_that_trains_nothing_stands_where_it_resumed(job, whole):
    rank = job.launch(at=40.0)
    rank.recorder.move_to(10)
    rank.leave()
    attempt = job.report().attempts[-1]
    assert (attempt.resumed_from_samples, attempt.reached_samples) == (10, 10)


@pytest.mark.parametrize("which", ["another attempt's", "another rank's", "zeros", "empty"])
def test_a_state_file_that_says_nothing_of_its_log_is_not_believed(job, which):
    ranks = job.launch(world=2)
    for rank in ranks:
        rank.step(1.0)
        rank.beat()
    later = job.launch(at=10.0)
    later.recorder.move_to(10)
    later.step(5.0, samples=500)
    later.beat()
    state = ranks[0].state_path
    if which == "another attempt's":
        shutil.copy(later.state_path, state)
    elif which == "another rank's":
        shutil.copy(ranks[1].state_path, state)
    else:
        kept = 64 if which == "empty" else 0
        state.write_bytes(state.read_bytes()[:kept] + bytes(len(state.read_bytes()) - kept))
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (510, 0)
    assert any("attempt 1, rank 0: its state file" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    "changes",
    [{"t": 1}, {"stages": (10**18, *(0,) * (STAGE_COUNT - 1))}],
    ids=["before the process began", "more time than there was"],
)
def test_a_state_file_whose_totals_cannot_be_is_not_believed(job, stages, changes):
    rank = job.launch()
    rank.step(1.0)
    rank.beat()
    rank.step(1.0)
    rank.step(1.0)
    rank.beat()
    current = read_state(rank.state_path).current
    rest = (getattr(current, each.name) for each in fields(current) if each.name != "totals")
    rank.state.write_current((*flatten(replace(current.totals, **changes)), *rest))
    report = job.report()
    (warning,) = report.warnings
    assert "attempt 1, rank 0: its state file says what cannot be" in warning
    stages(report, training=2.0)


def test_a_log_that_was_cut_is_not_explained_by_what_its_state_file_knows(job, survive):
    rank = job.launch()
    for _ in range(5):
        rank.step(1.0)
        rank.beat()
    data = rank.log.read_bytes()
    rank.log.write_bytes(data[: data.index(b"\n", data.index(b"\n") + 1) + 1])
    report = survive(job)
    assert any("bytes that the log has lost" in warning for warning in report.warnings)


def test_a_log_of_another_attempt_in_the_place_of_one_is_not_counted_twice(job, whole):
    shutil.copy(whole[0].log, whole[1].log)
    report = job.report()
    assert report.steps.new == 2
    assert any("it is that of attempt 1, rank 0" in warning for warning in report.warnings)
