"""The order of the samples: what a position means."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_reference.data.order import EndlessOrder, OnePass


def steps_of(order: EndlessOrder, count: int) -> list[list[int]]:
    return list(itertools.islice(iter(order), count))


@given(
    batch_size=st.integers(1, 7),
    ranks=st.integers(1, 3),
    seed=st.integers(0, 5),
    shuffled=st.booleans(),
    cut=st.integers(0, 60),
)
def test_an_order_goes_on_from_any_position_as_if_never_interrupted(
    batch_size: int, ranks: int, seed: int, shuffled: bool, cut: int
) -> None:
    for rank in range(ranks):
        order = EndlessOrder(50, batch_size=batch_size, rank=rank, ranks=ranks, seed=seed, shuffled=shuffled)
        whole = steps_of(order, cut + 20)
        interrupted = iter(order)
        for _ in range(cut):
            next(interrupted)
        resumed = iter(order)
        resumed.load_state_dict(interrupted.state_dict())
        assert [next(resumed) for _ in range(20)] == whole[cut:]


@given(batch_size=st.integers(1, 7), ranks=st.integers(1, 3), shuffled=st.booleans())
def test_a_pass_gives_each_sample_to_one_rank_at_most_and_every_batch_is_full(
    batch_size: int, ranks: int, shuffled: bool
) -> None:
    orders = [
        EndlessOrder(50, batch_size=batch_size, rank=rank, ranks=ranks, shuffled=shuffled) for rank in range(ranks)
    ]
    steps = orders[0].steps_per_pass
    batches = [batch for order in orders for batch in steps_of(order, steps)]
    assert {len(batch) for batch in batches} == {batch_size}
    seen = [index for batch in batches for index in batch]
    assert len(seen) == len(set(seen)) == 50 // (batch_size * ranks) * batch_size * ranks


def test_each_pass_is_shuffled_by_itself_and_each_seed_too() -> None:
    order = EndlessOrder(64, batch_size=64, seed=1)
    first, second = steps_of(order, 2)
    assert sorted(first) == sorted(second) == list(range(64))
    assert first != second
    assert steps_of(EndlessOrder(64, batch_size=64, seed=2), 1) != [first]


def test_a_stream_keeps_its_order() -> None:
    assert steps_of(EndlessOrder(7, batch_size=2, shuffled=False), 4) == [[0, 1], [2, 3], [4, 5], [0, 1]]


def test_the_position_counts_the_samples_of_all_ranks() -> None:
    iterator = iter(EndlessOrder(50, batch_size=4, rank=1, ranks=3))
    next(iterator)
    next(iterator)
    assert iterator.state_dict()["samples"] == 24


@pytest.mark.parametrize(("key", "value"), [("of", 51), ("batch_size", 5), ("ranks", 2), ("seed", 9)])
def test_a_position_of_another_order_is_refused(key: str, value: int) -> None:
    iterator = iter(EndlessOrder(50, batch_size=4))
    with pytest.raises(ValueError, match=f"'{key}': {value}"):
        iterator.load_state_dict({**iterator.state_dict(), key: value})


def test_too_few_samples_for_one_batch_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="smaller --batch-size"):
        EndlessOrder(7, batch_size=4, ranks=2)


@given(samples=st.integers(1, 40), batch_size=st.integers(1, 7), ranks=st.integers(1, 4))
def test_an_evaluation_sees_each_sample_once_in_as_many_batches_on_every_rank(
    samples: int, batch_size: int, ranks: int
) -> None:
    orders = [OnePass(samples, batch_size=batch_size, rank=rank, ranks=ranks) for rank in range(ranks)]
    own = [[index for batch in order for index in batch][: order.own] for order in orders]
    assert sorted(index for indices in own for index in indices) == list(range(samples))
    shapes = {tuple(len(batch) for batch in order) for order in orders}
    assert len(shapes) == 1
    assert {len(order) for order in orders} == {len(shapes.pop())}
