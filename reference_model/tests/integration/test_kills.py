"""A job that is killed twice ends with the very weights of one that never was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Train = Callable[..., Any]
COMMON = ("--max-samples", 8000, "--save-every", 40, "--with", "timeline")


def test_two_kills_leave_the_weights_bitwise_as_they_would_have_been_and_are_accounted_for_exactly(
    train: Train,
) -> None:
    """Compiled, on real data, 1 rank; 32 samples a step, a checkpoint every 1,280 samples."""
    whole = train(*COMMON, job="whole")
    killed = train(*COMMON, "--kill-at", "3000,6001", "--workers", 2, job="killed")

    assert killed.result["weights_sha256"] == whole.result["weights_sha256"]
    assert killed.result["auc"] == whole.result["auc"]
    assert killed.report["sections"]["reference_model"]["auc_test"] == whole.result["auc"]["test"]
    assert killed.result["loss"] == whole.result["loss"]
    assert killed.result["samples"] == whole.result["samples"] == 8000
    assert whole.report["failures"] == 0
    assert whole.report["samples"] == {"new": 8000, "repeated": 0, "skipped": 0}

    report = killed.report
    # Killed after 3,008 and 6,016 samples, the last checkpoints at 2,560 and 5,120.
    assert report["failures"] == 2
    assert report["samples"] == {"new": 8000, "repeated": (3008 - 2560) + (6016 - 5120), "skipped": 0}
    assert [attempt["end"] for attempt in report["attempts"]] == ["killed", "killed", "finished"]
    assert [attempt["resumed_from_samples"] for attempt in report["attempts"]] == [0, 2560, 5120]
    for stage in ("compilation", "checkpoint_save", "checkpoint_restore", "publishing", "validation", "retraining"):
        assert report["stages"][stage] > 0
    assert abs(sum(report["stages"].values()) - report["wall_s"]) < 1e-3

    assert "attempt 2 goes on at 2,560 samples; 448 were trained before and will be again" in killed.output
    assert "attempt 3 goes on at 5,120 samples; 896 were trained before and will be again" in killed.output
    assert killed.checkpoints == ["step-000000240", "step-000000250"]


def test_two_ranks_are_killed_together_and_go_on_together(train: Train) -> None:
    common = ("--ranks", 2, "--max-samples", 6400, "--save-every", 20, "--no-compile")
    whole = train(*common, job="whole")
    killed = train(*common, "--kill-at", "2000,5000", "--workers", 2, job="killed")
    assert killed.result["weights_sha256"] == whole.result["weights_sha256"]
    assert killed.result["auc"] == whole.result["auc"]
    assert killed.result["published"]["table_dtype"] == "int8"
    report = killed.report
    assert report["world_size"] == 2
    assert report["failures"] == 2
    # Killed after 2,048 and 5,056 samples, the last checkpoints at 1,280 and 3,840.
    assert report["samples"] == {"new": 6400, "repeated": (2048 - 1280) + (5056 - 3840), "skipped": 0}
    assert killed.output.count("goes on at") == 2
