"""``python train.py``, which knows nothing of being measured."""

from __future__ import annotations

import pytest

from ett_record import read_job


def test_a_program_is_measured_over_its_restarts(tmp_path, program, report):
    job_dir = tmp_path / "job"
    for steps in (6, 10):
        program("--max-steps", steps, ETT_JOB_DIR=str(job_dir))
    found = report(job_dir)
    assert [attempt.end for attempt in found.attempts] == ["finished", "finished"]
    assert (found.steps.new, found.steps.repeated) == (10, 0)
    assert [attempt.resumed_from_samples for attempt in found.attempts] == [0, 24]
    assert found.stages["checkpoint_save"] > 0


def test_a_program_without_the_variable_leaves_nothing(tmp_path, program):
    program()
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("torchrun", [True, False])
def test_two_ranks_are_measured_as_one_attempt(tmp_path, program, report, torchrun):
    job_dir = tmp_path / "job"
    program("--devices", 2, ETT_JOB_DIR=str(job_dir), torchrun=torchrun)
    found = report(job_dir)
    assert (found.state, found.world_size, len(found.attempts)) == ("finished", 2, 1)
    assert (found.steps.new, found.samples.new) == (6, 48)
    assert sorted(read_job(job_dir).attempts[0].ranks) == [0, 1]


def test_a_bad_directory_is_one_line_on_standard_error_of_all_ranks_together(program):
    done = program("--devices", 2, ETT_JOB_DIR="s3://bucket/job", torchrun=True)
    assert done.stderr.count("ett-autoload: this job trains unmeasured") == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_alone_has_the_variable_waits_for_no_other(tmp_path, program, rank):
    job_dir = tmp_path / "job"
    done = program("--devices", 2, torchrun=True, one_rank=(job_dir, rank))
    assert done.stderr.count("1 of 2 ranks have no ETT_JOB_DIR") == 1
    assert not job_dir.exists()


def test_ranks_that_torchrun_starts_again_are_measured(tmp_path, program, report):
    job_dir = tmp_path / "job"
    # Where restarts share a store, gloo may find the address of a rank that died in it (torch 2.13).
    program(
        "--devices", 2, "--kill-at", 4, torchrun=True, ETT_JOB_DIR=str(job_dir), TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"
    )  # fmt: skip
    found = report(job_dir)
    assert [attempt.end for attempt in found.attempts] == ["killed", "finished"]
    assert found.world_size == 2
