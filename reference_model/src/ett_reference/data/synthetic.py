"""A seeded stream of made-up clicks: no files, any length, the same on every machine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from ett_reference.batch import Batch, Column, assemble
from ett_reference.presets import Preset
from ett_reference.schema import Feature, Schema

from .samples import DataSet

BLOCK: Final = 1024
"""Samples that are made together."""
TAGS: Final = 1000
"""Ids of the variable-length feature."""
MOST_TAGS: Final = 8
"""Tags in a sample: none to this many."""
DENSE: Final = 4
"""Dense features."""
TRAINED: Final = 10_000_000
"""Length of the stream; what lies behind it is held out."""
HELD_OUT: Final = 10_000
"""Held-out samples."""

_Block = tuple[list[Column], npt.NDArray[np.float32], npt.NDArray[np.float32]]


class SyntheticClicks:
    """Samples that are computed when they are asked for; each depends on the seed and its number alone.

    Ids follow Zipf's law; a click is likelier for some ids and dense values than for others, so that there is
    something to learn.

    Args:
        schema: Features; the last one has any number of ids in a sample, the others one.
        seed: Streams with different seeds differ.
        first: Number of the first sample in the stream.
        count: How many there are.
    """

    def __init__(self, schema: Schema, *, seed: int, first: int, count: int) -> None:
        self._schema = schema
        self._seed = seed
        self._first = first
        self._count = count
        # Two, because a batch that crosses a border needs both sides.
        self._block = functools.lru_cache(maxsize=2)(self._make_block)
        self._tendency = np.random.default_rng((seed, 1)).normal(0.0, 1.0, (len(schema.features), 64))

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        numbers = np.asarray(indices, dtype=np.int64) + self._first
        blocks = numbers // BLOCK
        parts = []
        # Runs of consecutive samples, so that their order is kept whatever it is.
        for run in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(blocks)) + 1):
            columns, dense, labels = self._block(int(blocks[run[0]]))
            parts.append(assemble(columns, dense, labels, numbers[run] % BLOCK))
        return parts[0] if len(parts) == 1 else _joined(parts, len(self._schema.features))

    def __getstate__(self) -> dict[str, object]:
        return {"schema": self._schema, "seed": self._seed, "first": self._first, "count": self._count}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state.pop("schema"), **state)  # type: ignore[misc]

    def _make_block(self, number: int) -> _Block:
        draw = np.random.default_rng((self._seed, 2, number))
        score = np.zeros(BLOCK)
        columns = []
        for position, feature in enumerate(self._schema.features):
            last = position == len(self._schema.features) - 1
            lengths = draw.integers(0, MOST_TAGS, BLOCK, endpoint=True) if last else np.ones(BLOCK, dtype=np.int64)
            # Zipf's law with exponent 1, by inversion: id k has probability log((k + 2) / (k + 1)) / log(rows + 1).
            ids = np.floor((feature.rows + 1.0) ** draw.random(int(lengths.sum()))).astype(np.int64) - 1
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            columns.append(Column(ids, offsets))
            pull = np.concatenate(([0.0], np.cumsum(self._tendency[position, ids % 64])))
            score += (pull[offsets[1:]] - pull[offsets[:-1]]) / np.maximum(lengths, 1)
        dense = draw.normal(0.0, 1.0, (BLOCK, self._schema.dense)).astype(np.float32)
        score += dense.sum(axis=1)
        labels = (draw.random(BLOCK) < 1 / (1 + np.exp(-score))).astype(np.float32)
        return columns, dense, labels


def synthetic(preset: Preset, *, seed: int) -> DataSet:
    """The synthetic stream of a preset.

    Args:
        preset: Says how many features, and of how many rows.
        seed: Of the stream.
    """
    # Sizes from the largest down to a tenth, as in real data sets, where they differ by orders of magnitude.
    sizes = np.geomspace(preset.synthetic_rows, preset.synthetic_rows / 10, preset.synthetic_features).astype(int)
    features = [Feature(f"f{number}", int(rows)) for number, rows in enumerate(sizes)]
    schema = Schema((*features, Feature("tags", TAGS)), dense=DENSE)
    return DataSet(
        schema=schema,
        train=SyntheticClicks(schema, seed=seed, first=0, count=TRAINED),
        held_out={"test": SyntheticClicks(schema, seed=seed, first=TRAINED, count=HELD_OUT)},
        shuffled=False,
        default_samples=100_000,
    )


def _joined(parts: list[Batch], features: int) -> Batch:
    # Values lie feature by feature in each part, and so must they in the whole.
    per_part = []
    for part in parts:
        lengths = part.lengths.view(features, -1)
        values = torch.split(part.values, lengths.sum(dim=1).tolist())
        per_part.append((values, lengths))
    return Batch(
        dense=torch.cat([part.dense for part in parts]),
        values=torch.cat([values[feature] for feature in range(features) for values, _ in per_part]),
        lengths=torch.cat([lengths for _, lengths in per_part], dim=1).flatten(),
        labels=torch.cat([part.labels for part in parts]),
    )
