"""Area under the ROC curve, exact, over all ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gather(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and labels of all ranks, on each of them.

    *Runs on* every rank together.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return scores, labels
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, (scores, labels))
    return torch.cat([scores for scores, _ in parts]), torch.cat([labels for _, labels in parts])


def area_under_curve(scores: Tensor, labels: Tensor) -> float:
    """The probability that a click scores above what was not clicked; equal scores count half.

    Args:
        scores: Any order-preserving score, float, shape (samples,).
        labels: 1 or 0, shape (samples,).

    Returns:
        0 to 1; NaN where all labels are the same.
    """
    values, position = torch.unique(scores.double(), sorted=True, return_inverse=True)
    clicks = torch.zeros(len(values), dtype=torch.float64).index_add_(0, position, labels.double())
    others = torch.zeros(len(values), dtype=torch.float64).index_add_(0, position, 1 - labels.double())
    below = torch.cumsum(others, dim=0) - others
    pairs = clicks.sum() * others.sum()
    return float((clicks * (below + others / 2)).sum() / pairs) if pairs else float("nan")
