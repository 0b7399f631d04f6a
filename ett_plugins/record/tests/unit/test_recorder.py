"""Whatever the recorder is told, what is on record can be read, and the end is on record."""

from __future__ import annotations

import contextlib

import pytest

from ett_hookspecs import Span, Stage
from ett_record.lines import LARGEST
from ett_record.state import read_state


@pytest.mark.parametrize("position", [2**62, 2**63, 10**30])
def test_a_position_that_cannot_be_stored_is_the_nearest_that_can(job, position):
    rank = job.launch()
    rank.recorder.begin_step()
    rank.wait_for(1.0)
    rank.recorder.end_step(position)
    assert read_state(rank.state_path).current.totals.position == LARGEST
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.state, list(report.warnings)) == (LARGEST, "finished", [])


def test_a_position_before_the_beginning_is_the_beginning(job):
    rank = job.launch()
    rank.recorder.move_to(-5)
    rank.step(1.0)
    rank.recorder.move_to(-(10**30))
    assert read_state(rank.state_path).current.totals.position == 0
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.state, list(report.warnings)) == (10, "finished", [])


def test_counts_that_add_up_to_more_than_can_be_stored_stop_at_the_largest(job):
    rank = job.launch()
    for _ in range(5):
        rank.recorder.move_to(0)
        rank.recorder.begin_step()
        rank.wait_for(1.0)
        rank.recorder.end_step(LARGEST)
    totals = read_state(rank.state_path).current.totals
    assert (totals.samples_new, totals.samples_repeated) == (LARGEST, LARGEST)
    rank.leave()
    assert job.report().state == "finished"


@pytest.mark.parametrize("nonsense", [float("nan"), 1.5, "7", None])
def test_a_position_that_is_no_whole_number_is_refused_before_it_harms_what_comes_later(job, nonsense):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.begin_step()
    for tell in (rank.recorder.end_step, rank.recorder.move_to):
        with pytest.raises(TypeError):
            tell(nonsense)
    rank.recorder.end_step(20)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.state, list(report.warnings)) == (20, "finished", [])


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1.5, 10**30, -(10**30), "7", "soon", None])
def test_a_span_at_times_that_are_none_harms_nothing_that_comes_later(job, time):
    rank = job.launch()
    rank.step(1.0)
    for blocked in (True, False):
        with contextlib.suppress(OverflowError, TypeError, ValueError):
            rank.recorder.record(
                Span(name="told", stage=Stage.VALIDATION, start_ns=time, end_ns=time, plugin="test"), blocked=blocked
            )
    rank.step(1.0)
    rank.leave()
    report = job.report()
    assert (report.samples.new, report.state, list(report.warnings)) == (20, "finished", [])


def test_a_span_of_no_stage_is_refused_before_it_harms_what_comes_later(job):
    rank = job.launch()
    with pytest.raises(ValueError, match="lunch"):
        rank.recorder.open("lunch", "lunch", "test")
    rank.step(1.0)
    rank.leave()
    assert job.report().state == "finished"


def test_a_fit_and_a_process_that_end_in_a_step_and_in_spans_have_ended(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.begin_step()
    rank.wait_for(1.0)
    for name in ("outer", "inner"):
        rank.recorder.open(Stage.VALIDATION, name, "test")
        rank.wait_for(1.0)
    rank.end_fit()
    rank.recorder.finish()
    report = job.report()
    assert report.state == "finished"
    stages(report, training=1.0, validation=2.0, shutdown=1.0)


@pytest.mark.parametrize("broken", ["_close_interval", "_mark_if_explained", "_close_spans", "_save"])
def test_the_outcome_and_the_end_are_on_record_whatever_is_broken(job, monkeypatch, caplog, broken):
    rank = job.launch()
    rank.step(1.0)
    rank.recorder.begin_step()
    rank.recorder.open(Stage.VALIDATION, "open", "test")

    def fail(*args, **kwargs):
        raise RuntimeError("broken")

    monkeypatch.setattr(rank.recorder, broken, fail)
    with contextlib.suppress(RuntimeError):
        rank.end_fit()
    rank.recorder.finish()
    assert job.read().attempts[0].ranks[0].ended
    assert job.read().attempts[0].ranks[0].outcome.end == "finished"
    assert any("the end of the timeline is incomplete" in record.getMessage() for record in caplog.records)
