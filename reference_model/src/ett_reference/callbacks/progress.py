"""Says how far the training is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from typing import Any, Final

import lightning.pytorch as pl
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
        self._first = (0, 0.0)

    @override
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        now = time.monotonic()
        samples = trainer.global_step * self._samples_per_step
        self._first = (samples, now)
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
        if trainer.is_global_zero and time.monotonic() >= self._due_s:
            self._say(trainer, pl_module)

    @override
    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            self._say(trainer, pl_module)
        self._stop()

    @override
    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._stop()

    def _say(self, trainer: pl.Trainer, pl_module: Any) -> None:
        now = time.monotonic()
        samples = trainer.global_step * self._samples_per_step
        loss = "" if pl_module.last_loss is None else f"loss {float(pl_module.last_loss):.3f}"
        if self._bar is not None:
            self._bar.update(self._task, completed=samples, loss=loss)
            self._due_s = now + BAR_EVERY_S
            return
        speed = (samples - self._first[0]) / max(now - self._first[1], 1e-9)
        self._console.print(
            f"training: {samples:,} of {self._total_samples:,} samples, {loss}, {speed:,.0f} samples/s",
            highlight=False,
        )
        self._due_s = now + LINE_EVERY_S

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
