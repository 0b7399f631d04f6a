"""Saves and loads through the strategy's CheckpointIO, whoever asks for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch import Trainer

from ett_hookspecs import Stage
from ett_timeline.spans import Spans


class MeasuredCheckpointIO(CheckpointIO):
    """Stands before a strategy's CheckpointIO and measures it; all else is that one's own."""

    def __init__(self, inner: CheckpointIO, spans: Spans) -> None:
        self.inner = inner
        self.when_torn_down: Callable[[], None] | None = None
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            # A copy in the making has none yet.
            raise AttributeError(name)
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
        try:
            with self._spans.measured(Stage.CHECKPOINT_SAVE, "finish checkpoints"):
                self.inner.teardown()
        finally:
            if self.when_torn_down is not None:
                self.when_torn_down()


def measure_checkpoints(trainer: Trainer, spans: Spans) -> None:
    """Measure the saves and loads of a Trainer; a strategy that has no CheckpointIO of its own is left alone."""
    stop_measuring_checkpoints(trainer)
    strategy = trainer.strategy
    with suppress(AttributeError, NotImplementedError, TypeError):
        strategy.checkpoint_io = MeasuredCheckpointIO(strategy.checkpoint_io, spans)


def stop_measuring_checkpoints(trainer: Trainer) -> None:
    """Give the strategy its own CheckpointIO back."""
    strategy = trainer.strategy
    with suppress(AttributeError, NotImplementedError, TypeError):
        current = strategy.checkpoint_io
        if isinstance(current, MeasuredCheckpointIO):
            strategy.checkpoint_io = current.inner


def stop_measuring_when_torn_down(trainer: Trainer) -> None:
    """Give it back after the strategy's tear-down: other callbacks may save on the way out of an exception."""
    with suppress(AttributeError, NotImplementedError, TypeError):
        current = trainer.strategy.checkpoint_io
        if isinstance(current, MeasuredCheckpointIO):
            current.when_torn_down = partial(stop_measuring_checkpoints, trainer)
