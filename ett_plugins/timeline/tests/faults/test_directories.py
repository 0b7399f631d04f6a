"""Job directories that do not do what they should: full, and taken."""

from __future__ import annotations

import socket
import subprocess

import pytest


def warnings_of(errors):
    return [line for line in errors.splitlines() if "unmeasured" in line or "timeline" in line]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", place]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount program")
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_on_a_disk_that_fills_up_training_goes_on_and_the_report_says_what_is_missing(job, program, small_disk):
    # Each save leaves lines in the log, so that it outgrows the pages that it has.
    arguments = ("--max-steps", 60, "--step-s", 0.05, "--every", 1)
    unmeasured = program.run("--unmeasured", *arguments)
    for path in program.home.iterdir():
        path.unlink()
    job.dir = small_disk / "job"
    done = program.run("--job-dir", job.dir, *arguments, "--fill-at", 10)
    assert done.result == unmeasured.result
    (warning,) = warnings_of(done.errors)
    assert "the timeline cannot be written" in warning
    assert "No space left" in warning
    report = job.report()
    assert (report.state, report.steps.new, report.samples.new) == ("finished", 60, 240)
    assert report.stages["training"] > 2
    assert any("end of its log" in line for line in report.warnings)


def test_of_two_jobs_in_one_directory_the_second_trains_unmeasured(job, program):
    first = program.start("--job-dir", job.dir, "--max-steps", 8, "--wait-at", 5)
    assert first.stdout.readline() == "waiting\n"
    second = program.run("--job-dir", job.dir, "--max-steps", 8)
    assert second.result["steps"] == 8
    (warning,) = warnings_of(second.errors)
    assert f"process {first.pid} on host {socket.gethostname()}" in warning
    assert "this job trains unmeasured" in warning
    out, errors = first.communicate("\n")
    assert first.returncode == 0
    assert '"steps": 8' in out
    assert warnings_of(errors) == []
    report = job.report()
    assert [attempt.end for attempt in report.attempts] == ["finished"]
    assert report.samples.new == 32
