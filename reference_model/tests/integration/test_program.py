"""The program end to end, without kills."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Train = Callable[..., Any]
QUICK = ("--no-compile", "--save-every", 25)


def test_a_finished_job_trains_nothing_more_and_a_longer_one_goes_on(train: Train) -> None:
    """B25, as far as it concerns the number of steps: 100, then as many again."""
    first = train(*QUICK, "--max-samples", 3200)
    assert first.result["steps"] == 100
    assert set(first.result["auc"]) == {"validation", "test"}
    again = train(*QUICK, "--max-samples", 3200)
    assert again.result == first.result
    longer = train(*QUICK, "--max-samples", 6400)
    assert longer.result["steps"] == 200
    whole = train(*QUICK, "--max-samples", 6400, job="whole")
    assert longer.result["weights_sha256"] == whole.result["weights_sha256"]
    assert longer.report["samples"] == {"new": 6400, "repeated": 0, "skipped": 0}


def test_without_any_plugin_it_trains_resumes_and_publishes_the_same(train: Train) -> None:
    measured = train(*QUICK, "--max-samples", 1600, job="measured")
    alone = train(*QUICK, "--max-samples", 1600, "--with", "none", "--kill-at", 1000, job="alone")
    assert alone.result["weights_sha256"] == measured.result["weights_sha256"]
    assert not (alone.job_dir / "timeline").exists()
    assert (alone.job_dir / "published" / "model.pt").exists()
    assert "resuming from" in alone.output


@pytest.mark.parametrize(("data", "preset"), [("synthetic", "wide"), ("criteo", "small")])
def test_other_data_and_presets_train(train: Train, tmp_path: Path, data: str, preset: str) -> None:
    arguments: list[object] = [
        "--no-compile",
        "--data",
        data,
        "--preset",
        preset,
        "--max-samples",
        2000,
        "--batch-size",
        50,
    ]
    if data == "criteo":
        lines = ("\t".join([str(n % 2), *[str(n % 7)] * 13, *[f"{n % 2:x}"] * 26]) for n in range(3000))
        (tmp_path / "day_0").write_text("\n".join(lines))
        arguments += ["--data-dir", tmp_path / "day_0"]
    run = train(*arguments)
    assert run.result["samples"] == 2000
    assert list(run.result["auc"]) == ["test"]
    assert run.result["published"]["table_dtype"] == "int8"
    assert math.isfinite(run.result["loss"])
    if data == "criteo":
        # Labels follow from the features.
        assert run.result["auc"]["test"] > 0.95


def test_another_seed_in_the_same_directory_is_refused_in_one_line(train: Train) -> None:
    train(*QUICK, "--max-samples", 320, "--no-publish")
    refused = train(*QUICK, "--max-samples", 640, "--seed", 2, code=2)
    assert refused.output.startswith("Error: the job in ")
    assert refused.output.count("\n") == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_line_in_the_middle_of_the_data_is_one_line_and_exit_code_2(
    train: Train, tmp_path: Path, workers: int
) -> None:
    good = "\t".join(["1", *["2"] * 13, *["ab"] * 26])
    (tmp_path / "day_0").write_text("\n".join([*[good] * 300, "garbage", *[good] * 300]))
    data = ("--data", "criteo", "--data-dir", tmp_path / "day_0")
    run = train(*QUICK, *data, "--workers", workers, code=2)
    (error,) = (text for text in run.output.splitlines() if not text.startswith("training:"))
    assert error.startswith(f"Error: {tmp_path / 'day_0'}, line 301: a line of 1 fields, not 40")


def test_too_little_data_for_a_batch_is_one_line_and_exit_code_2(train: Train, tmp_path: Path) -> None:
    (tmp_path / "day_0").write_text("\t".join(["1", *["2"] * 13, *["ab"] * 26]) + "\n")
    run = train(*QUICK, "--data", "criteo", "--data-dir", tmp_path / "day_0", code=2)
    assert run.output.splitlines() == [
        "Error: 1 samples cannot fill a batch of 32 on each of 1 ranks: take a smaller --batch-size, or more data"
    ]


def test_nothing_is_said_that_nobody_asked_for(train: Train) -> None:
    run = train(*QUICK, "--max-samples", 640)
    lines = run.output.splitlines()
    assert [line.split(":")[0].split()[0] for line in lines] == ["training", "training", "trained", "published"]
