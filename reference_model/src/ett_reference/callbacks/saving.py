"""Saves every so many steps, and at the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Checkpoint
from typing_extensions import override

from ett_reference.checkpoint_io import checkpoint_name, complete_checkpoints


class SynchronousCheckpoint(Checkpoint):
    """Lets the Trainer save while training waits, and removes what is older than the last few.

    Args:
        folder: Where the checkpoints are kept.
        every_n_steps: How often; the last step is always saved.
        keep_last: How many are kept.

    Raises:
        ValueError: A number is below 1.

    *Runs on* every rank: a checkpoint is saved by all of them together.
    """

    def __init__(self, folder: Path, *, every_n_steps: int, keep_last: int = 2) -> None:
        super().__init__()
        if every_n_steps < 1 or keep_last < 1:
            raise ValueError(f"every_n_steps and keep_last must be at least 1, not {every_n_steps} and {keep_last}")
        self._folder = folder
        self._every_n_steps = every_n_steps
        self._keep_last = keep_last

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if step % self._every_n_steps and step != trainer.max_steps:
            return
        trainer.save_checkpoint(self._folder / checkpoint_name(step))
        for old in complete_checkpoints(self._folder)[: -self._keep_last] if trainer.is_global_zero else []:
            trainer.strategy.remove_checkpoint(old)
