"""Jobs trained in this process, one simulated process per attempt, and the checks that every job must pass."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader, Dataset

from ett_hookspecs import AttemptReport, Report, report_json_schema
from ett_record import read_job, recording, report_of
from ett_record.frame import place_attempts
from ett_record.partition import partition_rank
from ett_timeline import EffectiveTrainingTime

MILLISECOND_NS = 1_000_000
QUIET = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Crash(Exception):
    """What a training raises in these tests."""


class Rows(Dataset):
    """Rows of 32 numbers that depend on nothing but their index."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.arange(32, dtype=torch.float32).add(index).sin()


class Model(BoringModel):
    """Trains on rows in order; remembers every loss."""

    def __init__(self, batches: int = 10, batch_size: int = 4) -> None:
        super().__init__()
        self.batches = batches
        self.batch_size = batch_size
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        output = super().training_step(batch, batch_idx)
        self.losses.append(output["loss"].item())
        return output

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Rows(self.batches * self.batch_size), batch_size=self.batch_size)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(Rows(4), batch_size=2)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(Rows(4), batch_size=2)

    def predict_dataloader(self) -> DataLoader:
        return DataLoader(Rows(4), batch_size=2)


class At(Callback):
    """Calls something when so many batches of this process have been begun, or ended."""

    def __init__(self, batch: int, call: Callable[..., object], *, when: str = "end") -> None:
        self.batch = batch
        self.call = call
        self.when = when
        self.seen = 0

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if self.when == "start" and self.seen + 1 == self.batch:
            self.call(trainer)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen += 1
        if self.when == "end" and self.seen == self.batch:
            self.call(trainer)


def crash(trainer: Trainer) -> None:
    raise Crash("boom")


class SaveEvery(Callback):
    """Saves as a callback listed before the measuring one would: after the batch, before anybody else hears of it."""

    def __init__(self, folder: Path, batches: int = 1) -> None:
        self.folder = folder
        self.batches = batches
        self.seen = 0
        self.last: Path | None = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen += 1
        if self.seen % self.batches == 0:
            self.last = self.folder / f"{self.seen}.ckpt"
            trainer.save_checkpoint(self.last)


class Job:
    """A job's directory, and the attempts made on it."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dir = home
        self._monkeypatch = monkeypatch

    def callback(self) -> EffectiveTrainingTime:
        return EffectiveTrainingTime(self.dir)

    def trainer(self, *before: Callback, after: tuple[Callback, ...] = (), **options: Any) -> Trainer:
        """A quiet Trainer, measured by a callback that stands after the ones given."""
        return Trainer(callbacks=[*before, self.callback(), *after], **{**QUIET, **options})

    def train(
        self,
        model: BoringModel | None = None,
        *before: Callback,
        ckpt_path: Any = None,
        data: Any = None,
        **options: Any,
    ) -> Trainer:
        """One attempt that consists of one fit."""
        seed_everything(7, verbose=False)
        with self.process():
            trainer = self.trainer(*before, **{"max_epochs": 1, "limit_val_batches": 0, **options})
            trainer.fit(model or Model(), data, ckpt_path=ckpt_path)
        return trainer

    @contextmanager
    def process(self) -> Iterator[None]:
        """What happens inside happens in a process of its own: it starts now, and its exit handlers run at the end."""
        started = time.monotonic_ns()
        exits: list[Callable[[], None]] = []
        with self._monkeypatch.context() as patch:
            patch.setattr(recording, "process_start_monotonic_ns", lambda: started)
            patch.setattr(recording, "atexit", SimpleNamespace(register=exits.append))
            patch.setattr(recording, "_OPEN", recording.OpenRecordings())
            try:
                yield
            finally:
                for leave in reversed(exits):
                    leave()

    def report(self) -> Report:
        """The report, after the checks that every report must pass."""
        report = report_of(self.dir)
        jsonschema.validate(json.loads(json.dumps(report.to_json())), report_json_schema())
        assert self.imprecision_ns() <= MILLISECOND_NS
        assert sum(report.stages.values()) == pytest.approx(report.wall_s, abs=1e-3)
        assert sum(report.owners.values()) == pytest.approx(report.wall_s - report.stages["training"], abs=1e-3)
        assert report.ett_percent is None or 0 <= report.ett_percent <= 100
        assert min(report.stages.values()) >= 0
        return report

    def attempt(self) -> AttemptReport:
        """The last attempt's report."""
        return self.report().attempts[-1]

    def imprecision_ns(self) -> int:
        """By how much the stages of a rank miss its wall time, at worst."""
        attempts = read_job(self.dir).attempts
        errors = [0]
        for record, frame in zip(attempts, place_attempts(attempts, []), strict=True):
            for rank, log in record.ranks.items():
                stages = partition_rank(log, rank, frame, high_water=0, first=True).stages
                assert min(stages.values()) >= 0
                errors.append(abs(sum(stages.values()) - (frame.end - frame.start)))
        return max(errors)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a launcher, a scheduler or a user said reaches these tests."""
    for name in ("ETT_JOB_DIR", "ETT_ALLOCATED_AT", "SLURM_JOB_START_TIME", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A new job."""
    return Job(tmp_path / "job", monkeypatch)


@pytest.fixture
def lab() -> SimpleNamespace:
    """What trainings of these tests are made of."""
    return SimpleNamespace(Model=Model, Rows=Rows, At=At, SaveEvery=SaveEvery, Crash=Crash, crash=crash, quiet=QUIET)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings that the project has logged so far."""
    return lambda: [
        record.getMessage() for record in caplog.records if record.levelname == "WARNING" and "ett_" in record.name
    ]


PROGRAM = Path(__file__).with_name("programs") / "train.py"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Runs trainings in processes of their own; what still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ETT_", "SLURM_", "TORCHELASTIC_", "PYTEST_"))
    } | {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # fmt: skip
    home = tmp_path / "home"

    def start(*arguments: object, launcher: tuple[str, ...] = (), **environ: str) -> subprocess.Popen[str]:
        command = [sys.executable, *launcher, str(PROGRAM), "--home", str(home), *map(str, arguments)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, **environ},
            start_new_session=True,
        )
        started.append(process)
        return process

    def run(*arguments: object, launcher: tuple[str, ...] = (), status: int = 0, **environ: str) -> SimpleNamespace:
        process = start(*arguments, launcher=launcher, **environ)
        out, errors = process.communicate(timeout=200)
        assert process.returncode == status, errors
        results = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return SimpleNamespace(errors=errors, out=out, result=results[-1] if results else None)

    def batches(name: str) -> list[int]:
        return [int(line) for line in (home / name).read_text().splitlines()]

    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    yield SimpleNamespace(start=start, run=run, batches=batches, home=home, torchrun=torchrun)
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
