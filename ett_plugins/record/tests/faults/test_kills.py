"""SIGKILL at any moment loses nothing that the process itself had seen."""

from __future__ import annotations

import random
import signal
import time

import pytest

from ett_record.job import attempt_dir, rank_state
from ett_record.state import read_state

SAMPLES = 10

TRAINING = f"""
recording = open_recording(Path(sys.argv[1]))
recorder, position, busy = recording.recorder, int(sys.argv[2]), float(sys.argv[3])
recorder.move_to(position)
while True:
    recorder.begin_wait()
    recorder.end_wait()
    recorder.begin_step()
    if position % 370 == 0:
        span = recorder.open(Stage.COMPILATION, "compile", "test")
        time.sleep(0.002)
        recorder.close_span(span)
    until = time.monotonic() + busy
    while time.monotonic() < until:
        pass
    position += {SAMPLES}
    recorder.end_step(position)
    os.write(1, b"%d\\n" % position)
    if position % 1000 == 0:
        span = recorder.open(Stage.VALIDATION, "validate", "test")
        time.sleep(0.003)
        recorder.close_span(span)
"""


def test_twenty_kills_lose_no_step_and_repeat_exactly_what_came_after_the_checkpoint(job, start, tmp_path):
    """M2, B34: steps from some microseconds to some milliseconds, killed at random moments, also before the first flush
    and in the middle of a span."""
    dice = random.Random(20)
    resumes, reached = [], []
    position = 0
    for kill in range(20):
        said = tmp_path / f"said-{kill}"
        with said.open("wb") as out:
            process = start(TRAINING, job.dir, position, dice.choice([0.0, 0.0005, 0.003]), stdout=out)
            while process.poll() is None and not said.stat().st_size:
                time.sleep(0.001)
            time.sleep(dice.uniform(1.0, 1.4) if kill % 5 == 4 else dice.uniform(0.0, 0.15))
            process.send_signal(signal.SIGKILL)
            process.wait()
        announced = int(said.read_bytes().split(b"\n")[-2])
        current = read_state(rank_state(attempt_dir(job.dir, kill + 1), 0)).current
        # The step in flight may have been counted and not yet announced.
        assert current.totals.position in (announced, announced + SAMPLES)
        assert current.totals.samples_new + current.totals.samples_repeated == current.totals.position - position
        resumes.append(position)
        reached.append(current.totals.position)
        # The checkpoint that the next attempt resumes from.
        position = max(0, announced // 500 * 500 - dice.choice([0, 0, 500]))

    report = job.report(now=time.time() - 1_700_001_000)
    marks = [0, *(max(reached[: index + 1]) for index in range(20))]
    assert report.samples.repeated == sum(
        min(end, mark) - begin for begin, end, mark in zip(resumes, reached, marks[:-1], strict=True) if begin < mark
    )
    assert report.samples.new == max(reached)
    assert report.samples.skipped == 0
    assert report.steps.new + report.steps.repeated == sum(
        (end - begin) // SAMPLES for begin, end in zip(resumes, reached, strict=True)
    )
    assert report.failures == 20
    assert report.state == "killed"
    assert [attempt.resumed_from_samples for attempt in report.attempts] == resumes
    assert [attempt.reached_samples for attempt in report.attempts] == reached
    assert not report.warnings


def test_a_kill_in_a_long_step_is_seen_by_its_heartbeat(job, start):
    process = start(
        """
recorder = open_recording(Path(sys.argv[1])).recorder
recorder.begin_wait()
recorder.end_wait()
recorder.begin_step()
print("in a step", flush=True)
time.sleep(60)
""",
        job.dir,
    )
    process.stdout.readline()
    time.sleep(1.6)
    process.kill()
    process.wait()
    report = job.report()
    assert report.stages["downtime"] == pytest.approx(1.0, abs=0.4)
    assert report.stages["training"] == 0
    assert report.steps.new == 0


@pytest.mark.parametrize("way", ["return", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_a_process_that_leaves_by_itself_ends_in_order(job, start, way):
    process = start(
        """
recorder = open_recording(Path(sys.argv[1])).recorder
recorder.begin_step()
recorder.end_step(10)
exec(sys.argv[2])
""",
        job.dir,
        "pass" if way == "return" else way,
    )
    process.communicate()
    report = job.report()
    assert report.state == "interrupted"
    assert report.steps.new == 1
    assert not report.warnings


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_of_multiprocessing_ends_in_order(job, start, tmp_path, method):
    """Forked ones run no exit handlers."""
    module = tmp_path / "spawned.py"
    module.write_text("""
import multiprocessing, sys
from pathlib import Path

def train(job_dir):
    from ett_record import open_recording
    recorder = open_recording(Path(job_dir)).recorder
    recorder.begin_step()
    recorder.end_step(10)
    recorder.end_training()
    recorder.end_fit(recorder.outcome("finished"))

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[2]).Process(target=train, args=(sys.argv[1],))
    process.start()
    process.join()
    sys.exit(process.exitcode)
""")
    process = start(
        "import runpy; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')", module, job.dir, method
    )
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    report = job.report()
    assert report.state == "finished"
    assert not report.warnings


def test_a_forked_child_that_exits_does_not_end_the_record_of_its_parent(job, start):
    process = start(
        """
recorder = open_recording(Path(sys.argv[1])).recorder
recorder.begin_step()
recorder.end_step(10)
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
print("child is gone", flush=True)
sys.stdin.read()
recorder.begin_wait()
recorder.end_wait()
recorder.begin_step()
recorder.end_step(20)
recorder.end_training()
recorder.end_fit(recorder.outcome("finished"))
""",
        job.dir,
    )
    process.stdout.readline()
    lock = job.dir / "timeline" / "writer.json"
    assert lock.exists()
    assert job.report(now=time.time() - 1_700_001_000).state == "running"
    process.communicate("")
    report = job.report()
    assert report.state == "finished"
    assert report.samples.new == 20
    assert not lock.exists()


@pytest.mark.parametrize("leave", ["sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_a_forked_child_trains_and_tells_reaches_no_file_of_its_parents(job, start, leave):
    process = start(
        f"""
recorder = open_recording(Path(sys.argv[1])).recorder
recorder.begin_step()
recorder.end_step(10)
child = os.fork()
if not child:
    recorder.begin_step()
    recorder.end_step(2000)
    recorder.note("told by the child")
    span = recorder.open(Stage.VALIDATION, "validate", "test")
    recorder.close_span(span)
    recorder.end_training()
    recorder.end_fit(recorder.outcome("failed", "user", "in the child"))
    recorder.flush()
    recorder.finish()
    {leave}
os.waitpid(child, 0)
time.sleep(1.2)
recorder.begin_step()
recorder.end_step(20)
recorder.end_training()
recorder.end_fit(recorder.outcome("finished"))
""",
        job.dir,
    )
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    report = job.report()
    assert (report.state, report.samples.new, report.stages["validation"]) == ("finished", 20, 0)
    assert not report.warnings


def test_locks_that_threads_held_at_a_fork_do_not_hold_the_child(job, start):
    process = start(
        """
import signal, threading
recorder = open_recording(Path(sys.argv[1])).recorder
held, over = threading.Event(), threading.Event()
def hold():
    heartbeat = recorder._heartbeat
    with recorder._state._writing, heartbeat._flushing, heartbeat._wake._cond:
        held.set()
        over.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    recorder.begin_step()
    recorder.end_step(10)
    recorder.end_fit(recorder.outcome("finished"))
    recorder.flush()
    recorder.finish()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
holder.join()
""",
        job.dir,
    )
    assert process.communicate() == ("0\n", "")


def test_a_forked_child_may_open_a_record_of_its_own(job, start, tmp_path):
    process = start(
        """
recorder = open_recording(Path(sys.argv[1])).recorder
child = os.fork()
if not child:
    print(open_recording(Path(sys.argv[2])).attempt, open_recording(Path(sys.argv[1])))
    sys.exit(0)
os.waitpid(child, 0)
""",
        job.dir,
        tmp_path / "other",
    )
    out, errors = process.communicate()
    assert out == "1 None\n"
    assert "this job trains unmeasured" in errors


def test_a_position_beyond_what_can_be_stored_harms_nothing(job, start):
    process = start(
        """
recorder = open_recording(Path(sys.argv[1])).recorder
for position in (10, 2**62, 10**30):
    recorder.begin_step()
    recorder.end_step(position)
recorder.move_to(10**40)
recorder.end_training()
recorder.end_fit(recorder.outcome("finished"))
""",
        job.dir,
    )
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    report = job.report()
    assert (report.state, report.steps.new) == ("finished", 3)
