"""The made-up stream."""

from __future__ import annotations

import pickle

import numpy as np
import torch

from ett_reference.data.synthetic import BLOCK, synthetic
from ett_reference.presets import PRESETS


def test_a_sample_depends_on_the_seed_and_its_number_alone() -> None:
    train = synthetic(PRESETS["small"], seed=1).train
    rows = [BLOCK - 1, BLOCK, 3, 5 * BLOCK]
    together = train.__getitems__(rows)
    alone = [synthetic(PRESETS["small"], seed=1).train.__getitems__([row]) for row in rows]
    assert torch.equal(together.dense, torch.cat([batch.dense for batch in alone]))
    assert torch.equal(together.labels, torch.cat([batch.labels for batch in alone]))
    features = len(alone[0].lengths)
    assert torch.equal(together.lengths.view(features, -1), torch.stack([batch.lengths for batch in alone], dim=1))
    per_feature = [[batch.values.split(batch.lengths.tolist())[n] for batch in alone] for n in range(features)]
    assert torch.equal(together.values, torch.cat([part for parts in per_feature for part in parts]))


def test_another_seed_is_another_stream_and_a_copy_the_same() -> None:
    one, other = (synthetic(PRESETS["small"], seed=seed).train for seed in (1, 2))
    assert not torch.equal(one.__getitems__([0]).dense, other.__getitems__([0]).dense)
    assert torch.equal(pickle.loads(pickle.dumps(one)).__getitems__([7]).values, one.__getitems__([7]).values)


def test_ids_fit_their_tables_few_are_frequent_and_the_last_feature_varies_in_length() -> None:
    data = synthetic(PRESETS["wide"], seed=1)
    batch = data.train.__getitems__(range(4 * BLOCK))
    lengths = batch.lengths.view(len(data.schema.features), -1)
    for feature, ids in zip(data.schema.features, batch.values.split(lengths.sum(dim=1).tolist()), strict=True):
        assert 0 <= int(ids.min()) <= int(ids.max()) < feature.rows
    first = batch.values[: 4 * BLOCK].numpy()
    assert np.mean(first < 10) > 0.1
    assert lengths[-1].unique().tolist() == list(range(9))
    assert 0.3 < float(batch.labels.mean()) < 0.7
