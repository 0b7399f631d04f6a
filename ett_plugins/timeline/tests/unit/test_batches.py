"""How many samples a batch holds."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

from ett_timeline.probes.batches import LeadingDimension, guarded, leading_dimension

FIVE = torch.zeros(5, 3)
SEVEN = torch.zeros(7)


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclass
class Ratings:
    name: str
    users: torch.Tensor


@dataclass(slots=True)
class Slotted:
    users: torch.Tensor


@dataclass(frozen=True)
class Nothing:
    count: int = 3


class Unreadable:
    """Like a batch of a library that nobody here has heard of."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class Opaque(torch.Tensor):
    """A tensor that does not tell its shape."""

    @property
    def shape(self):
        raise RuntimeError("ragged")


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (FIVE, 5),
        (torch.zeros(0, 3), 0),
        ({"scale": torch.tensor(1.0), "x": FIVE}, 5),
        ([FIVE, SEVEN], 5),
        ((SEVEN, FIVE), 7),
        (Pair(FIVE, SEVEN), 5),
        ({"ids": SEVEN, "labels": FIVE}, 7),
        (OrderedDict(a="text", b=FIVE), 5),
        (UserDict({"ids": FIVE}), 5),
        ({"meta": {"source": "a"}, "inputs": [("x", FIVE)]}, 5),
        (Ratings("a", FIVE), 5),
        (Slotted(SEVEN), 7),
        ([[], {}, Nothing(), SEVEN], 7),
        (torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.tensor([1.0]), (6, 2)), 6),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else None,
)
def test_the_first_tensor_found_in_a_batch_says_how_many_samples_it_holds(batch, samples):
    assert leading_dimension(batch) == samples
    assert LeadingDimension()(batch) == samples


@pytest.mark.parametrize(
    "batch",
    [None, 3, "text", [], {}, ["a", {"b": 1}], Nothing(), Unreadable(), [Unreadable()], Opaque()],
    ids=lambda value: type(value).__name__,
)
def test_a_batch_without_a_tensor_counts_as_one_with_one_warning(batch, warned):
    count = LeadingDimension()
    assert [count(batch), count(batch), count(None)] == [1, 1, 1]
    (warning,) = warned()
    assert "implement ett_choose_batch_samples" in warning
    assert type(batch).__name__ in warning


@pytest.mark.parametrize(
    ("loaders", "batch", "samples"),
    [
        (["a", "b"], [FIVE, SEVEN], 7),
        (["a", "b"], (SEVEN, FIVE), 7),
        ({"a": "a", "b": "b"}, {"a": FIVE, "b": (SEVEN, FIVE)}, 7),
        ({"a": "a", "b": "b"}, {"a": None, "b": FIVE}, 5),
        ({"a": "a", "b": ["c", "d"]}, {"a": FIVE, "b": [FIVE, SEVEN]}, 7),
        (["a"], [FIVE], 5),
        ("a", [FIVE, SEVEN], 5),
    ],
)
def test_of_several_loaders_the_largest_batch_counts(loaders, batch, samples):
    """Though within the batch of one loader it is the first tensor: the rest may be offsets, or ragged."""
    assert LeadingDimension(loaders)(batch) == samples


def test_several_loaders_without_a_tensor_among_them_count_as_one(warned):
    assert LeadingDimension({"a": "a"})({"a": "text"}) == 1
    assert len(warned()) == 1


def test_an_answer_to_the_hook_counts():
    assert guarded(lambda batch: len(batch["ids"]))({"ids": range(9)}) == 9
    assert guarded(lambda batch: torch.tensor(4))(FIVE) == 4
    assert guarded(lambda batch: 0)(FIVE) == 0


def raises(batch):
    raise KeyError("ids")


@pytest.mark.parametrize("answer", [raises, lambda batch: -2, lambda batch: None, lambda batch: "many"])
def test_a_hook_that_raises_or_answers_nonsense_gives_way_to_the_first_tensor_with_one_warning(answer, warned):
    count = guarded(answer)
    assert [count(FIVE), count(SEVEN)] == [5, 7]
    (warning,) = warned()
    assert warning.startswith("ett_choose_batch_samples could not count a batch")


@pytest.mark.parametrize("exit_", [KeyboardInterrupt, SystemExit])
def test_a_count_may_be_interrupted(exit_):
    def interrupted(batch):
        raise exit_

    with pytest.raises(exit_):
        guarded(interrupted)(FIVE)


def test_a_batch_of_one_number_is_one_sample():
    assert leading_dimension(torch.tensor(1.0)) is None
    assert LeadingDimension()(torch.tensor(1.0)) == 1
