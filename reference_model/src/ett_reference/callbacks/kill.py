"""Kills the process at a given point of the training, as a machine that fails would."""

from __future__ import annotations

import os
import signal
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from typing_extensions import override


class SelfKill(Callback):
    """Sends SIGKILL to its own process once that many samples have been trained.

    Args:
        at_samples: Over all ranks, since the job began.
        samples_per_step: Over all ranks.
        console: Where it is announced.

    *Runs on* every rank: each kills itself after the same step.
    """

    def __init__(self, at_samples: int, *, samples_per_step: int, console: Console | None = None) -> None:
        super().__init__()
        self._console = console or Console()
        self._at_samples = at_samples
        self._samples_per_step = samples_per_step

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        samples = trainer.global_step * self._samples_per_step
        if samples >= self._at_samples:
            if trainer.is_global_zero:
                self._console.print(
                    f"killed on purpose at {samples:,} samples, as --kill-at asks: torchrun starts it again",
                    highlight=False,
                )
            os.kill(os.getpid(), signal.SIGKILL)
