"""When each stage was: the partition laid out in buckets, to the nanosecond."""

from __future__ import annotations

import pytest

from ett_hookspecs import Stage
from ett_record.clock import NS
from ett_record.intervals import Grid, job_life


def seconds(life, stage, rank=0):
    """By bucket, whole seconds."""
    return [amount / NS for amount in life.ranks[rank].stages.get(Stage(stage), [0] * life.buckets)]


@pytest.fixture
def laid_out(job, check_life):
    """The job's life in buckets, after checking that it is the partition."""

    def laid_out(buckets=10, now=1e6):
        record = job.read(now=now)
        check_life(record, buckets)
        return job_life(record, buckets=buckets)

    return laid_out


def test_each_stage_lies_where_it_was(job, laid_out):
    rank = job.launch(imports=2)
    rank.step(3)
    with rank.span("validation"):
        rank.wait_for(1)
    rank.step(2)
    rank.recorder.end_training()
    rank.wait_for(2)
    rank.end_fit()
    rank.recorder.finish()
    (life,) = laid_out()
    assert seconds(life, "initialization") == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert seconds(life, "training") == [0, 0, 1, 1, 1, 0, 1, 1, 0, 0]
    assert seconds(life, "validation") == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert seconds(life, "shutdown") == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]


def test_waits_for_the_loader_are_spread_over_their_run_of_steps(job, laid_out):
    rank = job.launch()
    for _ in range(10):
        rank.step(0.75, load=0.25)
    rank.leave()
    (life,) = laid_out(buckets=5)
    assert seconds(life, "input_wait") == pytest.approx([0.5] * 5)
    assert seconds(life, "training") == pytest.approx([1.5] * 5)


def test_a_killed_attempt_its_gap_and_what_it_repeats_have_a_place(job, laid_out):
    rank = job.launch()
    for _ in range(4):
        rank.step(1)
    rank.beat()
    rank = job.launch(at=6, imports=1)
    rank.recorder.move_to(20)
    for _ in range(5):
        rank.step(1)
    rank.leave()
    first, second = laid_out(buckets=8)
    assert seconds(first, "training") == [0.5] * 8
    assert seconds(second, "downtime") == [1, 1, 0, 0, 0, 0, 0, 0]
    assert seconds(second, "initialization") == [0, 0, 1, 0, 0, 0, 0, 0]
    assert seconds(second, "retraining") == [0, 0, 0, 1, 1, 0, 0, 0]
    assert seconds(second, "training") == [0, 0, 0, 0, 0, 1, 1, 1]


def test_what_only_the_state_file_knows_is_spread_over_the_time_after_the_log(job, laid_out):
    rank = job.launch()
    rank.step(2)
    rank.beat()
    with rank.span("checkpoint_save"):
        rank.wait_for(1)
    rank.step(1)
    rank.state.beat(rank.now_ns)
    (life,) = laid_out(buckets=4)
    assert seconds(life, "checkpoint_save") == [0.25] * 4
    assert seconds(life, "training") == [0.75] * 4


def test_a_rank_that_left_nothing_and_one_that_ended_early(job, laid_out):
    early, late = job.launch(world=3, ranks=[0, 1])
    early.step(2)
    early.leave()
    late.step(4)
    late.leave()
    (life,) = laid_out(buckets=4)
    assert seconds(life, "downtime", rank=0) == [0, 0, 1, 1]
    assert seconds(life, "training", rank=1) == [1, 1, 1, 1]
    assert seconds(life, "unknown", rank=2) == [1, 1, 1, 1]
    assert life.stages()[Stage.TRAINING] == [2 * NS, 2 * NS, NS, NS]


def test_owners_and_background_work_are_kept(job, laid_out):
    rank = job.launch()
    rank.step(2)
    with rank.span("checkpoint_save", owner="storage team"):
        rank.wait_for(1)
    rank.tell("checkpoint_save", -3, -1, blocked=False, name="snapshot_write")
    rank.tell("checkpoint_save", -2, 0, blocked=False, name="snapshot_write")
    rank.step(1)
    rank.leave()
    (life,) = laid_out(buckets=4)
    assert life.ranks[0].owners == {(Stage.CHECKPOINT_SAVE, "storage team"): NS}
    assert {
        name: [(a - life.start, b - life.start) for a, b in spans] for name, spans in life.ranks[0].background.items()
    } == {"snapshot_write": [(0, 3 * NS)]}


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_an_attempt_shorter_than_its_buckets_loses_nothing(length):
    grid = Grid(100, 100 + length, 5)
    amounts = [0] * 5
    grid.spread(amounts, 100, 100 + length, length)
    assert sum(amounts) == length


def test_a_job_of_no_time_has_a_life(job, laid_out):
    job.launch()
    (life,) = laid_out(buckets=3)
    assert life.ranks[0].stages == {}
