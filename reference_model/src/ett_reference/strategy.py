"""The strategy for a module that shards itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.trainer.states import TrainerFn
from torch import nn
from torch.distributed.rendezvous import rendezvous
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
    def setup_distributed(self) -> None:
        self.set_world_ranks()
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT")
        if restart is not None and not dist.is_initialized():
            # torchrun's store outlives a restart, with the addresses of the ranks before it: whoever reads one of those
            # waits for a dead process. Each start therefore keeps its keys apart.
            store, rank, ranks = next(rendezvous("env://", self.global_rank, self.world_size))
            dist.init_process_group(
                self._get_process_group_backend(),
                store=dist.PrefixStore(f"start-{restart}", store),  # type: ignore[attr-defined]
                rank=rank,
                world_size=ranks,
                timeout=self._timeout,
            )
        super().setup_distributed()

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
