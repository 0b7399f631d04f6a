"""Trainers of this process, each measured as a process of its own, and a program that knows nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from ett_autoload import factory
from ett_hookspecs import Report
from ett_record import recording, report_of

QUIET = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "limit_val_batches": 0,
}
PROGRAMS = Path(__file__).with_name("programs")


class Model(BoringModel):
    """Four samples a batch."""

    def train_dataloader(self) -> DataLoader:
        return DataLoader(RandomDataset(32, 400), batch_size=4)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a launcher or a user said reaches these tests, and nothing was warned of yet."""
    for name in ("ETT_JOB_DIR", "ETT_ALLOCATED_AT", "ETT_DISABLE_PLUGINS", "SLURM_JOB_START_TIME", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(factory, "_WARNED", set())


@pytest.fixture
def job_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that ETT_JOB_DIR names."""
    monkeypatch.setenv("ETT_JOB_DIR", str(tmp_path / "job"))
    return tmp_path / "job"


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """What happens inside happens in a process of its own."""

    @contextmanager
    def process() -> Iterator[None]:
        started = time.monotonic_ns()
        exits: list[Callable[[], None]] = []
        with monkeypatch.context() as patch:
            patch.setattr(recording, "process_start_monotonic_ns", lambda: started)
            patch.setattr(recording, "atexit", SimpleNamespace(register=exits.append))
            patch.setattr(recording, "_OPEN", recording.OpenRecordings())
            try:
                yield
            finally:
                for leave in reversed(exits):
                    leave()

    return process


@pytest.fixture
def make_trainer() -> Callable[..., Trainer]:
    """Makes quiet Trainers."""

    def make_trainer(*callbacks: Callback, **options: Any) -> Trainer:
        return Trainer(callbacks=list(callbacks), **{**QUIET, "max_steps": 3, **options})

    return make_trainer


@pytest.fixture
def model() -> Callable[[], BoringModel]:
    """Makes models."""
    return Model


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings that the project has logged so far."""
    return lambda: [r.getMessage() for r in caplog.records if r.levelname == "WARNING" and r.name.startswith("ett_")]


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program that knows nothing of being measured."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ETT_", "SLURM_", "TORCHELASTIC_", "PYTEST_"))
    }

    def run(
        *arguments: object, torchrun: bool = False, one_rank: tuple[object, ...] = (), **environ: str
    ) -> subprocess.CompletedProcess[str]:
        launcher = (
            ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
            if torchrun
            else []
        )
        program = [PROGRAMS / "one_rank.py", *one_rank] if one_rank else [PROGRAMS / "train.py"]
        done = subprocess.run(
            [sys.executable, *map(str, (*launcher, *program, "--home", tmp_path, *arguments))],
            env={**kept, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def report() -> Callable[[Path], Report]:
    """The report of a directory, whose stages sum to its wall time."""

    def report(job_dir: Path) -> Report:
        found = report_of(job_dir)
        assert sum(found.stages.values()) == pytest.approx(found.wall_s, abs=1e-3)
        return found

    return report
