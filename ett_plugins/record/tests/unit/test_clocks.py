"""Clocks that jump or differ, and what the environment says of the allocation."""

from __future__ import annotations

import os

import pytest

STARTED_NS = 1_700_000_000 * 10**9


def test_a_wall_clock_that_jumps_between_attempts_is_flagged_and_changes_nothing(job, stages):
    job.run()
    job.run(at=3.0, clock_jump=-3600.0, resume=10, end="finished")
    report = job.report()
    stages(report, training=2.0, downtime=2.0)
    assert any("the wall clock had jumped by -3600.0 s" in line for line in report.warnings)


def test_another_boot_whose_clock_is_behind_is_moved_and_flagged(job, stages):
    job.run(5, boot="boot-1")
    job.run(at=6.0, boot="boot-2", clock_jump=-100.0, resume=50, end="finished")
    report = job.report()
    stages(report, training=6.0)
    assert any("attempt 2 began 99.0 s before the end of the one before it" in line for line in report.warnings)


def test_a_new_host_whose_clock_is_behind_takes_nothing_from_the_attempt_before(job):
    """Two hosts, one of them known from the attempt before and one with a clock of its own."""
    job.run(50, boot="boot-1")
    second = {"at": 60.0, "world": 2, "resume": 500, "end": "finished"}
    job.run(ranks=[0], boot="boot-1", **second)
    job.run(ranks=[1], boot="boot-2", clock_jump=-100.0, join=True, **second)
    report = job.report()
    assert report.attempts[0].wall_s == 50
    assert report.attempts[0].stages["training"] == 50
    assert report.wall_s == 61


@pytest.mark.parametrize(
    ("environ", "seconds_before", "refused"),
    [
        ({}, None, 0),
        ({"ETT_ALLOCATED_AT": ""}, None, 0),
        ({"ETT_ALLOCATED_AT": "1699999990"}, 10, 0),
        ({"ETT_ALLOCATED_AT": " 1699999990.5 "}, 9.5, 0),
        ({"SLURM_JOB_START_TIME": "1699999900"}, 100, 0),
        ({"ETT_ALLOCATED_AT": "1699999990", "SLURM_JOB_START_TIME": "1699999900"}, 10, 0),
        ({"ETT_ALLOCATED_AT": "yesterday", "SLURM_JOB_START_TIME": "1699999900"}, 100, 1),
        ({"ETT_ALLOCATED_AT": "yesterday"}, None, 1),
        ({"ETT_ALLOCATED_AT": "nan"}, None, 1),
        ({"ETT_ALLOCATED_AT": "inf"}, None, 1),
        ({"ETT_ALLOCATED_AT": "1e999"}, None, 1),
        ({"ETT_ALLOCATED_AT": "-5"}, None, 1),
        ({"ETT_ALLOCATED_AT": "0"}, None, 1),
        ({"ETT_ALLOCATED_AT": "1699999990000"}, None, 1),
        ({"ETT_ALLOCATED_AT": str(1_700_000_000 - 367 * 86_400)}, None, 1),
        ({"ETT_ALLOCATED_AT": "1700000061"}, None, 1),
        ({"ETT_ALLOCATED_AT": "1700000030"}, 0, 0),
        ({"ETT_ALLOCATED_AT": "-5", "SLURM_JOB_START_TIME": "never"}, None, 2),
    ],
)
def test_an_allocation_that_cannot_be_is_refused_and_said_so(environ, seconds_before, refused):
    from ett_record.clock import allocation_time

    allocated, notes = allocation_time(environ, STARTED_NS)
    assert len(notes) == refused
    for note in notes:
        assert "ignored" in note
        assert note.startswith(("ETT_ALLOCATED_AT=", "SLURM_JOB_START_TIME="))
    if seconds_before is None:
        assert allocated is None
    else:
        assert allocated == pytest.approx(STARTED_NS - seconds_before * 10**9, abs=1000)


def test_a_process_start_lies_before_now_and_after_boot():
    from time import monotonic_ns

    from ett_record.clock import process_start_monotonic_ns, process_start_ticks

    start = process_start_monotonic_ns()
    assert start is not None
    assert 0 < monotonic_ns() - start < 3600 * 10**9
    assert process_start_ticks(os.getpid()) is not None
    assert process_start_ticks(2**22 + 7) is None
