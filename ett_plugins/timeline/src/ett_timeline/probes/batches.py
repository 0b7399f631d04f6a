"""How many samples a batch holds, where no hook says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

log = logging.getLogger(__name__)

LARGEST_BATCH: Final = 2**31 - 1
"""A count above it is a mistake."""


def leading_dimension(batch: Any) -> int | None:
    """The leading dimension of the first tensor in a batch that has one; None if none has."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else None
    parts: Iterable[Any]
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, (list, tuple)):
        parts = batch
    elif is_dataclass(batch) and not isinstance(batch, type):
        parts = (getattr(batch, part.name) for part in fields(batch))
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
        loaders: What the batches come from: one loader, or loaders in lists, tuples and mappings; a batch has the same
            shape.
    """

    def __init__(self, loaders: Any = None) -> None:
        self._loaders = _shape(loaders)
        self._warned = False

    def __call__(self, batch: Any) -> int:
        """Samples in a batch; 1, with one warning, where nothing tells."""
        try:
            found = leading_dimension(batch) if self._loaders is None else _largest(self._loaders, batch)
        except Exception:  # noqa: BLE001  (a batch may be of any type, and answer as it likes)
            found = None
        if found is None and self._loaders is not None:
            # A transfer hook may have changed the batch's shape.
            with suppress(Exception):
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


def _shape(loaders: Any) -> Any:
    """The lists, tuples and mappings that loaders lie in, with None in the place of each loader."""
    if isinstance(loaders, Mapping):
        return {key: _shape(loader) for key, loader in loaders.items()}
    if isinstance(loaders, (list, tuple)):
        return [_shape(loader) for loader in loaders]
    return None


def _largest(loaders: Any, batch: Any) -> int | None:
    """The largest batch among those of several loaders; None if there is no tensor in any."""
    if batch is None:
        # This loader has ended before the others.
        return None
    if loaders is None:
        return leading_dimension(batch)
    keys = loaders if isinstance(loaders, Mapping) else range(len(loaders))
    return max((size for key in keys if (size := _largest(loaders[key], batch[key])) is not None), default=None)


def guarded(count: Callable[[Any], int]) -> Callable[[Any], int]:
    """A user's count that may raise or answer nonsense without harm: the leading dimension stands in."""
    fallback = LeadingDimension()
    warned = False

    def samples(batch: Any) -> int:
        nonlocal warned
        try:
            answer = int(count(batch))
            if 0 <= answer <= LARGEST_BATCH:
                return answer
            problem: object = f"it answered {answer:.3e}" if answer > LARGEST_BATCH else f"it answered {answer}"
        except Exception as error:  # noqa: BLE001  (a count is not worth a training)
            problem = error
        if not warned:
            warned = True
            log.warning(
                "ett_choose_batch_samples could not count a batch (%s); its first tensor counts instead", problem
            )
        return fallback(batch)

    return samples
