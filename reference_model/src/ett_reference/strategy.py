"""The strategy for a module that shards itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn
from typing_extensions import override


class TorchRecStrategy(DDPStrategy):
    """Ranks and their process group as in DDP; the module's ``DistributedModelParallel`` does the rest.

    gloo on CPU, NCCL on CUDA. Give the Trainer ``use_distributed_sampler=False``: the orders in
    :mod:`ett_reference.data.order` know their rank.

    Checkpoints go through the strategy's CheckpointIO on *every* rank, since each holds shards of its own.
    """

    @override
    def _setup_model(self, model: nn.Module) -> nn.Module:  # type: ignore[override]
        return model

    @override
    def _register_ddp_hooks(self) -> None:
        """Not ours to register: there is no DDP around the module."""

    @override
    def setup(self, trainer: pl.Trainer) -> None:
        if trainer.state.fn is TrainerFn.FITTING:
            super().setup(trainer)
            return
        # DDP's own would send rank 0's parameters to every rank: other tables than theirs.
        assert self.accelerator is not None
        assert self.model is not None
        self.accelerator.setup(trainer)
        self.model = self.precision_plugin.convert_module(self.model)
        self.setup_precision_plugin()

    @override
    def model_to_device(self) -> None:
        """It was made on its device."""

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any | None = None) -> None:
        self.checkpoint_io.save_checkpoint(checkpoint, filepath, storage_options=storage_options)

    @override
    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.lightning_module is not None
        self.lightning_module.load_state_dict(checkpoint["state_dict"], strict=strict)
