"""Time without a process: before an attempt, between two, and where a rank is late, early or lost."""

from __future__ import annotations

import pytest


def test_time_before_the_first_process_is_scheduling_since_the_allocation(job, stages):
    job.run(allocated=-30.0, imports=1.0, end="finished")
    report = job.report()
    stages(report, scheduling=30.0, initialization=1.0, training=1.0)
    assert report.time_to_start_s == 32
    assert report.owners["scheduler"] == 30


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"allocated": -30.0}, {"allocated": -30.0}, {"scheduling": 30.0, "downtime": 10.0}),
        ({}, {}, {"downtime": 10.0}),
        ({}, {"allocated": 8.0}, {"downtime": 7.0, "scheduling": 3.0}),
        ({}, {"allocated": 0.5}, {"scheduling": 10.0}),
    ],
    ids=["the same allocation", "none known", "a new one in the gap", "one made while the attempt before still ran"],
)
def test_a_gap_is_downtime_until_a_new_allocation_and_scheduling_after_it(job, stages, first, second, expected):
    job.run(**first)
    job.run(at=11.0, resume=10, end="finished", **second)
    stages(job.report(), training=2.0, **expected)


def test_a_gap_counts_for_the_ranks_of_the_next_attempt(job):
    job.run()
    job.run(2, at=11.0, world=4, end="finished")
    report = job.report()
    assert report.rank_seconds["downtime"] == 4 * 10
    assert report.stages["downtime"] == 10
    assert report.ett_percent == pytest.approx(100 * (1 + 4) / (1 + 4 * 12))


def test_a_rank_that_starts_late_waits_as_the_others_did_before_their_start(job):
    first, second = job.launch(allocated=-5.0, world=2, late=2.0)
    first.wait_for(2.0)
    for rank in (first, second):
        rank.step()
        rank.leave()
    report = job.report()
    assert report.rank_seconds["scheduling"] == 5 + 7
    assert report.rank_seconds["initialization"] == 2
    assert report.wall_s == 8


def test_a_rank_that_ends_early_is_downtime_until_its_attempt_ends(job):
    first, second = job.launch(world=2)
    first.step()
    second.step()
    second.leave("failed", "user", "ValueError: no")
    first.wait_for(9.0)
    first.beat()
    report = job.report()
    assert report.rank_seconds["downtime"] == 9
    assert report.rank_seconds["training"] == 1 + 10
    assert report.wall_s == 10


def test_the_time_of_a_rank_without_a_file_is_unknown(job):
    _, lost = job.run(5, world=2, allocated=-3.0, end="finished")
    lost.log.unlink()
    lost.state_path.unlink()
    report = job.report()
    assert report.rank_seconds["unknown"] == 5
    assert report.rank_seconds["scheduling"] == 6
    assert report.owners["unknown"] == 2.5
    assert any("attempt 1, rank 1: its log is missing" in line for line in report.warnings)
    assert report.state == "finished"


def test_a_process_that_outlives_the_next_attempt_ends_where_that_one_begins(job):
    """A hung rank that is killed only after its successor was launched."""
    job.run(1, 20.0)
    job.run(1, 5.0, at=15.0, resume=10, end="finished")
    report = job.report()
    assert report.wall_s == 20
    assert report.attempts[0].wall_s == 15
    assert report.stages["training"] == 20


def test_an_attempt_that_lived_on_beside_the_next_one_is_named(job):
    first = job.launch()
    first.step(100.0)
    first.leave()
    second = job.launch(at=60.0)
    second.recorder.move_to(10)
    second.step(10.0)
    second.leave()
    (warning,) = job.report().warnings
    assert "the attempt before attempt 2 lived on for 40.0 s beside it" in warning
