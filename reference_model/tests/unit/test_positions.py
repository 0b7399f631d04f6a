"""A loader that was interrupted anywhere goes on with exactly the batches it had not given yet."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from ett_reference.batch import Batch
from ett_reference.data.loader import load
from ett_reference.data.order import EndlessOrder
from ett_reference.data.samples import DataSet
from ett_reference.data.sources import open_data
from ett_reference.presets import PRESETS


def flat(batch: Batch) -> tuple[bytes, ...]:
    return tuple(tensor.numpy().tobytes() for tensor in (batch.dense, batch.values, batch.lengths, batch.labels))


@pytest.fixture(scope="module", params=["movielens", "synthetic", "criteo"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    folder: Path | None = None
    if request.param == "criteo":
        folder = tmp_path_factory.mktemp("criteo")
        for day in range(2):
            fields = ("\t".join(["1", *(str(line + day) for _ in range(13)), *["ab"] * 26]) for line in range(450))
            (folder / f"day_{day}").write_text("\n".join(fields) + "\n")
    return open_data(request.param, folder, PRESETS["small"], seed=3)


def loader(data: DataSet, workers: int, rank: int = 0, ranks: int = 1) -> Any:
    # 40 batches to a pass, where a pass ends at all: two of the cuts lie around its end.
    batch_size = min(len(data.train) // 40, 2000)
    order = EndlessOrder(len(data.train), batch_size=batch_size, rank=rank, ranks=ranks, seed=3, shuffled=data.shuffled)
    return load(data.train, order, workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cut", [1, 4, 5, 6, 39, 40, 41])
def test_what_remains_after_a_cut_is_what_was_not_given(data: DataSet, workers: int, cut: int) -> None:
    whole = [flat(batch) for batch in itertools.islice(loader(data, 0), cut + 4)]
    interrupted = loader(data, workers)
    given = [flat(batch) for batch in itertools.islice(iter(interrupted), cut)]
    state = interrupted.state_dict()
    resumed = loader(data, workers)
    resumed.load_state_dict(state)
    assert given == whole[:cut]
    assert [flat(batch) for batch in itertools.islice(iter(resumed), 4)] == whole[cut:]


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_share_the_samples_and_each_goes_on_with_its_own(data: DataSet, workers: int) -> None:
    for rank in range(2):
        interrupted = loader(data, workers, rank=rank, ranks=2)
        iterator = iter(interrupted)
        for _ in range(2):
            next(iterator)
        resumed = loader(data, workers, rank=rank, ranks=2)
        resumed.load_state_dict(interrupted.state_dict())
        assert flat(next(iter(resumed))) == flat(next(iterator))
    together = [next(iter(loader(data, 0, rank=rank, ranks=2))) for rank in range(2)]
    assert flat(together[0]) != flat(together[1])


def test_a_loader_draws_nothing_from_the_generators_of_the_training(data: DataSet) -> None:
    before = torch.get_rng_state()
    next(iter(loader(data, 0)))
    assert torch.equal(torch.get_rng_state(), before)
