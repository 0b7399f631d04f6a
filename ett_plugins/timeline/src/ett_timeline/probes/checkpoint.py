"""Saves and loads through the strategy's CheckpointIO, whoever asks for them."""

from __future__ import annotations

from typing import Any

from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Trainer

from ett_hookspecs import Stage
from ett_timeline.spans import Spans


class MeasuredCheckpointIO(CheckpointIO):
    """Stands before a strategy's CheckpointIO and measures it; all else is that one's own."""

    def __init__(self, inner: CheckpointIO, spans: Spans) -> None:
        self.inner = inner
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Save, blocked until the inner one returns."""
        with self._spans.measured(Stage.CHECKPOINT_SAVE, "write checkpoint"):
            self.inner.save_checkpoint(*args, **kwargs)

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Load, blocked until the inner one returns."""
        with self._spans.measured(Stage.CHECKPOINT_RESTORE, "read checkpoint"):
            return self.inner.load_checkpoint(*args, **kwargs)

    def remove_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Remove a checkpoint: part of the save that replaced it."""
        with self._spans.measured(Stage.CHECKPOINT_SAVE, "remove checkpoint"):
            self.inner.remove_checkpoint(*args, **kwargs)

    def teardown(self) -> None:
        """Finish what the inner one still has to do."""
        with self._spans.measured(Stage.CHECKPOINT_SAVE, "finish checkpoints"):
            self.inner.teardown()


def measure_checkpoints(trainer: Trainer, spans: Spans) -> None:
    """Measure the saves and loads of a Trainer; a strategy that has no CheckpointIO of its own is left alone."""
    strategy = trainer.strategy
    try:
        current = strategy.checkpoint_io
        if not isinstance(current, MeasuredCheckpointIO):
            strategy.checkpoint_io = MeasuredCheckpointIO(current, spans)
    except (AttributeError, NotImplementedError, TypeError):
        return


def stop_measuring_checkpoints(trainer: Trainer) -> None:
    """Give the strategy its own CheckpointIO back."""
    strategy = trainer.strategy
    try:
        current = strategy.checkpoint_io
    except NotImplementedError:
        return
    if isinstance(current, MeasuredCheckpointIO):
        strategy.checkpoint_io = current.inner
