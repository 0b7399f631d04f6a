"""A job over its restarts: new and repeated data, skips, recoveries."""

from __future__ import annotations

import pytest


def test_a_crash_after_a_snapshot_repeats_what_came_after_it_once(job, stages):
    """B34 (transformers #40560): 100 steps, crash after the snapshot at 80, resume, finish at 120."""
    job.run(100, imports=5.0)
    job.run(40, at=110.0, imports=5.0, resume=800, end="finished")

    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (120, 20)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (1200, 200, 0)
    stages(report, training=120.0, retraining=20.0, initialization=10.0, downtime=5.0)
    assert report.wall_s == 155
    assert report.ett_percent == pytest.approx(100 * 120 / 155)
    assert report.owners == {"trainer": 10, "checkpoint": 20, "scheduler": 5}
    assert report.failures == 1

    first, second = report.attempts
    assert (first.steps.new, first.steps.repeated) == (100, 0)
    assert (second.steps.new, second.steps.repeated) == (20, 20)
    assert (first.end, first.failure_class) == ("killed", "infrastructure")
    assert (second.end, second.failure_class) == ("finished", None)
    assert (first.resumed_from_samples, second.resumed_from_samples) == (0, 800)
    assert (first.reached_samples, second.reached_samples) == (1000, 1200)
    assert (first.wall_s, second.wall_s) == (105, 50)
    assert report.time_to_start_s == 6
    assert report.time_to_resume_s.each == (10,)
    assert report.time_to_recover_s.each == (30,)


def test_a_clean_stop_and_ten_minutes_of_nothing_are_downtime_and_repeat_nothing(job, stages):
    """M1 (ml-goodput-measurement)."""
    job.run(10, end="finished")
    job.run(10, at=610.0, imports=1.0, predecessor="ended", resume=100, end="finished")
    report = job.report()
    assert report.steps.repeated == report.samples.repeated == report.samples.skipped == 0
    stages(report, training=20.0, downtime=600.0, initialization=1.0)
    assert report.failures == 0
    assert report.time_to_recover_s.each == report.time_to_resume_s.each == (601,)


def test_a_restart_from_zero_repeats_everything(job, stages):
    job.run(7)
    job.run(9, at=7.0, resume=0, end="finished")
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (90, 70)
    stages(report, training=9.0, retraining=7.0)


@pytest.mark.parametrize("length", [1.0, 0.01])
def test_a_step_across_the_high_water_mark_is_split_by_samples(job, stages, length):
    """Also among steps so short that they share a line."""
    job.run(3, length)
    rank = job.launch(at=10.0)
    rank.step(length, samples=10, load=None)
    rank.step(4 * length, samples=40)
    rank.step(10 * length, samples=10)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (30 + 30, 30)
    assert (report.steps.new, report.steps.repeated) == (5, 1)
    stages(report.attempts[1], downtime=10 - 3 * length, retraining=3 * length, training=12 * length)


def test_a_changed_batch_size_and_number_of_ranks_change_nothing(job):
    job.run(10)
    job.run(4, samples=20, at=10.0, world=2, resume=60, end="finished")
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (140, 40, 0)
    assert (report.steps.new, report.steps.repeated) == (12, 2)
    assert report.world_size == 2
    assert report.rank_seconds["training"] == 10 + 2 * 2
    assert report.rank_seconds["retraining"] == 2 * 2
    assert report.stages["training"] == 10 + 2
    assert report.ett_percent == pytest.approx(100 * 14 / 18)


def test_a_resume_that_jumps_ahead_skips(job):
    job.run(samples=100)
    rank = job.launch(at=1.0)
    for position in (0, 120, 130):
        rank.recorder.move_to(position)
    rank.step()
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (110, 0, 30)
    assert report.attempts[1].resumed_from_samples == 130


def test_a_skip_counts_although_a_kill_left_only_the_state_file_to_tell(job):
    job.run(samples=100)
    rank = job.run(0, at=1.0, resume=130)
    rank.step(0.25)
    report = job.report()
    assert (report.samples.new, report.samples.skipped) == (110, 30)


def test_a_load_that_trains_nothing_moves_no_mark(job):
    job.run(samples=100)
    rank = job.run(0, at=1.0, resume=130)
    rank.wait_for(1.0)
    rank.beat()
    job.run(at=2.0, resume=130, end="finished")
    assert job.report().samples.skipped == 30


def test_the_first_attempt_may_begin_anywhere(job):
    job.run(resume=500, end="finished")
    report = job.report()
    assert (report.samples.new, report.samples.skipped) == (10, 0)
    assert report.attempts[0].resumed_from_samples == 500


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("length", [1.0, 0.01])
def test_a_rollback_in_the_middle_of_a_fit_repeats_from_where_it_went_back_to(job, stages, measured, length):
    """A checkpoint loaded between two steps, the load being measured or not."""
    rank = job.run(5, length)
    if measured:
        with rank.span("checkpoint_restore"):
            rank.wait_for(0.5)
            rank.recorder.move_to(30)
    else:
        rank.recorder.move_to(30)
    rank.train(4, length)
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
    rank.train(5, length)
    rank.recorder.move_to(80)
    rank.train(4, length)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (90, 0, 30)
    assert report.attempts[0].reached_samples == 120
    stages(report, training=9 * length)


def test_a_step_with_anything_nested_has_a_line_of_its_own_also_around_a_load(job):
    rank = job.launch()
    rank.train(5, 0.01)
    with rank.span("checkpoint_restore"):
        rank.recorder.move_to(80)
        rank.wait_for(0.01)
    rank.train(5, 0.01)
    rank.leave()
    record = job.read().attempts[0].ranks[0]
    (span,) = (span for span in record.spans if span.stage == "checkpoint_restore")
    around = [n for t0, t1, n, *_ in record.steps if t0 < span.t1 and span.t0 < t1]
    assert around == [0]
    assert sorted(record.steps.n) == [0, 1, 4, 5]
    assert job.report().steps.new == 10


def test_batches_without_samples_are_new_or_repeated_by_where_they_are(job):
    rank = job.launch()
    rank.step(samples=10)
    rank.step(samples=0)
    rank.beat()
    rank = job.launch(at=2.0)
    rank.step(samples=0)
    rank.step(samples=10)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (10, 10)
    assert (report.steps.new, report.steps.repeated) == (2, 2)
    assert report.stages["retraining"] == 2


def test_restarts_without_a_new_step_are_summed_up_by_the_one_that_has_it(job):
    job.run(10)
    job.run(1, at=15.0, resume=50)
    job.run(6, at=20.0, resume=50, end="finished")
    report = job.report()
    assert report.time_to_resume_s.each == (5, 10)
    assert report.time_to_recover_s.each == (15,)
    assert report.samples.repeated == 10 + 50
