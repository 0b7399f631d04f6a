"""Loaders: torchdata's, which can say and restore their position."""

from __future__ import annotations

from typing import Any

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from ett_reference.batch import Batch

from .order import EndlessOrder, OnePass
from .samples import Samples


def _as_is(batch: Batch) -> Batch:
    return batch


def load(samples: Samples, order: EndlessOrder | OnePass, *, workers: int = 0) -> Any:
    """A ``StatefulDataLoader`` over some samples in some order.

    Args:
        samples: Where a batch comes from.
        order: Which samples each batch holds.
        workers: Processes that assemble batches; 0 for the training process itself.

    Returns:
        A loader of :class:`~ett_reference.batch.Batch`. Its ``state_dict()`` is the position of the last batch it
        gave, whatever its workers have prepared beyond.

    *Runs on* every rank.
    """
    return StatefulDataLoader(
        samples,
        batch_sampler=order,
        num_workers=workers,
        collate_fn=_as_is,
        pin_memory=torch.cuda.is_available(),
        # A generator of its own: with torch's, each new loader would draw from it, and a resumed training makes one
        # more than an uninterrupted one.
        generator=torch.Generator().manual_seed(0),
    )
