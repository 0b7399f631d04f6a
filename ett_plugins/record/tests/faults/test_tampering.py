"""Files of a running job that somebody truncates, replaces, deletes: training goes on."""

from __future__ import annotations

import errno
import os
import shutil
import time

import pytest

TRAINING = """
recorder = open_recording(Path(sys.argv[1])).recorder
print("ready", flush=True)
for step in range(1, 31):
    recorder.begin_wait()
    recorder.end_wait()
    recorder.begin_step()
    if step == 15:
        print("half", flush=True)
        sys.stdin.readline()
    recorder.end_step(10 * step)
recorder.end_training()
recorder.end_fit(recorder.outcome("finished"))
print("trained")
"""


def truncate(state):
    state.write_bytes(b"")


def shorten(state):
    with state.open("r+b") as file:
        file.truncate(100)


def overwrite(state):
    state.write_bytes(b"\xff" * 3000)


def copy_back(state):
    shutil.copy(shutil.copy(state, state.with_suffix(".copy")), state)


def cut_a_line(log):
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5)


def refuse(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def half(job, start):
    """A process in its 15th step, and its log."""
    process = start(TRAINING, job.dir)
    assert process.stdout.readline() == "ready\n"
    assert process.stdout.readline() == "half\n"
    return process, job.dir / "timeline" / "attempt-0001" / "rank-00000.jsonl"


@pytest.mark.parametrize("tamper", [truncate, shorten, overwrite, copy_back])
def test_a_state_file_that_is_tampered_with_while_training_harms_neither_training_nor_report(job, half, tamper):
    process, log = half
    tamper(log.with_suffix(".state"))
    out, errors = process.communicate("\n")
    assert (process.returncode, out, errors) == (0, "trained\n", "")
    report = job.report()
    assert (report.state, report.steps.new, report.samples.new) == ("finished", 30, 300)


@pytest.mark.parametrize("tamper", [truncate, shorten, overwrite, copy_back])
def test_a_state_file_that_was_tampered_with_is_mended_at_the_next_heartbeat(job, half, tamper):
    process, log = half
    tamper(log.with_suffix(".state"))
    time.sleep(2.5)
    process.kill()
    process.wait()
    report = job.report()
    assert report.state == "killed"
    assert report.samples.new == 140


@pytest.mark.parametrize("tamper", [truncate, shorten, cut_a_line])
def test_a_log_that_is_truncated_while_training_goes_on_and_the_report_says_so(job, half, tamper):
    process, log = half
    tamper(log)
    out, errors = process.communicate("\n")
    assert (process.returncode, out) == (0, "trained\n")
    (warning,) = errors.splitlines()
    assert "the log was truncated" in warning
    report = job.report()
    assert report.state == "finished"
    assert report.stages["training"] > 0
    assert any("the log was truncated" in note for note in report.warnings)


def test_a_log_whose_header_a_full_disk_refuses_gets_it_later(job, monkeypatch):
    rank = job.launch()
    rank.step(1.0)
    rank.log.write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(rank.writer, "_write", refuse)
        rank.beat()
    rank.leave()
    assert job.report().state == "finished"


def test_a_state_file_that_is_deleted_alone_is_one_warning(job, half):
    process, log = half
    log.with_suffix(".state").unlink()
    out, errors = process.communicate("\n")
    assert (process.returncode, out) == (0, "trained\n")
    (warning,) = errors.splitlines()
    assert "state file was deleted" in warning
    assert job.report().samples.new == 300


@pytest.mark.parametrize("before_the_end_s", [0.0, 2.5])
def test_a_job_directory_that_is_deleted_while_training_is_one_warning(job, half, before_the_end_s):
    process, _ = half
    shutil.rmtree(job.dir)
    time.sleep(before_the_end_s)
    out, errors = process.communicate("\n")
    assert (process.returncode, out) == (0, "trained\n")
    (warning,) = errors.splitlines()
    assert "was deleted: what is recorded from here on is lost" in warning
    assert not job.dir.exists()
