"""Publishes the model where it was trained, while the accelerators wait."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from typing_extensions import override

from ett_hookspecs import Stage, timed_span
from ett_reference.batch import Batch
from ett_reference.publish import Publication, publish, restore
from ett_reference.shards import whole

log = logging.getLogger(__name__)


class InlinePublish(Callback):
    """Quantizes, scripts and saves the model when training ends; a failure is told, and harms nothing that was trained.

    Args:
        folder: Where to.
        sample: On which the published model is compared with the trained one.

    *Runs on* every rank: each gives its shards to rank 0, which publishes while the others wait.
    """

    def __init__(self, folder: Path, sample: Batch) -> None:
        super().__init__()
        self._folder = folder
        self._sample = sample
        self.publication: Publication | None = None
        self.error: str | None = None
        self._done = False

    @property
    def done(self) -> bool:
        """Whether it was tried, on this rank."""
        return self._done

    @override
    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.publish(trainer, pl_module)

    def publish(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Publish now; where all was trained before this attempt, no training ends in it."""
        self._done = True
        with timed_span(trainer, stage=Stage.PUBLISHING, name="publish", plugin="ett-reference-model"):
            weights = whole(pl_module.state_dict())
            if weights is not None:
                try:
                    self.publication = publish(
                        restore(pl_module.schema, pl_module.preset, weights), self._folder, self._sample
                    )
                except Exception as error:
                    self.error = f"{type(error).__name__}: {error}"
                    log.exception("the model was trained, but not published")
            trainer.strategy.barrier("published")
