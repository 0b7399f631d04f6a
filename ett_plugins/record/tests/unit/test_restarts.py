"""A job over its restarts: new and repeated data, downtime, how attempts end."""

from __future__ import annotations

import os
import socket

import pytest

from ett_hookspecs import Stage


def test_a_crash_after_a_snapshot_repeats_what_came_after_it_once(job):
    """B34 (transformers #40560): 100 steps, crash after the snapshot at 80, resume, finish at 120."""
    rank = job.launch(imports=5.0)
    for _ in range(100):
        rank.step(1.0)
    rank.beat()
    rank = job.launch(at=110.0, imports=5.0)
    rank.recorder.move_to(800)
    for _ in range(40):
        rank.step(1.0)
    rank.leave()

    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (120, 20)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (1200, 200, 0)
    assert report.stages["training"] == pytest.approx(120)
    assert report.stages["retraining"] == pytest.approx(20)
    assert report.stages["initialization"] == pytest.approx(10)
    assert report.stages["downtime"] == pytest.approx(5)
    assert report.wall_s == pytest.approx(155)
    assert report.ett_percent == pytest.approx(100 * 120 / 155)
    assert report.owners == {
        "trainer": pytest.approx(10),
        "checkpoint": pytest.approx(20),
        "scheduler": pytest.approx(5),
    }
    assert report.failures == 1

    first, second = report.attempts
    assert (first.steps.new, first.steps.repeated) == (100, 0)
    assert (second.steps.new, second.steps.repeated) == (20, 20)
    assert (first.end, first.failure_class) == ("killed", "infrastructure")
    assert (second.end, second.failure_class) == ("finished", None)
    assert (first.resumed_from_samples, second.resumed_from_samples) == (0, 800)
    assert (first.reached_samples, second.reached_samples) == (1000, 1200)
    assert first.wall_s == pytest.approx(105)
    assert second.wall_s == pytest.approx(50)
    assert report.time_to_start_s == pytest.approx(6)
    assert report.time_to_resume_s.each == (pytest.approx(10),)
    assert report.time_to_recover_s.each == (pytest.approx(30),)


def test_a_clean_stop_and_ten_minutes_of_nothing_are_downtime_and_repeat_nothing(job):
    """M1 (ml-goodput-measurement)."""
    rank = job.launch()
    for _ in range(10):
        rank.step(1.0)
    rank.leave()
    rank = job.launch(at=610.0, imports=1.0, predecessor="ended")
    rank.recorder.move_to(100)
    for _ in range(10):
        rank.step(1.0)
    rank.leave()
    report = job.report()
    assert report.steps.repeated == report.samples.repeated == report.samples.skipped == 0
    assert report.stages["training"] == pytest.approx(20)
    assert report.stages["downtime"] == pytest.approx(600)
    assert report.stages["retraining"] == 0
    assert report.failures == 0
    assert report.time_to_recover_s.each == report.time_to_resume_s.each == (pytest.approx(601),)


def test_a_restart_from_zero_repeats_everything(job):
    rank = job.launch()
    for _ in range(7):
        rank.step(1.0)
    rank.beat()
    rank = job.launch(at=7.0)
    rank.recorder.move_to(0)
    for _ in range(9):
        rank.step(1.0)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (90, 70)
    assert report.stages["retraining"] == pytest.approx(7)
    assert report.stages["training"] == pytest.approx(9)


@pytest.mark.parametrize("length", [1.0, 0.01])
def test_a_step_across_the_high_water_mark_is_split_by_samples(job, length):
    """Also among steps so short that they share a line."""
    rank = job.launch()
    for _ in range(3):
        rank.step(length, samples=10)
    rank.beat()
    rank = job.launch(at=10.0)
    rank.step(length, samples=10, load=None)
    rank.step(4 * length, samples=40)
    rank.step(10 * length, samples=10)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (30 + 30, 30)
    assert (report.steps.new, report.steps.repeated) == (5, 1)
    second = report.attempts[1]
    assert second.stages["retraining"] == pytest.approx(3 * length)
    assert second.stages["training"] == pytest.approx(12 * length)


def test_a_changed_batch_size_and_number_of_ranks_change_nothing(job):
    rank = job.launch()
    for _ in range(10):
        rank.step(1.0, samples=10)
    rank.beat()
    both = job.launch(at=10.0, world=2)
    for rank in both:
        rank.recorder.move_to(60)
        for _ in range(4):
            rank.step(1.0, samples=20)
        rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (140, 40, 0)
    assert (report.steps.new, report.steps.repeated) == (12, 2)
    assert report.world_size == 2
    assert report.rank_seconds["training"] == pytest.approx(10 + 2 * 2)
    assert report.rank_seconds["retraining"] == pytest.approx(2 * 2)
    assert report.stages["training"] == pytest.approx(10 + 2)
    assert report.ett_percent == pytest.approx(100 * 14 / 18)


def test_a_resume_that_jumps_ahead_skips(job):
    rank = job.launch()
    rank.step(1.0, samples=100)
    rank.beat()
    rank = job.launch(at=1.0)
    rank.recorder.move_to(0)
    rank.recorder.move_to(120)
    rank.recorder.move_to(130)
    rank.step(1.0, samples=10)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (110, 0, 30)
    assert report.attempts[1].resumed_from_samples == 130


def test_a_skip_counts_although_a_kill_left_only_the_state_file_to_tell(job):
    rank = job.launch()
    rank.step(1.0, samples=100)
    rank.beat()
    rank = job.launch(at=1.0)
    rank.recorder.move_to(130)
    rank.beat()
    rank.step(0.25, samples=10)
    report = job.report()
    assert (report.samples.new, report.samples.skipped) == (110, 30)


def test_a_load_that_trains_nothing_moves_no_mark(job):
    rank = job.launch()
    rank.step(1.0, samples=100)
    rank.beat()
    rank = job.launch(at=1.0)
    rank.recorder.move_to(130)
    rank.wait_for(1.0)
    rank.beat()
    rank = job.launch(at=2.0)
    rank.recorder.move_to(130)
    rank.step(1.0, samples=10)
    rank.leave()
    assert job.report().samples.skipped == 30


def test_the_first_attempt_may_begin_anywhere(job):
    rank = job.launch()
    rank.recorder.move_to(500)
    rank.step(1.0, samples=10)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.skipped) == (10, 0)
    assert report.attempts[0].resumed_from_samples == 500


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("length", [1.0, 0.01])
def test_a_rollback_in_the_middle_of_a_fit_repeats_from_where_it_went_back_to(job, stages, measured, length):
    """A checkpoint loaded between two steps, the load being measured or not."""
    rank = job.launch()
    for _ in range(5):
        rank.step(length)
    if measured:
        with rank.span("checkpoint_restore"):
            rank.wait_for(0.5)
            rank.recorder.move_to(30)
    else:
        rank.recorder.move_to(30)
    for _ in range(4):
        rank.step(length)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (70, 20, 0)
    assert (report.steps.new, report.steps.repeated) == (7, 2)
    restored = {"checkpoint_restore": 0.5} if measured else {}
    stages(report, training=7 * length, retraining=2 * length, **restored)
    current = job.read().attempts[0].ranks[0].current
    assert (current.totals.samples_new, current.totals.samples_repeated) == (70, 20)


@pytest.mark.parametrize("length", [1.0, 0.01])
def test_a_jump_ahead_in_the_middle_of_a_fit_skips(job, stages, length):
    rank = job.launch()
    for _ in range(5):
        rank.step(length)
    rank.recorder.move_to(80)
    for _ in range(4):
        rank.step(length)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (90, 0, 30)
    assert report.attempts[0].reached_samples == 120
    stages(report, training=9 * length)


def test_a_step_with_anything_nested_has_a_line_of_its_own_also_around_a_load(job):
    rank = job.launch()
    for _ in range(5):
        rank.step(0.01)
    with rank.span("checkpoint_restore"):
        rank.recorder.move_to(80)
        rank.wait_for(0.01)
    for _ in range(5):
        rank.step(0.01)
    rank.leave()
    record = job.read().attempts[0].ranks[0]
    (span,) = (span for span in record.spans if span.stage == "checkpoint_restore")
    around = [n for t0, t1, n, *_ in record.steps if t0 < span.t1 and span.t0 < t1]
    assert around == [0]
    assert sorted(record.steps.n) == [0, 1, 4, 5]
    assert job.report().steps.new == 10


def test_batches_without_samples_are_new_or_repeated_by_where_they_are(job):
    rank = job.launch()
    rank.step(1.0, samples=10)
    rank.step(1.0, samples=0)
    rank.beat()
    rank = job.launch(at=2.0)
    rank.step(1.0, samples=0)
    rank.step(1.0, samples=10)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (10, 10)
    assert (report.steps.new, report.steps.repeated) == (2, 2)
    assert report.stages["retraining"] == pytest.approx(2)


# --- kills ---


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
    assert report.wall_s == pytest.approx(10.75)


def test_a_kill_inside_a_span_keeps_it_up_to_the_last_heartbeat(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.open(Stage.VALIDATION, "validate", "test")
    rank.wait_for(3.0)
    rank.beat()
    rank.wait_for(0.75)
    stages(job.report(), training=1.0, validation=3.0)


def test_a_kill_inside_a_span_inside_a_step_keeps_the_span_and_not_the_step(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.begin_wait()
    rank.recorder.end_wait()
    rank.recorder.begin_step()
    rank.wait_for(2.0)
    rank.recorder.open(Stage.COMPILATION, "compile", "test")
    rank.wait_for(3.0)
    rank.beat()
    stages(job.report(), training=1.0, downtime=2.0, compilation=3.0)


def test_lines_written_after_the_last_mark_are_not_counted_twice(job, stages):
    """A span inside a step is in the log before the step is, and in the state file's totals too."""
    rank = job.launch()
    rank.step(1.0)
    rank.load(0.5)
    rank.recorder.begin_step()
    with rank.span("compilation"):
        rank.wait_for(3.0)
    rank.wait_for(2.0)
    rank.beat()
    stages(job.report(), training=1.0, input_wait=0.5, compilation=3.0, downtime=2.0)


def test_steps_logged_after_the_last_mark_are_not_counted_twice(job):
    """The stretch of repeated steps is logged when the first new one ends, which is in the middle of something."""
    rank = job.launch()
    for _ in range(5):
        rank.step(0.01)
    rank.beat()
    rank = job.launch(at=1.0)
    for _ in range(6):
        rank.step(0.01)
    rank.beat()
    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (6, 5)
    assert (report.samples.new, report.samples.repeated) == (60, 50)


def test_no_mark_is_set_while_something_is_open(job, stages):
    rank = job.launch()
    rank.wait_for(1.0)
    with rank.span("validation"):
        rank.wait_for(1.0)
        with rank.span("checkpoint_restore"):
            rank.wait_for(2.0)
        rank.beat()
        rank.wait_for(1.0)
    rank.beat()
    rank.step(1.0)
    stages(job.report(), initialization=1.0, validation=2.0, checkpoint_restore=2.0, training=1.0)
    rank = job.launch(at=6.0)
    with rank.span("validation"):
        rank.wait_for(1.0)
        with rank.span("checkpoint_restore"):
            rank.wait_for(2.0)
        rank.beat()
        rank.wait_for(1.0)
        rank.beat()
    assert job.report().attempts[1].stages["validation"] == pytest.approx(2.0)


def test_a_kill_while_the_loader_is_waited_for_is_a_wait(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.begin_wait()
    rank.wait_for(4.0)
    rank.beat()
    stages(job.report(), training=1.0, input_wait=4.0)


def test_a_kill_between_steps_leaves_the_time_with_the_step_before(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.wait_for(2.0)
    rank.beat()
    stages(job.report(), training=3.0)


def test_a_kill_before_the_first_batch_is_initialization(job, stages):
    rank = job.launch(imports=2.0)
    rank.wait_for(3.0)
    rank.beat()
    report = job.report()
    stages(report, initialization=5.0)
    assert report.failures == 1


def test_a_kill_in_tear_down_is_shutdown(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.end_training()
    rank.wait_for(2.0)
    rank.beat()
    stages(job.report(), training=1.0, shutdown=2.0)


def test_a_kill_in_a_second_fit_leaves_what_lay_between_the_fits_as_initialization(job, stages):
    """Also when the disk took nothing after the first one."""
    rank = job.launch()
    rank.step(1.0)
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
    for _ in range(10):
        rank.step(0.5, load=0.125)
    rank.beat()
    for _ in range(100):
        rank.step(0.5, load=0.125)
    with rank.span("validation"):
        rank.wait_for(2.0)
    report = job.report()
    assert report.steps.new == 110
    stages(report, initialization=1.0, training=55.0, input_wait=13.75, validation=2.0)


# --- between attempts ---


def test_time_before_the_first_process_is_scheduling_since_the_allocation(job, stages):
    rank = job.launch(allocated=-30.0, imports=1.0)
    rank.step(1.0)
    rank.leave()
    report = job.report()
    stages(report, scheduling=30.0, initialization=1.0, training=1.0)
    assert report.time_to_start_s == pytest.approx(32)
    assert report.owners["scheduler"] == pytest.approx(30)


def test_a_restart_inside_an_allocation_waits_for_no_scheduler(job, stages):
    rank = job.launch(allocated=-30.0)
    rank.step(1.0)
    rank.beat()
    rank = job.launch(at=11.0, allocated=-30.0)
    rank.step(1.0)
    rank.leave()
    stages(job.report(), scheduling=30.0, training=1.0, downtime=10.0, retraining=1.0)


def test_a_new_allocation_divides_the_gap_in_downtime_and_scheduling(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.beat()
    rank = job.launch(at=11.0, allocated=8.0)
    rank.recorder.move_to(10)
    rank.step(1.0)
    rank.leave()
    stages(job.report(), training=2.0, downtime=7.0, scheduling=3.0)


def test_an_allocation_made_while_the_attempt_before_still_ran_counts_from_its_end(job, stages):
    rank = job.launch()
    rank.step(10.0)
    rank.beat()
    rank = job.launch(at=12.0, allocated=5.0)
    rank.recorder.move_to(10)
    rank.step(1.0)
    rank.leave()
    stages(job.report(), training=11.0, scheduling=2.0)


def test_a_gap_counts_for_the_ranks_of_the_next_attempt(job):
    rank = job.launch()
    rank.step(1.0)
    rank.beat()
    for rank in job.launch(at=11.0, world=4):
        rank.step(1.0, samples=10)
        rank.step(1.0, samples=10)
        rank.leave()
    report = job.report()
    assert report.rank_seconds["downtime"] == pytest.approx(4 * 10)
    assert report.stages["downtime"] == pytest.approx(10)
    assert report.ett_percent == pytest.approx(100 * (1 + 4) / (1 + 4 * 12))


def test_a_rank_that_starts_late_waits_as_the_others_did_before_their_start(job):
    first, second = job.launch(allocated=-5.0, world=2, late=2.0)
    first.wait_for(2.0)
    for rank in (first, second):
        rank.step(1.0)
        rank.leave()
    report = job.report()
    assert report.rank_seconds["scheduling"] == pytest.approx(5 + 7)
    assert report.rank_seconds["initialization"] == pytest.approx(2)
    assert report.wall_s == pytest.approx(8)


def test_a_kill_between_the_arrival_of_a_batch_and_its_step_leaves_the_time_to_downtime(job, stages):
    """What other callbacks do with a batch belongs to its step, and that never ended."""
    rank = job.launch()
    rank.step(1.0)
    rank.load(0.5)
    rank.wait_for(40.0)
    rank.beat()
    stages(job.report(), training=1.0, input_wait=0.5, downtime=40.0)


def test_a_rank_that_ends_early_is_downtime_until_its_attempt_ends(job):
    first, second = job.launch(world=2)
    first.step(1.0)
    second.step(1.0)
    second.leave("failed", "user", "ValueError: no")
    first.wait_for(9.0)
    first.beat()
    report = job.report()
    assert report.rank_seconds["downtime"] == pytest.approx(9)
    assert report.rank_seconds["training"] == pytest.approx(1 + 10)
    assert report.wall_s == pytest.approx(10)


def test_the_time_of_a_rank_without_a_file_is_unknown(job):
    first, second = job.launch(world=2, allocated=-3.0)
    for rank in (first, second):
        rank.step(5.0)
        rank.leave()
    second.log.unlink()
    second.state_path.unlink()
    report = job.report()
    assert report.rank_seconds["unknown"] == pytest.approx(5)
    assert report.rank_seconds["scheduling"] == pytest.approx(6)
    assert report.owners["unknown"] == pytest.approx(2.5)
    assert any("attempt 1, rank 1: its log is missing" in line for line in report.warnings)
    assert report.state == "finished"


def test_a_process_that_outlives_the_next_attempt_ends_where_that_one_begins(job):
    """A hung rank that is killed only after its successor was launched."""
    rank = job.launch()
    rank.step(20.0)
    rank.beat()
    rank = job.launch(at=15.0)
    rank.recorder.move_to(10)
    rank.step(5.0)
    rank.leave()
    report = job.report()
    assert report.wall_s == pytest.approx(20)
    assert report.attempts[0].wall_s == pytest.approx(15)
    assert report.stages["training"] == pytest.approx(20)


# --- how it ended ---


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
    rank = job.launch(host="elsewhere", boot="boot-1", alive=True)
    rank.step(1.0)
    rank.beat()
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
    rank = job.launch(host="elsewhere", boot="boot-1")
    rank.step(1.0)
    rank.beat()
    rank = job.launch(at=50.0, host="elsewhere", boot="boot-2", predecessor=predecessor)
    rank.step(1.0)
    rank.leave()
    report = job.report()
    assert report.attempts[0].end == end
    assert report.failures == 1


@pytest.mark.parametrize(("seen_after", "end"), [(10.0, "running"), (29.0, "running"), (31.0, "lost")])
def test_a_process_on_another_host_runs_until_its_lease_is_over(job, seen_after, end):
    rank = job.launch(host="elsewhere", boot="boot-1")
    rank.step(1.0)
    rank.beat()
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


def test_restarts_without_a_new_step_are_summed_up_by_the_one_that_has_it(job):
    rank = job.launch()
    for _ in range(10):
        rank.step(1.0)
    rank.beat()
    rank = job.launch(at=15.0)
    rank.recorder.move_to(50)
    rank.step(1.0)
    rank.beat()
    rank = job.launch(at=20.0)
    rank.recorder.move_to(50)
    for _ in range(6):
        rank.step(1.0)
    rank.leave()
    report = job.report()
    assert report.time_to_resume_s.each == (pytest.approx(5), pytest.approx(10))
    assert report.time_to_recover_s.each == (pytest.approx(15),)
    assert report.samples.repeated == 10 + 50


# --- clocks ---


def test_a_wall_clock_that_jumps_between_attempts_is_flagged_and_changes_nothing(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.beat()
    rank = job.launch(at=3.0, clock_jump=-3600.0)
    rank.recorder.move_to(10)
    rank.step(1.0)
    rank.leave()
    report = job.report()
    stages(report, training=2.0, downtime=2.0)
    assert any("the wall clock had jumped by -3600.0 s" in line for line in report.warnings)


def test_another_boot_whose_clock_is_behind_is_moved_and_flagged(job, stages):
    rank = job.launch(boot="boot-1")
    rank.step(5.0)
    rank.beat()
    rank = job.launch(at=6.0, boot="boot-2", clock_jump=-100.0)
    rank.recorder.move_to(10)
    rank.step(1.0)
    rank.leave()
    report = job.report()
    stages(report, training=6.0)
    assert any("attempt 2 began 99.0 s before the end of the one before it" in line for line in report.warnings)


def test_a_new_host_whose_clock_is_behind_takes_nothing_from_the_attempt_before(job):
    """Two hosts, one of them known from the attempt before and one with a clock of its own."""
    rank = job.launch(boot="boot-1")
    rank.step(50.0)
    rank.beat()
    directory_of = job.launch(at=60.0, world=2, ranks=[0], boot="boot-1")
    job.attempts -= 1
    (known,) = directory_of
    (stranger,) = _same_attempt(job, at=60.0, world=2, ranks=[1], boot="boot-2", clock_jump=-100.0)
    for each in (known, stranger):
        each.recorder.move_to(10)
        each.step(1.0)
        each.leave()
    report = job.report()
    assert report.attempts[0].wall_s == pytest.approx(50)
    assert report.attempts[0].stages["training"] == pytest.approx(50)
    assert report.wall_s == pytest.approx(61)


def _same_attempt(job, **how):
    """More ranks of the attempt that was launched last: its folder is there."""
    number = job.attempts + 1
    folder = job.dir / "timeline" / f"attempt-{number:04d}"
    aside = folder.with_name("aside")
    folder.rename(aside)
    ranks = job.launch(**how)
    for path in aside.iterdir():
        path.rename(folder / path.name)
    aside.rmdir()
    return ranks


# --- the rolling window ---


def test_the_rolling_window_looks_back_ten_minutes(job):
    rank = job.launch()
    for _ in range(1200):
        rank.step(1.0)
    rank.recorder.end_training()
    rank.wait_for(600.0)
    rank.recorder.finish()
    section = job.report().sections["timeline"]
    assert section["rolling_window_s"] == 600
    assert section["rolling_ett_percent"] == pytest.approx(0, abs=0.1)
    assert section["rolling"][100][1] == pytest.approx(100, abs=0.1)


def test_the_rolling_window_of_a_job_of_a_week_is_ten_minutes_too(job):
    rank = job.launch()
    for _ in range(7 * 24):
        rank.step(3600.0, samples=1)
    rank.recorder.end_training()
    rank.wait_for(450.0)
    rank.recorder.finish()
    section = job.report().sections["timeline"]
    assert section["rolling_ett_percent"] == pytest.approx(25, abs=0.1)


# --- what the environment says of the allocation ---

STARTED_NS = 1_700_000_000 * 10**9


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
