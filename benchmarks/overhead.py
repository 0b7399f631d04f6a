"""What measuring costs: microseconds a step, against a callback with empty hooks in the same process.

Trainings with ``EffectiveTrainingTime`` and with the empty callback take turns; each gives the median time from one
batch to the next, and each pair of neighbours one difference. The share is that difference over a step of the reference
model's preset ``deep``, trained in the same run.

    python benchmarks/overhead.py            a table
    python benchmarks/overhead.py --json     one object: per_step_us, share_of_step_percent, medians with min and max
"""

from __future__ import annotations

import argparse
import atexit
import json
import logging
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from rich.progress import Progress

from ett_record import report_of
from ett_timeline import EffectiveTrainingTime


class EmptyCallback(Callback):
    """The peer: called as often, does nothing."""

    def on_train_batch_start(self, *args: Any) -> None:
        pass

    def on_train_batch_end(self, *args: Any) -> None:
        pass


class TimedModel(BoringModel):
    """Notes when each batch begins."""

    def __init__(self) -> None:
        super().__init__()
        self.began_ns: list[int] = []

    def on_train_batch_start(self, *args: Any) -> None:
        self.began_ns.append(time.perf_counter_ns())

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(RandomDataset(32, 100_000))


def median_step_us(callback: Callback, steps: int) -> float:
    model = TimedModel()
    trainer = Trainer(
        accelerator="cpu",
        callbacks=[callback],
        max_steps=steps,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model)
    settled = model.began_ns[steps // 10 :]
    return statistics.median(b - a for a, b in pairwise(settled)) / 1000


def deep_step_us(samples: int) -> float:
    """A step of the reference model's largest dense part, from its own report."""
    with tempfile.TemporaryDirectory() as job_dir:
        command = [sys.executable, "-m", "ett_reference", "train", "--job-dir", job_dir, "--data", "synthetic"]
        command += ["--preset", "deep", "--max-samples", str(samples), "--with", "timeline", "--no-publish"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = report_of(Path(job_dir))
    return 1e6 * report.stages["training"] / report.steps.new


def summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of trainings (default %(default)s)")
    parser.add_argument("--steps", type=int, default=3000, help="steps of each (default %(default)s)")
    parser.add_argument("--deep-samples", type=int, default=20_000, help="samples of preset deep (default %(default)s)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)

    empty, measured = [], []
    job_dir = tempfile.mkdtemp()
    # Exit handlers run in reverse: the record is closed before its directory goes.
    atexit.register(shutil.rmtree, job_dir, ignore_errors=True)
    with Progress(transient=True, disable=arguments.json) as progress:
        task = progress.add_task("training in pairs", total=arguments.pairs + 1)
        for _ in range(arguments.pairs + 1):
            empty.append(median_step_us(EmptyCallback(), arguments.steps))
            measured.append(median_step_us(EffectiveTrainingTime(job_dir), arguments.steps))
            progress.advance(task)
    # The first pair warms up.
    added = [m - e for e, m in zip(empty[1:], measured[1:], strict=True)]
    deep = deep_step_us(arguments.deep_samples)
    result = {
        "per_step_us": statistics.median(added),
        "share_of_step_percent": 100 * statistics.median(added) / deep,
        "added_us": summary(added),
        "empty_callback_step_us": summary(empty[1:]),
        "measured_step_us": summary(measured[1:]),
        "deep_step_us": deep,
        "pairs": arguments.pairs,
        "steps": arguments.steps,
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"added per step      {result['per_step_us']:8.1f} us  (min {min(added):.1f}, max {max(added):.1f})")
    print(f"step of preset deep {deep:8.0f} us")
    print(f"share               {result['share_of_step_percent']:8.3f} %")


if __name__ == "__main__":
    main()
