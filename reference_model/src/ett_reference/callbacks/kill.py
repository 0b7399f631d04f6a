"""Kills the process at a given point of the training, as a machine that fails would."""

from __future__ import annotations

import os
import signal
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from typing_extensions import override


class SelfKill(Callback):
    """Sends SIGKILL to its own process once that many samples have been trained.

    Args:
        at_samples: Over all ranks, since the job began.
        samples_per_step: Over all ranks.

    *Runs on* every rank: each kills itself after the same step.
    """

    def __init__(self, at_samples: int, *, samples_per_step: int) -> None:
        super().__init__()
        self._at_samples = at_samples
        self._samples_per_step = samples_per_step

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step * self._samples_per_step >= self._at_samples:
            os.kill(os.getpid(), signal.SIGKILL)
