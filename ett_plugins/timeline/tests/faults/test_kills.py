"""Real kills of real trainings."""

from __future__ import annotations

import random
import time

import pytest

KILLS = 10
BATCH = 4


def test_after_ten_kills_at_random_moments_everything_adds_up(job, program):
    """B34 (transformers #40560): whatever was trained after the last checkpoint is repeated, and nothing else is."""
    moments = random.Random(7)
    arguments = ("--job-dir", job.dir, "--step-s", 0.004, "--every", 5)
    trained, counted, resumed = [], [], []
    for _ in range(KILLS):
        saved = sorted(program.home.glob("*.ckpt"))
        resumed.append(int(saved[-1].stem) if saved else 0)
        before = len(program.batches("counted-0")) if saved else 0
        process = program.start(*arguments, "--max-steps", 10_000)
        deadline = time.monotonic() + 60
        while not (program.home / "counted-0").exists() or len(program.batches("counted-0")) < before + 7:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        process.wait()
        trained.append(program.batches("trained-0")[-1])
        counted.append(program.batches("counted-0")[-1])
    last = program.batches("counted-0")[-1] + 20
    resumed.append(int(max(program.home.glob("*.ckpt")).stem))
    program.run(*arguments, "--max-steps", last)

    report = job.report()
    assert [attempt.end for attempt in report.attempts] == ["killed"] * KILLS + ["finished"]
    assert report.failures == KILLS
    assert report.samples.skipped == 0
    assert report.warnings == ()
    *killed, _ = report.attempts
    # A kill may come between the batch and whoever hears of it.
    for attempt, low, high in zip(killed, counted, trained, strict=True):
        assert BATCH * low <= attempt.reached_samples <= BATCH * high
    assert [attempt.resumed_from_samples for attempt in report.attempts] == [BATCH * batches for batches in resumed]
    again = sum(attempt.reached_samples - BATCH * batches for attempt, batches in zip(killed, resumed[1:], strict=True))
    assert report.samples.repeated == again > 0
    assert report.samples.new == BATCH * last
    assert report.steps.new + report.steps.repeated == (report.samples.new + report.samples.repeated) // BATCH
    assert len(report.time_to_resume_s.each) == KILLS
    assert report.stages["downtime"] > 0
    assert report.stages["unknown"] == 0


def test_a_kill_of_one_of_two_ranks_is_one_failure_of_one_attempt(job, program):
    program.run(
        "--job-dir", job.dir, "--ranks", 2, "--max-steps", 12, "--kill-at", 8, "--kill-rank", 1,
        launcher=(*program.torchrun, "--max-restarts", "1"),
        # Where restarts share a store, gloo may find the address of the rank that died in it (torch 2.13).
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
    )  # fmt: skip
    report = job.report()
    assert [attempt.end for attempt in report.attempts] == ["killed", "finished"]
    assert report.failures == 1
    assert [attempt.world_size for attempt in report.attempts] == [2, 2]
    # Seven batches were trained, a checkpoint was made after the fifth.
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (12 * 8, 2 * 8, 0)
    assert (report.steps.new, report.steps.repeated) == (12, 2)
    assert report.attempts[1].resumed_from_samples == 40
    assert report.attempts[1].stages["downtime"] > 0


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_kill_in_the_first_batch_leaves_a_job_that_can_be_resumed(job, program, interrupted):
    at = 1 if not interrupted else 2
    program.run("--job-dir", job.dir, "--kill-at", at, status=-9)
    program.run("--job-dir", job.dir, "--max-steps", 5)
    report = job.report()
    assert [attempt.end for attempt in report.attempts] == ["killed", "finished"]
    assert (report.samples.new, report.samples.repeated) == (20, 4 * (at - 1))
    assert report.failures == 1
