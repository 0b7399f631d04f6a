"""Opening the record of a process, with what launchers, schedulers and clocks say."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("bad", ["a\\0b", "loop", "gone"])
def test_rank_zero_answers_the_others_even_of_what_is_no_directory(start, tmp_path, bad):
    script = """
os.chdir(sys.argv[1])
os.symlink("loop", "loop")
if sys.argv[2] == "gone":
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
answers = []
job_dir = Path(sys.argv[2].replace("\\\\0", "\\0")) / "job"
assert open_recording(job_dir, share=lambda opening: answers.append(opening) or opening) is None
print(len(answers))
"""
    out, errors = start(script, tmp_path, bad).communicate()
    assert out == "1\n", errors
    (warning,) = errors.splitlines()
    assert "cannot hold a timeline" in warning


def test_a_process_that_goes_elsewhere_still_renews_and_releases_its_lock(job, start):
    script = """
job_dir = Path(sys.argv[1])
os.chdir(job_dir.parent)
recorder = open_recording(Path(job_dir.name)).recorder
lock = job_dir / "timeline" / "writer.json"
os.chdir("/")
os.utime(lock, (1, 1))
recorder._heartbeat._on_beat()
print(lock.stat().st_mtime > 1)
"""
    assert start(script, job.dir).communicate() == ("True\n", "")
    assert not (job.dir / "timeline" / "writer.json").exists()


def test_an_earlier_log_that_cannot_be_used_does_not_leave_the_next_attempt_unmeasured(job, start):
    start(TRAINING, job.dir).communicate()
    start(TRAINING, job.dir).communicate()
    first, second = (job.dir / "timeline" / f"attempt-000{number}" / "rank-00000.jsonl" for number in (1, 2))
    first.with_suffix(".state").unlink()
    first.unlink()
    os.mkfifo(first)
    second.with_suffix(".state").unlink()
    with second.open("ab") as lines:
        lines.write(b"[" * 100_000 + b"\n")
    out, errors = start(TRAINING, job.dir).communicate()
    assert (out.split()[0], errors) == ("3", "")
