"""Publishing: int8, close to the original, and without a trace in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ett_reference.data.samples import DataSet
from ett_reference.data.sources import open_data
from ett_reference.network import RankingNetwork
from ett_reference.presets import PRESETS
from ett_reference.publish import DESCRIPTION_FILE, MODEL_FILE, TOLERANCE, Scorer, publish, restore, table_dtype
from ett_reference.shards import digest


@pytest.fixture(scope="module")
def data() -> DataSet:
    return open_data("synthetic", None, PRESETS["small"], seed=1)


def network(data: DataSet, preset: str = "small") -> RankingNetwork:
    torch.manual_seed(1)
    made = RankingNetwork(data.schema, PRESETS[preset])
    with torch.no_grad():
        # As large as trained ones: fresh weights are so small that nothing could go wrong.
        for parameter in made.sparse.parameters():
            parameter.normal_(0, 0.3)
    return made


@pytest.mark.parametrize("preset", ["small", "wide"])
def test_a_published_model_has_int8_tables_and_answers_as_the_trained_one(
    data: DataSet, tmp_path: Path, preset: str
) -> None:
    scorer = restore(data.schema, PRESETS[preset], network(data, preset).state_dict())
    publication = publish(scorer, tmp_path / "published", data.held_out["test"].__getitems__(range(512)))
    assert publication.table_dtype == "int8"
    assert 0 < publication.max_abs_error <= TOLERANCE
    loaded = torch.jit.load(tmp_path / "published" / MODEL_FILE)
    assert table_dtype(loaded) == "int8"
    for size in (1, 7):
        batch = data.held_out["test"].__getitems__(range(size))
        answer = loaded(batch.dense, batch.values, batch.lengths)
        assert not answer.requires_grad
        expected = scorer(batch.dense, batch.values, batch.lengths)
        assert answer.shape == (size,)
        assert torch.allclose(answer, expected, atol=TOLERANCE)
    tables = sum(parameter.numel() for parameter in scorer.network.sparse.parameters())
    assert publication.size_bytes < 2 * tables + 4 * sum(p.numel() for p in scorer.network.dense.parameters()) + 200_000
    description = json.loads((tmp_path / "published" / DESCRIPTION_FILE).read_text())
    assert description["table_dtype"] == "int8"
    assert [entry.name for entry in tmp_path.iterdir()] == ["published"]


def test_the_model_it_was_made_of_stays_bitwise_the_same(data: DataSet, tmp_path: Path) -> None:
    """B17: the published tables are int8, the live ones untouched."""
    live = network(data)
    before = digest(live.state_dict())
    publish(Scorer(live).eval(), tmp_path / "published", data.held_out["test"].__getitems__(range(64)))
    assert digest(live.state_dict()) == before
    assert {parameter.dtype for parameter in live.parameters()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in live.parameters())


def test_a_model_that_answers_otherwise_is_not_published_and_the_older_one_stays(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = restore(data.schema, PRESETS["small"], network(data).state_dict())
    sample = data.held_out["test"].__getitems__(range(64))
    publish(scorer, tmp_path / "published", sample)
    before = (tmp_path / "published" / MODEL_FILE).read_bytes()
    monkeypatch.setattr("ett_reference.publish.TOLERANCE", 0.0)
    with pytest.raises(ValueError, match="is off by"):
        publish(scorer, tmp_path / "published", sample)
    assert (tmp_path / "published" / MODEL_FILE).read_bytes() == before
