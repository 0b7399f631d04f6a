"""What a kill leaves of the time before it."""

from __future__ import annotations

import pytest

from ett_hookspecs import Stage


@pytest.fixture
def rank(job):
    """A rank that has trained for a second."""
    rank = job.launch()
    rank.step()
    return rank


def test_a_step_that_a_kill_cuts_short_is_downtime_from_its_start(job, stages):
    rank = job.launch(imports=1.0)
    for _ in range(3):
        rank.step(1.0, load=0.5)
    rank.load(0.25)
    rank.recorder.begin_step()
    rank.wait_for(5.0)
    rank.beat()
    report = job.report()
    stages(report, initialization=1.0, training=3.0, input_wait=1.75, downtime=5.0)
    assert report.samples.new == 30
    assert report.state == "killed"
    assert report.wall_s == 10.75


def test_between_the_arrival_of_a_batch_and_its_step_is_downtime(job, rank, stages):
    """What other callbacks do with a batch belongs to its step, and that never ended."""
    rank.load(0.5)
    rank.wait_for(40.0)
    rank.beat()
    stages(job.report(), training=1.0, input_wait=0.5, downtime=40.0)


def test_a_span_keeps_its_time_up_to_the_last_heartbeat(job, rank, stages):
    rank.recorder.open(Stage.VALIDATION, "validate", "test")
    rank.wait_for(3.0)
    rank.beat()
    rank.wait_for(0.75)
    stages(job.report(), training=1.0, validation=3.0)


def test_a_span_inside_a_step_keeps_its_time_and_the_step_does_not(job, rank, stages):
    rank.load(0.0)
    rank.recorder.begin_step()
    rank.wait_for(2.0)
    rank.recorder.open(Stage.COMPILATION, "compile", "test")
    rank.wait_for(3.0)
    rank.beat()
    stages(job.report(), training=1.0, downtime=2.0, compilation=3.0)


def test_lines_written_after_the_last_mark_are_not_counted_twice(job, rank, stages):
    """A span inside a step is in the log before the step is, and in the state file's totals too."""
    rank.load(0.5)
    rank.recorder.begin_step()
    with rank.span("compilation"):
        rank.wait_for(3.0)
    rank.wait_for(2.0)
    rank.beat()
    stages(job.report(), training=1.0, input_wait=0.5, compilation=3.0, downtime=2.0)


def test_steps_logged_after_the_last_mark_are_not_counted_twice(job):
    """The stretch of repeated steps is logged when the first new one ends, which is in the middle of something."""
    job.run(5, 0.01)
    job.run(6, 0.01, at=1.0)
    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (6, 5)
    assert (report.samples.new, report.samples.repeated) == (60, 50)


@pytest.mark.parametrize("closed", [True, False])
def test_no_mark_is_set_while_something_is_open(job, stages, closed):
    rank = job.launch()
    rank.wait_for(1.0)
    validation = rank.recorder.open(Stage.VALIDATION, "validate", "test")
    rank.wait_for(1.0)
    with rank.span("checkpoint_restore"):
        rank.wait_for(2.0)
    rank.beat()
    rank.wait_for(1.0)
    if closed:
        rank.recorder.close_span(validation)
    rank.beat()
    stages(job.report(), initialization=1.0, validation=2.0, checkpoint_restore=2.0)


def test_a_wait_for_the_loader_is_a_wait(job, rank, stages):
    rank.recorder.begin_wait()
    rank.wait_for(4.0)
    rank.beat()
    stages(job.report(), training=1.0, input_wait=4.0)


def test_time_after_a_step_stays_with_that_step(job, rank, stages):
    rank.wait_for(2.0)
    rank.beat()
    stages(job.report(), training=3.0)


def test_time_before_the_first_batch_is_initialization(job, stages):
    rank = job.launch(imports=2.0)
    rank.wait_for(3.0)
    rank.beat()
    report = job.report()
    stages(report, initialization=5.0)
    assert report.failures == 1


def test_tear_down_is_shutdown(job, rank, stages):
    rank.recorder.end_training()
    rank.wait_for(2.0)
    rank.beat()
    stages(job.report(), training=1.0, shutdown=2.0)


def test_a_second_fit_leaves_what_lay_between_the_fits_as_initialization(job, rank, stages):
    """Also when the disk took nothing after the first one."""
    rank.recorder.end_training()
    rank.end_fit()
    rank.wait_for(2.0)
    with rank.span("validation"):
        rank.wait_for(0.5)
    rank.beat()
    rank.wait_for(3.0)
    rank.step(40.0)
    stages(job.report(), training=41.0, initialization=5.0, validation=0.5)


def test_what_was_never_flushed_is_known_from_the_state_file(job, stages):
    rank = job.launch(imports=1.0)
    for step in range(110):
        rank.step(0.5, load=0.125)
        if step == 9:
            rank.beat()
    with rank.span("validation"):
        rank.wait_for(2.0)
    report = job.report()
    assert report.steps.new == 110
    stages(report, initialization=1.0, training=55.0, input_wait=13.75, validation=2.0)
