"""State that is taken apart, put back, and summed up."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ett_reference.shards import digest, put_back, take_apart, whole


def state() -> dict[str, Any]:
    return {"a": torch.arange(4.0), "b": {"c": torch.tensor(1.5), "n": 3}}


def test_what_is_put_back_lands_in_the_live_tensors() -> None:
    live, saved = state(), state()
    tensor = live["a"]
    tensor.zero_()
    live["b"]["c"].zero_()
    put_back(live, saved)
    assert tensor.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert digest(live) == digest(saved)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="missing in the checkpoint: \\['b'\\]"):
        put_back(state(), {"a": torch.zeros(4)})
    with pytest.raises(ValueError, match="a has shape"):
        put_back(state(), {**state(), "a": torch.zeros(5)})


def test_a_digest_sees_a_single_bit() -> None:
    other = state()
    other["a"].view(torch.int32)[2] += 1
    assert digest(other) != digest(state())
    renamed = state()
    renamed["z"] = renamed.pop("a")
    assert digest(renamed) != digest(state())


def test_without_shards_taking_apart_copies_nothing_and_the_whole_is_a_copy() -> None:
    live = state()
    assert take_apart(live)["a"] is live["a"]
    full = whole({"a": live["a"]})
    assert full is not None
    full["a"].zero_()
    assert live["a"].sum() == 6.0
