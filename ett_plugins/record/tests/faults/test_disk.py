"""A disk that takes no more: training goes on, one warning, and the report says what is missing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ett_hookspecs import Stage
from ett_record import writer as writer_module
from ett_record.lines import decode


class Disk:
    """``os.write`` to a disk with so many bytes left; a full one takes part of what it is given, as real ones do."""

    def __init__(self) -> None:
        self.left = 10**9

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = min(self.left, len(data))
        self.left -= taken
        return os.write(descriptor, data[:taken])


def lines_of(rank) -> list[bytes]:
    data = rank.log.read_bytes()
    assert data.endswith(b"\n"), "half a line"
    return data.split(b"\n")[1:-1]


def complaints(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("left", [0, 1, 40, 200, 700])
def test_a_disk_that_is_full_for_a_while_loses_nothing(job, stages, caplog, left):
    disk = Disk()
    rank = job.launch(imports=1.0, writer=disk)
    rank.step(1.0, load=0.5)
    rank.beat()
    disk.left = left
    for _ in range(5):
        rank.step(1.0, load=0.5)
        with rank.span("validation"):
            rank.wait_for(0.25)
        rank.beat()
        for line in lines_of(rank):
            decode(line)
    assert job.report().steps.new == 6, "the state file knows"
    disk.left = 10**9
    rank.step(1.0, load=0.5)
    rank.beat()
    rank.leave()
    assert len(complaints(caplog)) == 1
    report = job.report()
    stages(report, initialization=1.0, training=7.0, input_wait=3.5, validation=1.25)
    assert report.steps.new == 7
    (note,) = report.warnings
    assert "the log could not be written for a while" in note
    assert "No space left on device" in note


@pytest.mark.parametrize("end", ["killed", "finished"])
def test_a_disk_that_stays_full_leaves_a_report_by_the_state_file_which_says_so(job, stages, caplog, end):
    disk = Disk()
    rank = job.launch(imports=1.0, writer=disk)
    rank.step(1.0, load=0.5)
    rank.beat()
    disk.left = 60
    for _ in range(5):
        rank.step(1.0, load=0.5)
        rank.beat()
    with rank.span("validation"):
        rank.wait_for(0.25)
    if end == "finished":
        rank.leave()
    report = job.report()
    stages(report, initialization=1.0, training=6.0, input_wait=3.0, validation=0.25)
    assert report.state == end
    assert report.samples.new == 60
    assert len(complaints(caplog)) == 1
    (warning,) = report.warnings
    assert "the end of its log" in warning
    assert "stages since then come from its state file" in warning


def test_a_disk_full_for_so_long_that_lines_cannot_be_kept_ends_the_log_and_not_the_record(
    job, stages, monkeypatch, caplog
):
    monkeypatch.setattr(writer_module, "KEPT_LINES", 10)
    disk = Disk()
    rank = job.launch(writer=disk)
    rank.step(1.0, load=None)
    rank.beat()
    disk.left = 0
    for _ in range(30):
        rank.step(1.0)
        rank.beat()
    disk.left = 10**9
    for _ in range(3):
        rank.step(1.0)
        rank.beat()
    report = job.report()
    stages(report, training=34.0)
    assert report.samples.new == 340
    assert any("the end of its log could not be written" in line for line in report.warnings)
    assert len(complaints(caplog)) == 1


def test_what_json_cannot_hold_costs_no_line(job, stages):
    rank = job.launch()
    circular = {}
    circular["self"] = circular
    for details in ({("a", "b"): 1}, circular, {"what": object()}, {"text": "\ud800"}):
        span = rank.recorder.open(Stage.VALIDATION, "span", "test")
        span.details = details
        rank.wait_for(1.0)
        rank.recorder.close_span(span)
        rank.beat()
    rank.step(1.0)
    rank.leave()
    report = job.report()
    stages(report, validation=4.0, training=1.0)
    assert not report.warnings


def test_a_mark_is_set_only_after_the_disk_has_the_lines_and_both_files_reach_it(job, monkeypatch):
    """A crash of the host loses no more than the second since the last flush."""
    rank = job.launch()
    rank.step(1.0)
    rank.step(1.0)
    order = []
    synced = os.fdatasync
    marked = rank.state.write_mark

    def sync(descriptor):
        order.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        synced(descriptor)

    def mark(*arguments):
        order.append("mark")
        marked(*arguments)

    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(rank.state, "write_mark", mark)
    rank.recorder.flush()
    assert order == [rank.log.name, "mark", rank.state_path.name]


TRAINING = """
recording = open_recording(Path(sys.argv[1]))
if recording is not None:
    recorder = recording.recorder
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        recorder.begin_wait()
        recorder.end_wait()
        recorder.begin_step()
        span = recorder.open(Stage.CHECKPOINT_SAVE, "x" * 200, "test")
        recorder.close_span(span)
        recorder.end_step(recorder.position + 1)
        time.sleep(0.001)
    recorder.end_training()
    recorder.end_fit(recorder.outcome("finished"))
    print(recorder.position)
print("trained")
"""


def warnings_of(errors: str) -> list[str]:
    assert "Traceback" not in errors
    return [line for line in errors.splitlines() if line.startswith("WARNING")]


@pytest.mark.parametrize("kilobytes", [0, 4, 8, 12, 16, 20, 24])
def test_however_little_space_is_left_training_goes_on(start, small_disk, fill, kilobytes):
    disk = small_disk(256)
    fill(disk, but_kilobytes=kilobytes)
    process = start(TRAINING, disk / "job", 0.2)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert out.endswith("trained\n")
    assert 1 <= len(warnings_of(errors)) <= 2
    assert "No space left on device" in errors


def test_a_disk_that_fills_up_while_training_and_is_emptied_again_loses_nothing(job, start, small_disk, fill):
    disk = small_disk(16_384)
    job.dir = disk / "job"
    process = start(TRAINING, job.dir, 3.2)
    log = job.dir / "timeline" / "attempt-0001" / "rank-00000.jsonl"
    while not log.exists():
        time.sleep(0.01)
    time.sleep(0.3)
    ballast = fill(disk)
    time.sleep(1.5)
    size = log.stat().st_size
    assert log.read_bytes().endswith(b"\n")
    ballast.unlink()
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert len(warnings_of(errors)) == 1
    assert log.stat().st_size > size
    report = job.report()
    assert report.state == "finished"
    assert report.samples.new == report.steps.new == int(out.split()[0])
    assert report.stages["unknown"] == 0
    assert len(report.warnings) == 1


def test_a_directory_that_cannot_be_written_is_one_warning(start, small_disk):
    disk = small_disk(64)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    process = start(TRAINING, disk / "job", 0.0)
    out, errors = process.communicate()
    assert (process.returncode, out) == (0, "trained\n")
    (warning,) = warnings_of(errors)
    assert "cannot hold a timeline" in warning
    assert "trains unmeasured" in warning
    assert str(disk / "job") in warning


@pytest.mark.parametrize("where", [".", "timeline", "job/deeper"])
def test_a_file_in_the_place_of_a_directory_is_one_warning(start, tmp_path, where):
    job_dir = tmp_path / "job"
    place = job_dir if where == "." else job_dir / "timeline" if where == "timeline" else job_dir
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("")
    process = start(TRAINING, job_dir / "deeper" if where == "job/deeper" else job_dir, 0.0)
    out, errors = process.communicate()
    assert (process.returncode, out) == (0, "trained\n")
    (warning,) = warnings_of(errors)
    assert "cannot hold a timeline" in warning


def test_a_job_directory_that_is_deleted_under_a_training_does_not_end_it(start, tmp_path):
    process = start(
        "recorder = open_recording(Path(sys.argv[1])).recorder\nprint('open', flush=True)\nsys.stdin.read()\n"
        "recorder.begin_step()\nrecorder.end_step(10)\ntime.sleep(1.2)\nprint('trained')",
        tmp_path / "job",
    )
    process.stdout.readline()
    shutil.rmtree(tmp_path / "job")
    out, errors = process.communicate("")
    assert (process.returncode, out) == (0, "trained\n")
    assert "Traceback" not in errors
