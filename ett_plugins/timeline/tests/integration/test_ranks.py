"""Two ranks of plain DDP over gloo, in processes of their own."""

from __future__ import annotations

import time

import pytest

from ett_record import read_job


def ends(report):
    return [attempt.end for attempt in report.attempts]


@pytest.mark.parametrize("launched_by", ["torchrun", "lightning"])
def test_two_ranks_are_one_attempt_and_share_one_position(job, program, launched_by):
    launcher = program.torchrun if launched_by == "torchrun" else ()
    program.run("--job-dir", job.dir, "--ranks", 2, "--max-steps", 12, launcher=launcher)
    report = job.report()
    assert ends(report) == ["finished"]
    assert report.world_size == 2
    assert (report.steps.new, report.samples.new) == (12, 12 * 4 * 2)
    assert sum(report.rank_seconds.values()) == pytest.approx(2 * report.wall_s, abs=2e-3)
    assert report.warnings == ()
    (attempt,) = read_job(job.dir).attempts
    assert sorted(attempt.ranks) == [0, 1]
    assert len({rank.header.pid for rank in attempt.ranks.values()}) == 2


@pytest.mark.parametrize(("knowing", "measured"), [(0, True), (1, False)])
def test_what_rank_zero_is_told_holds_for_all_and_no_rank_waits_for_another(job, program, knowing, measured):
    program.run("--job-dir", job.dir, "--ranks", 2, "--knowing-rank", knowing, launcher=program.torchrun)
    assert (job.dir / "timeline").exists() == measured
    if measured:
        (attempt,) = read_job(job.dir).attempts
        assert sorted(attempt.ranks) == [0, 1]


def test_a_stop_and_a_resume_repeat_nothing_and_the_pause_is_downtime(job, program):
    """M1 (ml-goodput-measurement): with real processes, and a change of the number of ranks between them."""
    program.run("--job-dir", job.dir, "--max-steps", 10)
    ended = time.time()
    program.run("--job-dir", job.dir, "--max-steps", 16, "--ranks", 2, launcher=program.torchrun)
    report = job.report()
    assert ends(report) == ["finished", "finished"]
    assert (report.steps.new, report.steps.repeated) == (16, 0)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (10 * 4 + 6 * 8, 0, 0)
    assert report.attempts[1].resumed_from_samples == 40
    pause = report.attempts[1].process_start_unix - report.attempts[0].end_unix
    assert pause > 0
    # The ranks of the second launch start one after the other, and need not end together.
    assert pause - 1e-3 <= report.attempts[1].stages["downtime"] < pause + 15
    assert report.attempts[0].end_unix <= ended
    assert (report.failures, report.stages["retraining"]) == (0, 0)
