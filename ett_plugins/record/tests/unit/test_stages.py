"""Where the time of one attempt goes, by a clock that moves only when it is told to."""

from __future__ import annotations

import pytest

from ett_hookspecs import Stage


def test_from_process_start_to_the_first_batch_is_initialization_imports_included(job, stages):
    rank = job.launch(imports=3.0)
    rank.wait_for(2.0)
    rank.step(1.0, load=None)
    rank.leave()
    stages(job.report(), initialization=5.0, training=1.0)


def test_waiting_for_the_first_batch_is_input_wait_too(job, stages):
    rank = job.launch()
    rank.wait_for(2.0)
    rank.step(1.0, load=0.5)
    rank.step(1.0, load=0.25)
    rank.leave()
    stages(job.report(), initialization=2.0, input_wait=0.75, training=2.0)


def test_steps_of_five_milliseconds_all_count(job, stages):
    """M2: nothing is dropped as too short to be a step."""
    rank = job.launch()
    for _ in range(1000):
        rank.step(0.005, samples=1, load=0.0001)
    rank.leave()
    report = job.report()
    assert report.steps.new == report.samples.new == 1000
    stages(report, training=5.0, input_wait=0.1)


def test_steps_that_the_clock_cannot_tell_apart_count_too(job):
    """M2: a coarse clock."""
    rank = job.launch()
    rank.wait_for(1.0)
    for _ in range(3):
        rank.step(0.0)
    rank.leave()
    report = job.report()
    assert report.steps.new == 3
    assert report.samples.new == 30


def test_restore_compile_save_validation_and_two_fits_sum_to_the_wall_time(job, stages):
    """B35 (axlearn PR #1066)."""
    rank = job.launch(imports=4.0)
    with rank.span("checkpoint_restore"):
        rank.wait_for(1.5)
    rank.wait_for(0.5)
    rank.load(0.25)
    rank.recorder.begin_step()
    rank.wait_for(0.1)
    with rank.span("compilation"):
        rank.wait_for(7.0)
    rank.wait_for(0.4)
    rank.recorder.end_step(10)
    with rank.span("checkpoint_save"):
        rank.wait_for(0.2)
    rank.step(1.0)
    with rank.span("validation"):
        rank.wait_for(2.0)
    rank.step(1.0)
    rank.step(4.0)
    rank.tell("checkpoint_save", -6.0, -1.0, blocked=False, name="snapshot_write")
    rank.recorder.end_training()
    rank.wait_for(0.3)
    rank.end_fit()
    rank.wait_for(0.7)
    rank.recorder.begin_fit()
    rank.step(2.0, load=0.5)
    rank.leave()
    report = job.report()
    stages(
        report,
        initialization=4.0 + 0.5 + 0.7,
        checkpoint_restore=1.5,
        input_wait=0.25 + 0.5,
        compilation=7.0,
        training=0.5 + 1.0 + 1.0 + 4.0 + 2.0,
        checkpoint_save=0.2,
        validation=2.0,
        shutdown=0.3,
    )
    assert report.background == {"snapshot_write_s": pytest.approx(5.0)}
    assert report.steps.new == 5
    assert report.ett_percent == pytest.approx(100 * 8.5 / report.wall_s)


def test_loop_overhead_belongs_to_the_surrounding_step(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.wait_for(0.25)
    rank.step(1.0)
    rank.wait_for(0.5)
    rank.leave()
    stages(job.report(), training=2.75)


def test_after_the_last_fit_everything_is_shutdown(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.end_training()
    rank.wait_for(0.5)
    rank.end_fit()
    rank.wait_for(2.0)
    rank.recorder.finish()
    stages(job.report(), training=1.0, shutdown=2.5)


def test_between_two_fits_is_initialization_also_where_a_test_lies_between_them(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.end_training()
    rank.end_fit()
    rank.wait_for(1.0)
    rank.recorder.begin_fit()
    with rank.span("validation"):
        rank.wait_for(3.0)
    rank.end_fit()
    rank.wait_for(0.5)
    rank.recorder.begin_fit()
    rank.wait_for(0.25)
    rank.step(1.0)
    rank.leave()
    stages(job.report(), training=2.0, initialization=1.75, validation=3.0)


def test_a_job_that_only_validates_has_no_steps(job, stages):
    rank = job.launch(imports=1.0)
    with rank.span("validation"):
        rank.wait_for(3.0)
    rank.end_fit()
    rank.wait_for(0.5)
    rank.recorder.finish()
    report = job.report()
    stages(report, initialization=1.0, validation=3.0, shutdown=0.5)
    assert report.state == "finished"
    assert report.steps.new == 0
    assert report.time_to_start_s is None
    assert report.ett_percent == 0


def test_a_step_that_an_exception_cuts_short_is_shutdown_and_what_it_waited_for_is_not(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.wait_for(0.5)
    rank.load(0.25)
    rank.recorder.begin_step()
    rank.wait_for(2.0)
    with rank.span("compilation"):
        rank.wait_for(4.0)
    rank.wait_for(1.0)
    rank.end_fit("failed", "user", "ValueError: no")
    rank.wait_for(0.5)
    rank.recorder.finish()
    report = job.report()
    stages(report, training=1.5, input_wait=0.25, compilation=4.0, shutdown=3.5)
    assert report.steps.new == 1
    assert report.samples.new == 10


def test_an_exception_while_the_loader_is_waited_for_leaves_the_wait(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.begin_wait()
    rank.wait_for(2.0)
    rank.end_fit("failed", "user", "RuntimeError: worker died")
    rank.recorder.finish()
    stages(job.report(), training=1.0, input_wait=2.0)


def test_a_second_fit_after_a_failed_one_is_set_up_in_initialization(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.end_fit("failed", "user", "ValueError: no")
    rank.wait_for(1.0)
    rank.recorder.begin_fit()
    rank.wait_for(2.0)
    rank.step(1.0)
    rank.leave()
    report = job.report()
    stages(report, training=2.0, shutdown=1.0, initialization=2.0)
    assert report.state == "finished"


def test_a_wait_inside_a_step_is_a_wait(job, stages):
    """A loop that hands its loader's iterator to the step: every wait lies within a step."""
    rank = job.launch()
    for _ in range(3):
        rank.recorder.begin_step()
        rank.load(0.25)
        rank.wait_for(1.0)
        rank.recorder.end_step(rank.recorder.position + 10)
    rank.leave()
    report = job.report()
    stages(report, training=3.0, input_wait=0.75)
    assert report.steps.new == 3


def test_steps_without_any_wait_are_counted_one_by_one_and_logged_every_second(job, stages):
    rank = job.launch()
    for _ in range(50):
        rank.step(0.1, load=None)
    rank.recorder.flush()
    assert rank.log.read_bytes().count(b'"steps"') >= 4
    rank.leave()
    report = job.report()
    stages(report, training=5.0)
    assert report.steps.new == 50


def test_the_innermost_of_nested_spans_wins(job, stages):
    rank = job.launch()
    rank.load(0.0)
    rank.recorder.begin_step()
    rank.wait_for(1.0)
    with rank.span("validation"):
        rank.wait_for(2.0)
        with rank.span("compilation"):
            rank.wait_for(4.0)
        rank.wait_for(0.5)
    rank.recorder.end_step(10)
    rank.leave()
    stages(job.report(), training=1.0, validation=2.5, compilation=4.0)


def test_a_span_left_open_inside_another_ends_with_it(job, stages):
    rank = job.launch()
    outer = rank.recorder.open(Stage.VALIDATION, "outer", "test")
    rank.wait_for(1.0)
    inner = rank.recorder.open(Stage.COMPILATION, "inner", "test")
    rank.wait_for(2.0)
    assert rank.recorder.close_span(outer).end_ns == rank.now_ns
    assert rank.recorder.close_span(inner) is None
    rank.wait_for(0.5)
    rank.step(1.0)
    rank.leave()
    stages(job.report(), validation=1.0, compilation=2.0, initialization=0.5, training=1.0)


def test_a_span_told_afterwards_takes_its_time_from_the_step(job, stages):
    rank = job.launch()
    rank.load(0.5)
    rank.recorder.begin_step()
    rank.wait_for(3.0)
    rank.tell("publishing", -2.0, -0.5, blocked=True)
    rank.recorder.end_step(10)
    rank.step(1.0)
    rank.leave()
    stages(job.report(), training=2.5, publishing=1.5, input_wait=0.5)


def test_a_span_told_of_a_time_before_the_process_or_after_now_counts_only_in_between(job, stages):
    """A plugin that reads another clock."""
    rank = job.launch()
    rank.wait_for(1.0)
    rank.tell("publishing", -500.0, -0.5, blocked=True)
    rank.step(2.0)
    rank.tell("publishing", -0.5, 1e9, blocked=True)
    rank.beat()
    report = job.report()
    stages(report, publishing=1.0, initialization=0.5, training=1.5)


def test_background_work_changes_nothing_but_its_own_figures(job, new_job, stages):
    def run(job, *, background: bool):
        rank = job.launch()
        for index in range(20):
            rank.step(1.5 if index in (8, 9) else 1.0)
        if background:
            rank.tell("checkpoint_save", -13.0, -10.0, blocked=False, name="snapshot_write")
        rank.leave()
        return job.report().to_json()

    with_it, without = run(job, background=True), run(new_job(), background=False)
    assert with_it.pop("background") == {"snapshot_write_s": pytest.approx(3.0)}
    assert with_it.pop("interference_s") == pytest.approx(1.0)
    assert without.pop("background") == {}
    assert without.pop("interference_s") == 0
    assert with_it == without


def test_owners_are_those_of_the_stage_unless_a_span_names_its_own(job):
    rank = job.launch(imports=1.0)
    with rank.span("checkpoint_save", owner="storage team"):
        rank.wait_for(2.0)
    with rank.span("checkpoint_save"):
        rank.wait_for(0.5)
    rank.step(1.0, load=0.25)
    rank.tell("compilation", -0.25, 0.0, blocked=True, owner="model team")
    rank.leave()
    assert job.report().owners == {
        "trainer": pytest.approx(1.0),
        "storage team": pytest.approx(2.0),
        "checkpoint": pytest.approx(0.5),
        "data": pytest.approx(0.25),
        "model team": pytest.approx(0.25),
    }


def test_the_live_totals_are_the_stages_so_far(job):
    rank = job.launch(imports=1.0)
    rank.step(2.0, load=0.5)
    with rank.span("validation"):
        rank.wait_for(4.0)
    totals = {stage: elapsed for stage, elapsed in rank.recorder.totals.items() if elapsed}
    assert totals == {"initialization": 10**9, "input_wait": 5 * 10**8, "training": 2 * 10**9, "validation": 4 * 10**9}


def test_nothing_is_recorded_after_the_end(job):
    rank = job.launch()
    rank.step(1.0)
    rank.leave()
    before = rank.log.read_bytes()
    rank.recorder.finish()
    rank.recorder.flush()
    assert rank.log.read_bytes() == before
