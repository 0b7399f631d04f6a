"""The LightningModule around the network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn.modules.module import _IncompatibleKeys
from torch.optim import Adam, Optimizer
from typing_extensions import override

from ett_hookspecs import Attempt, BatchSamples, hookimpl

from .auc import area_under_curve, gather
from .batch import Batch
from .network import RankingNetwork
from .presets import Preset
from .schema import Schema
from .sharding import shard
from .shards import put_back, spread


class ClickModel(pl.LightningModule):
    """Learns to predict clicks: a sharded DLRM with a fused optimizer in its tables and a compiled dense part.

    The dense part is compiled for training only, where every batch has the same shape; evaluation, where the last one
    may be shorter, runs it as it is.

    Args:
        schema: Features of the data.
        preset: Sizes.
        seed: Of the initial weights, whatever was drawn before.
        learning_rate: Of the dense part's Adam.
        table_learning_rate: Of the tables' row-wise Adagrad.
        compiled: Whether to compile the dense part.
    """

    model: Any

    def __init__(
        self,
        schema: Schema,
        preset: Preset,
        *,
        seed: int = 0,
        learning_rate: float = 1e-3,
        table_learning_rate: float = 0.02,
        compiled: bool = True,
    ) -> None:
        super().__init__()
        self.schema = schema
        self.preset = preset
        self.model = None
        self.last_loss: Tensor | None = None
        self.held_out: dict[str, int] = {}
        self.auc: dict[str, float] = {}
        self._seed = seed
        self._learning_rate = learning_rate
        self._table_learning_rate = table_learning_rate
        self._compiled = compiled
        self._scores: list[list[tuple[Tensor, Tensor]]] = []

    @hookimpl
    def ett_choose_batch_samples(self) -> BatchSamples:
        """A batch knows how many samples it holds."""
        return _samples

    @hookimpl
    def ett_attempt_started(self, attempt: Attempt) -> None:
        """Say where a restart goes on."""
        if attempt.rank == 0 and attempt.number > 1:
            again = max(0, attempt.high_water_samples - attempt.resumed_from_samples)
            print(  # noqa: T201  (a line for whoever started the program)
                f"attempt {attempt.number} goes on at {attempt.resumed_from_samples:,} samples; "
                f"{again:,} were trained before and will be again",
                flush=True,
            )

    @override
    def configure_model(self) -> None:
        if self.model is not None:
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            network = RankingNetwork(self.schema, self.preset, device=torch.device("cpu"))
        initial = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        if self._compiled:
            # In place: a wrapper would stand in every parameter's name.
            network.dense.compile(dynamic=False)
        device = self.trainer.strategy.root_device
        self.model = shard(network.to(device), device=device, table_learning_rate=self._table_learning_rate)
        # Sharded tables are made anew, with numbers drawn on each rank: these depend on the seed alone.
        spread(self.state_dict(), initial)

    @override
    def forward(self, batch: Batch) -> Tensor:
        """Logits of a click, float32, shape (samples,)."""
        return self.model(batch.dense, batch.values, batch.lengths)  # type: ignore[no-any-return]

    @override
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = nn.functional.binary_cross_entropy_with_logits(self(batch), batch.labels)
        self.last_loss = loss.detach()
        return loss

    @override
    def configure_optimizers(self) -> Optimizer:
        # The tables are not among the parameters: their optimizer works in the backward pass.
        return Adam(self.dense_parameters(), lr=self._learning_rate)

    def dense_parameters(self) -> list[nn.Parameter]:
        """What is trained by the optimizer that Lightning knows."""
        return list(self.model.module.dense.parameters())

    @override
    def on_test_start(self) -> None:
        self._scores = [[] for _ in self.held_out]

    @override
    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        with torch.compiler.set_stance("force_eager"):
            logits = self(batch)
        self._scores[dataloader_idx].append((logits.float().cpu(), batch.labels.cpu()))

    @override
    def on_test_end(self) -> None:
        for (name, own), scored in zip(self.held_out.items(), self._scores, strict=True):
            scores = torch.cat([logits for logits, _ in scored])[:own]
            labels = torch.cat([labels for _, labels in scored])[:own]
            area = area_under_curve(*gather(scores, labels))
            # Where all labels are the same there is none, and JSON has no word for that.
            if not math.isnan(area):
                self.auc[name] = area
        self._scores = []

    @override
    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Weights by their names in the network; those of tables are sharded tensors. All alias the live ones."""
        return dict(self.model.state_dict())

    @override
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy weights into the live ones.

        Raises:
            ValueError: They are not this model's.
        """
        put_back(self.state_dict(), state_dict)
        return _IncompatibleKeys([], [])

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["fused_optimizer"] = self.fused_state()
        checkpoint["last_loss"] = self.last_loss

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        put_back(self.fused_state(), checkpoint["fused_optimizer"])
        self.last_loss = checkpoint["last_loss"]

    def fused_state(self) -> dict[str, Any]:
        """State of the tables' optimizer, aliasing the live one."""
        return {"state": self.model.fused_optimizer.state_dict()["state"]}

    @override
    def cpu(self) -> ClickModel:
        """The model itself: tables stay where their plan put them."""
        return self


def _samples(batch: Batch) -> int:
    return batch.samples
