"""A batch: plain tensors, so that it crosses processes and scripted models alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of one rank.

    Attributes:
        dense: Dense features, float32, shape (samples, dense features).
        values: Ids of all categorical features, int64, feature by feature and in each sample by sample.
        lengths: How many of them each sample has, int32, shape (features x samples,), feature by feature.
        labels: 1 for a click, else 0, float32, shape (samples,).
    """

    dense: Tensor
    values: Tensor
    lengths: Tensor
    labels: Tensor

    @property
    def samples(self) -> int:
        """How many samples it holds."""
        return int(self.labels.shape[0])

    def to(self, device: torch.device | str, **kwargs: Any) -> Batch:
        """The batch on a device; Lightning calls this."""
        return Batch(
            dense=self.dense.to(device, **kwargs),
            values=self.values.to(device, **kwargs),
            lengths=self.lengths.to(device, **kwargs),
            labels=self.labels.to(device, **kwargs),
        )

    def pin_memory(self) -> Batch:
        """The batch in pinned memory; the loader calls this where it copies to an accelerator."""
        return Batch(*(tensor.pin_memory() for tensor in (self.dense, self.values, self.lengths, self.labels)))


@dataclass(frozen=True, slots=True)
class Column:
    """One categorical feature of consecutive samples, as a jagged array.

    Attributes:
        values: Ids, int64, sample by sample.
        offsets: Where each sample's ids start, int64, shape (samples + 1,).
    """

    values: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of_single(cls, ids: npt.NDArray[np.int64]) -> Column:
        """A feature with exactly one id in each sample."""
        return cls(ids, np.arange(len(ids) + 1, dtype=np.int64))

    @classmethod
    def of_lists(cls, ids: list[list[int]]) -> Column:
        """A feature with any number of ids in each sample."""
        offsets = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum([len(some) for some in ids], out=offsets[1:])
        return cls(np.array([value for some in ids for value in some], dtype=np.int64), offsets)

    def take(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The ids of some samples, one after the other, and how many each of them has."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        # Counting from 0 inside each sample: a running count minus where the sample began in it.
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.values[np.repeat(starts, lengths) + within], lengths


def assemble(
    columns: list[Column], dense: npt.NDArray[np.float32], labels: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]
) -> Batch:
    """A batch of some samples out of arrays that hold more.

    Args:
        columns: The categorical features, in the order of the schema.
        dense: Dense features, shape (all samples, dense features).
        labels: Shape (all samples,).
        rows: Which samples, in the order wanted.
    """
    taken = [column.take(rows) for column in columns]
    return Batch(
        dense=torch.from_numpy(dense[rows]),
        values=torch.from_numpy(np.concatenate([values for values, _ in taken])),
        lengths=torch.from_numpy(np.concatenate([lengths for _, lengths in taken]).astype(np.int32)),
        labels=torch.from_numpy(labels[rows]),
    )
