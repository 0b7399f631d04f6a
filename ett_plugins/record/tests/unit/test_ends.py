"""Whether an attempt runs, hangs or has ended, and how."""

from __future__ import annotations

import os
import socket

import pytest


@pytest.fixture
def running(job):
    """A rank that has trained for a second, waited for half of one, and has been in its next step for two."""
    rank = job.launch(alive=True)
    rank.step(1.0)
    rank.load(0.5)
    rank.recorder.begin_step()
    rank.wait_for(2.0)
    rank.beat()
    return rank


def test_a_running_step_counts_when_it_has_ended(job, running, stages):
    report = job.report(now=4.0)
    assert report.state == report.attempts[0].end == "running"
    assert report.failures == 0
    assert not report.warnings
    stages(report, training=1.0, input_wait=0.5, unknown=2.0)
    running.recorder.end_step(20)
    running.beat()
    stages(job.report(now=4.0), training=3.0, input_wait=0.5)


def test_what_is_nested_in_a_running_step_counts_as_itself(job, running, stages):
    with running.span("checkpoint_save"):
        running.wait_for(1.0)
        running.beat()
        stages(job.report(now=5.0), training=1.0, input_wait=0.5, unknown=2.0, checkpoint_save=1.0)


@pytest.mark.parametrize("where", ["in a step", "between two steps"])
def test_a_training_that_hangs_is_not_training_and_the_report_says_so(job, running, stages, where):
    if where == "between two steps":
        running.recorder.end_step(20)
    running.wait_for(338.0)
    running.beat()
    report = job.report(now=342.0)
    hung = 340.0 if where == "in a step" else 338.0
    stages(report, training=341.5 - 0.5 - hung, input_wait=0.5, unknown=hung)
    (warning,) = report.warnings
    assert f"rank 0: has been in the same step for {hung:.0f} s" in warning


def test_a_process_that_is_there_and_gives_no_sign_of_life_is_named(job, running, stages):
    report = job.report(now=3.5 + 340.0)
    assert report.state == "running"
    assert report.wall_s == 3.5
    (warning,) = report.warnings
    process = f"process {os.getpid()} on host {socket.gethostname()}"
    assert f"rank 0: has given no sign of life for 340 s although {process} is there" in warning


def test_a_process_elsewhere_that_gives_no_sign_of_life_is_named_while_its_lease_lasts(job):
    job.run(host="elsewhere", boot="boot-1", alive=True)
    report = job.report(now=21.0)
    assert report.state == "running"
    (warning,) = report.warnings
    process = f"process {os.getpid()} on host elsewhere"
    assert f"rank 0: has given no sign of life for 20 s; {process} cannot be seen" in warning


def test_a_process_that_is_there_runs_whatever_became_of_its_state_file(job, running):
    running.state_path.unlink()
    report = job.report(now=4.0)
    assert (report.state, report.failures) == ("running", 0)


def test_of_many_ranks_that_hang_the_worst_is_named(job):
    for rank in job.launch(alive=True, world=3):
        rank.recorder.begin_step()
        rank.wait_for(40.0 + rank.state_path.name.count("2"))
        rank.beat()
    (warning,) = job.report(now=42.0).warnings
    assert "rank 2: has been in the same step for 41 s" in warning
    assert warning.endswith("(and 2 more)")


@pytest.mark.parametrize(
    ("end", "failure_class", "failures"),
    [
        ("finished", None, 0),
        ("failed", "user", 0),
        ("failed", "infrastructure", 1),
        ("interrupted", None, 0),
        ("preempted", None, 0),
    ],
)
def test_an_end_in_order_is_what_the_fit_said(job, end, failure_class, failures):
    """B27 (Lightning #11924): an interrupt is recorded as one."""
    rank = job.launch()
    rank.step(1.0)
    rank.leave(end, failure_class, None if end == "finished" else "Some: error")
    report = job.report()
    assert report.state == end
    assert report.attempts[0].failure_class == failure_class
    assert report.failures == failures


def test_a_process_that_leaves_in_the_middle_of_a_fit_was_interrupted(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.load(0.0)
    rank.recorder.begin_step()
    rank.wait_for(1.0)
    rank.recorder.finish()
    report = job.report()
    assert report.state == "interrupted"
    stages(report, training=1.0, shutdown=1.0)


@pytest.mark.parametrize(
    ("predecessor", "end"), [("dead", "killed"), ("same_run", "killed"), ("expired", "lost"), (None, "lost")]
)
def test_on_another_host_the_next_attempt_knows_whether_it_was_killed_or_lost(job, predecessor, end):
    job.run(host="elsewhere", boot="boot-1")
    job.run(at=50.0, host="elsewhere", boot="boot-2", predecessor=predecessor, end="finished")
    report = job.report()
    assert report.attempts[0].end == end
    assert report.failures == 1


@pytest.mark.parametrize(("seen_after", "end"), [(10.0, "running"), (29.0, "running"), (31.0, "lost")])
def test_a_process_on_another_host_runs_until_its_lease_is_over(job, seen_after, end):
    job.run(host="elsewhere", boot="boot-1")
    assert job.report(now=1.0 + seen_after).state == end


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (("finished", "failed"), "failed"),
        (("preempted", "finished"), "preempted"),
        (("interrupted", "preempted"), "interrupted"),
        (("finished", "killed"), "killed"),
        (("failed", "killed"), "killed"),
        (("failed", "running"), "running"),
    ],
)
def test_an_attempt_ends_as_its_worst_rank_did(job, ends, expected):
    alive = "running" in ends
    for rank, end in zip(job.launch(world=2, alive=alive), ends, strict=True):
        rank.step(1.0)
        if end in ("killed", "running"):
            rank.beat()
        else:
            rank.leave(end, "user" if end == "failed" else None, None if end == "finished" else "Some: error")
    assert job.report().state == expected


@pytest.mark.parametrize("classes", [("user", "infrastructure"), ("infrastructure", "user")])
def test_ranks_that_lose_their_peer_to_an_exception_of_user_code_are_no_failure_of_the_infrastructure(job, classes):
    for rank, failure_class in zip(job.launch(world=2), classes, strict=True):
        rank.step(1.0)
        rank.leave("failed", failure_class, "Some: error")
    report = job.report()
    assert report.attempts[0].failure_class == "user"
    assert report.failures == 0


def test_a_second_fit_that_is_killed_after_a_first_that_finished_was_killed(job):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.end_training()
    rank.end_fit()
    rank.step(1.0)
    rank.beat()
    assert job.report().state == "killed"
