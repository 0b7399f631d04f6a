"""Keeps the random number generators' states in checkpoints."""

from __future__ import annotations

import random
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from typing_extensions import override


class RandomStates(Callback):
    """Saves the states of torch's, numpy's and Python's generators, and restores them right before training goes on.

    *Runs on* every rank; each has its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._restored: dict[str, Any] | None = None

    @property
    @override
    def state_key(self) -> str:
        return "ett-reference-model.random-states"

    @override
    def state_dict(self) -> dict[str, Any]:
        return {
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "numpy": np.random.get_state(),
            "python": random.getstate(),
        }

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored = state_dict

    @override
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Not earlier: what sets a training up may draw, and a training that was never interrupted is set up once.
        if self._restored is None:
            return
        torch.set_rng_state(self._restored["torch"])
        if self._restored["cuda"]:
            torch.cuda.set_rng_state_all(self._restored["cuda"])
        np.random.set_state(self._restored["numpy"])
        random.setstate(self._restored["python"])
        self._restored = None
