"""Says how far the training is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from typing import Any, Final

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from typing_extensions import override

LINE_EVERY_S: Final = 10.0
"""Seconds between two lines."""
BAR_EVERY_S: Final = 0.2
"""Seconds between two looks of the bar at the training."""


class SampleProgress(Callback):
    """Shows trained samples, loss and speed.

    Args:
        total_samples: Over all ranks.
        samples_per_step: Over all ranks.
        console: Where to.

    *Runs on* rank 0.
    """

    def __init__(self, *, total_samples: int, samples_per_step: int, console: Console | None = None) -> None:
        super().__init__()
        self._total_samples = total_samples
        self._samples_per_step = samples_per_step
        self._console = console or Console()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._due_s = 0.0
        self._first: tuple[int, float] | None = None
        self._losses: torch.Tensor | None = None
        self._steps = 0

    @override
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        now = time.monotonic()
        samples = trainer.global_step * self._samples_per_step
        self._first = self._losses = None
        self._steps = 0
        self._due_s = now
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                TextColumn("{task.completed:,.0f} / {task.total:,.0f} samples"),
                TextColumn("{task.fields[loss]}"),
                TimeRemainingColumn(),
                console=self._console,
                transient=False,
            )
            self._task = self._bar.add_task("training", total=self._total_samples, completed=samples, loss="")
            self._bar.start()
        else:
            self._due_s = now + LINE_EVERY_S
            self._console.print(f"training: {samples:,} of {self._total_samples:,} samples done", highlight=False)

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not trainer.is_global_zero:
            return
        loss: torch.Tensor | None = getattr(pl_module, "last_loss", None)
        if loss is not None:
            # Added up where it is: to read it here would make a GPU wait for every step.
            self._losses = loss.detach().clone() if self._losses is None else self._losses.add_(loss.detach())
            self._steps += 1
        now = time.monotonic()
        if self._first is None:
            # The first batch is compiled; speed is that of the others.
            self._first = (trainer.global_step * self._samples_per_step, now)
        if now >= self._due_s:
            self._say(trainer)

    @override
    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            self._say(trainer)
        self._stop()

    @override
    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._stop()

    def _say(self, trainer: pl.Trainer) -> None:
        now = time.monotonic()
        samples = trainer.global_step * self._samples_per_step
        loss = "" if self._losses is None else f"mean loss {float(self._losses) / self._steps:.3f}"
        self._losses, self._steps = None, 0
        if self._bar is not None:
            self._bar.update(self._task, completed=samples, loss=loss)
            self._due_s = now + BAR_EVERY_S
            return
        facts = [f"training: {samples:,} of {self._total_samples:,} samples", loss]
        if self._first is not None and samples > self._first[0]:
            facts.append(f"{(samples - self._first[0]) / max(now - self._first[1], 1e-9):,.0f} samples/s")
        self._console.print(", ".join(fact for fact in facts if fact), highlight=False)
        self._due_s = now + LINE_EVERY_S

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
