"""A job that was written from the outside is read like any other."""

from __future__ import annotations

import pytest

from ett_record import read_job, report_of
from ett_record.job import claim
from ett_record.lines import EndLine, OutcomeLine, PhaseLine
from ett_record.state import STAGE_COUNT, Current, Totals
from ett_record.written import AXIS_NS, RankWriter, holds_only_what_was_ingested, ingested_header, write_identity

NS = 1_000_000_000


def at(seconds):
    return seconds * NS + AXIS_NS


def write(job_dir, *, end):
    """One rank, allocated at 0: started at 1, two steps of 3 s from 3 on."""
    header = ingested_header(job="theirs", attempt=1, rank=0, world=1, start=at(1), allocated=at(0))
    with RankWriter(job_dir, header) as writer:
        writer.put(PhaseLine(t=at(3), phase="training"))
        writer.put_steps(at(3), at(6), 1, 0, 4)
        writer.put_steps(at(6), at(9), 1, 4, 8)
        if end:
            writer.put(OutcomeLine(t=at(9), end="finished"))
            writer.put(EndLine(t=at(9)))
        totals = Totals(at(9), 8, 8, 2, 0, 8, 0, (0,) * STAGE_COUNT)
        writer.finish(Current(totals, 0, 0, 0, at(3), at(6), at(3), at(9), end, 0 if end else -1, -1, 0))
    write_identity(job_dir, "theirs", {"source": "events.csv"})


@pytest.mark.parametrize(("end", "state"), [(True, "finished"), (False, "lost")])
def test_it_is_read_like_any_other_job(tmp_path, end, state):
    write(tmp_path, end=end)
    report = report_of(tmp_path)
    assert report.state == state
    assert {stage: value for stage, value in report.stages.items() if value} == {
        "scheduling": 1,
        "initialization": 2,
        "training": 6,
    }
    assert report.samples.new == 8
    assert report.time_to_start_s == 6
    assert report.attempts[0].start_unix == 0
    assert not report.warnings


def test_a_log_of_many_lines_is_whole(tmp_path):
    header = ingested_header(job="theirs", attempt=1, rank=0, world=1, start=at(0), allocated=None)
    with RankWriter(tmp_path, header) as writer:
        for step in range(10_000):
            writer.put_steps(at(step), at(step + 1), 1, step, step + 1)
        totals = Totals(at(10_000), 10_000, 10_000, 10_000, 0, 10_000, 0, (0,) * STAGE_COUNT)
        writer.finish(Current(totals, 0, 0, 0, 0, 1, 0, 10_000, 0, -1, -1, 0))
    assert list(read_job(tmp_path).attempts[0].ranks[0].steps.p1) == list(range(1, 10_001))


def test_a_training_may_go_on_in_its_directory_and_is_not_taken_for_ingested(tmp_path):
    write(tmp_path, end=True)
    assert holds_only_what_was_ingested(tmp_path)
    claimed = claim(tmp_path, {})
    assert (claimed.job_id, claimed.attempt) == ("theirs", 2)
    assert not holds_only_what_was_ingested(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ingested": 3}', '{"ingested": {"attempts": [2]}}'])
def test_a_directory_that_does_not_say_so_was_not_ingested(tmp_path, text):
    write(tmp_path, end=True)
    (tmp_path / "job.json").write_text(text)
    assert not holds_only_what_was_ingested(tmp_path)
