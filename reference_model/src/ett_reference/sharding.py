"""Spreads the tables of a network over the ranks."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.model_parallel import DistributedModelParallel, get_default_sharders
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.types import ShardingType
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from .network import RankingNetwork


def shard(network: RankingNetwork, *, device: torch.device, table_learning_rate: float) -> Any:
    """Shard the tables, and give them an optimizer that works inside the backward pass.

    Args:
        network: With its initial weights, the same on every rank; changed and used from here on.
        device: Of this rank.
        table_learning_rate: Of the tables' row-wise Adagrad.

    Returns:
        A ``DistributedModelParallel``; its ``fused_optimizer`` holds the tables' optimizer state.

    *Runs on* every rank, with a process group.
    """
    apply_optimizer_in_backward(RowWiseAdagrad, network.sparse.parameters(), {"lr": table_learning_rate})
    # Small tables would else be replicated, and their optimizer would not be the fused one.
    constraints = {
        table.name: ParameterConstraints(
            sharding_types=[ShardingType.TABLE_WISE.value, ShardingType.ROW_WISE.value],
            compute_kernels=[EmbeddingComputeKernel.FUSED.value],
        )
        for table in network.sparse.embedding_bag_configs()
    }
    planner = EmbeddingShardingPlanner(
        topology=Topology(
            world_size=dist.get_world_size(),
            local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size())),
            compute_device=device.type,
        ),
        constraints=constraints,
    )
    sharders = get_default_sharders()
    plan = planner.collective_plan(network, sharders, dist.group.WORLD)
    return DistributedModelParallel(network, device=device, plan=plan, sharders=sharders)
