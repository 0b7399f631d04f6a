"""How many samples a batch holds, where no hook says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

log = logging.getLogger(__name__)


def leading_dimension(batch: Any) -> int | None:
    """The leading dimension of the first tensor found in a batch; None if there is none."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else 1
    parts: Iterable[Any]
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, (list, tuple)):
        parts = batch
    elif hasattr(batch, "__dataclass_fields__"):
        parts = vars(batch).values()
    else:
        return None
    for part in parts:
        found = leading_dimension(part)
        if found is not None:
            return found
    return None


class LeadingDimension:
    """Counts the samples of a batch by its first tensor, or by the largest of a CombinedLoader's batches.

    Args:
        combined: Each part of a batch comes from a loader of its own.
    """

    def __init__(self, *, combined: bool) -> None:
        self._combined = combined
        self._warned = False

    def __call__(self, batch: Any) -> int:
        """Samples in a batch; 1, with one warning, where nothing tells."""
        if self._combined and isinstance(batch, (Mapping, list, tuple)):
            parts = batch.values() if isinstance(batch, Mapping) else batch
            sizes = [size for part in parts if (size := leading_dimension(part)) is not None]
            found = max(sizes, default=None)
        else:
            found = leading_dimension(batch)
        if found is None:
            if not self._warned:
                self._warned = True
                log.warning(
                    "nothing says how many samples a batch of type %s holds, so that every batch counts as 1: "
                    "implement ett_choose_batch_samples in the module",
                    type(batch).__name__,
                )
            return 1
        return found


def guarded(count: Callable[[Any], int]) -> Callable[[Any], int]:
    """A user's count that may raise or answer nonsense without harm: the leading dimension stands in."""
    fallback = LeadingDimension(combined=False)
    warned = False

    def samples(batch: Any) -> int:
        nonlocal warned
        try:
            answer = int(count(batch))
            if answer >= 0:
                return answer
            problem: object = f"it answered {answer}"
        except Exception as error:  # noqa: BLE001  (a count is not worth a training)
            problem = error
        if not warned:
            warned = True
            log.warning(
                "ett_choose_batch_samples could not count a batch (%s); its first tensor counts instead", problem
            )
        return fallback(batch)

    return samples
