"""Opening the record of a process, with what launchers, schedulers and clocks say."""

from __future__ import annotations

import time

import pytest

NOW_ON_THE_AXIS = time.time() - 1_700_001_000

TRAINING = """
recording = open_recording(Path(sys.argv[1]), versions={"torch": "2"})
assert open_recording(Path(sys.argv[1])) is recording
recorder = recording.recorder
recorder.move_to(recording.high_water)
recorder.begin_step()
time.sleep(0.01)
recorder.end_step(recorder.position + 10)
recorder.end_training()
recorder.end_fit(recorder.outcome("finished"))
print(recording.attempt, recording.high_water)
"""


def test_a_process_is_one_attempt_however_often_it_opens_its_record(job, start):
    for expected in ("1 0\n", "2 10\n", "3 20\n"):
        out, errors = start(TRAINING, job.dir).communicate()
        assert (out, errors) == (expected, "")
    report = job.report()
    assert report.samples.new == 30
    assert [attempt.end for attempt in report.attempts] == ["finished"] * 3
    assert report.stages["initialization"] > 0
    assert report.stages["unknown"] == 0


@pytest.mark.parametrize("text", ["-5", "soon", "1e30", "nan"])
def test_an_absurd_allocation_is_one_warning_here_and_in_the_report(job, start, text):
    _, errors = start(TRAINING, job.dir, ETT_ALLOCATED_AT=text).communicate()
    (warning,) = errors.splitlines()
    assert warning.startswith("WARNING ETT_ALLOCATED_AT=")
    report = job.report()
    assert report.stages["scheduling"] == 0
    assert [line for line in report.warnings if "ETT_ALLOCATED_AT" in line]


def test_an_allocation_counts_from_the_scheduler_to_the_process(job, start):
    start(TRAINING, job.dir, SLURM_JOB_START_TIME=str(time.time() - 100)).communicate()
    report = job.report()
    assert report.stages["scheduling"] == pytest.approx(100, abs=3)
    assert not report.warnings


def test_ranks_learn_the_attempt_from_rank_zero(job, start):
    script = """
import pickle
def share(opening):
    path = Path(sys.argv[1] + ".shared")
    if sys.argv[2] == "0":
        path.with_suffix(".part").write_bytes(pickle.dumps(opening))
        path.with_suffix(".part").rename(path)
    while not path.exists():
        time.sleep(0.001)
    return pickle.loads(path.read_bytes())
recording = open_recording(Path(sys.argv[1]), rank=int(sys.argv[2]), world_size=2, share=share)
recorder = recording.recorder
recorder.begin_step()
recorder.end_step(20)
recorder.end_training()
recorder.end_fit(recorder.outcome("finished"))
print(recording.job_id, recording.attempt)
"""
    ranks = [start(script, job.dir, rank) for rank in (1, 0)]
    said = [rank.communicate() for rank in ranks]
    assert said[0] == said[1]
    report = job.report()
    assert said[0] == (f"{report.job_id} 1\n", "")
    assert report.world_size == 2
    assert report.samples.new == 20
    assert report.state == "finished"
    assert not report.warnings


def test_a_wall_clock_that_jumps_while_training_is_noted_once_and_durations_stand(job, stages, monkeypatch):
    rank = job.launch()
    rank.recorder._heartbeat._anchor = type(rank.recorder._heartbeat._anchor).now()
    rank.step(1.0)
    rank.recorder._heartbeat.watch_clock()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
    rank.step(1.0)
    rank.recorder._heartbeat.watch_clock()
    rank.recorder._heartbeat.watch_clock()
    rank.leave()
    report = job.report()
    stages(report, training=2.0)
    (note,) = report.warnings
    assert "the wall clock jumped by -3600.0 s" in note


def test_a_heartbeat_that_fails_is_one_warning_and_training_goes_on(job, start):
    process = start(
        """
def fail():
    raise RuntimeError("no clock")
recorder = open_recording(Path(sys.argv[1])).recorder
recorder._heartbeat.watch_clock = fail
recorder.begin_step()
time.sleep(2.3)
recorder.end_step(10)
print("trained")
""",
        job.dir,
    )
    out, errors = process.communicate()
    assert out == "trained\n"
    assert errors.count("WARNING") == 1
    assert "training goes on" in errors
