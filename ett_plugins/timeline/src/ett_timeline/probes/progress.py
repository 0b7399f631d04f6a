"""The Trainer's own count of processed training batches."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Trainer


def processed_batches(trainer: Trainer) -> int:
    """Training batches that the Trainer has processed since the job began, restarts included.

    It counts a batch after its optimizer step and before ``on_train_batch_end``, so that a callback that saves there
    saves a count with the batch in it.
    """
    # Annotated with a base class that lacks the field.
    total: Any = trainer.fit_loop.epoch_loop.batch_progress.total
    return int(total.processed)
