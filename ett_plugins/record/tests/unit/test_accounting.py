"""The accounting: intervals in, partition out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_record.accounting import Interval, Layer, Progress, own_times, split, sweep

TIMES = st.integers(-20, 120)
START, END = 0, 100


@st.composite
def layers(draw, *, unlike: bool = False) -> list[Layer]:
    """Any claims at all in three layers: nested, crossing, equal, empty, outside the window."""
    claims = st.lists(st.tuples(TIMES, TIMES).map(sorted).map(tuple), max_size=6, unique=unlike)
    return [Layer([a for a, _ in layer], [b for _, b in layer]) for layer in draw(st.tuples(claims, claims, claims))]


def winner(stack: list[Layer], instant: int) -> tuple[int, int] | None:
    """The rule itself, an instant at a time: which claim of which layer."""
    there = [
        (level, start, -end, -claim)
        for level, layer in enumerate(stack)
        for claim, (start, end) in enumerate(zip(*layer, strict=True))
        if start <= instant < end
    ]
    level, _, _, claim = max(there, default=(-1, 0, 0, 0))
    return (level, -claim) if there else None


@given(layers())
@settings(max_examples=500)
def test_every_instant_belongs_to_the_highest_layer_and_there_to_the_innermost(stack):
    won = Counter(winner(stack, instant) for instant in range(START, END))
    owned, unclaimed = own_times(START, END, stack)
    assert unclaimed == won[None]
    assert owned == [[won[level, claim] for claim in range(len(layer.starts))] for level, layer in enumerate(stack)]


@given(layers(), TIMES, TIMES)
def test_segments_touch_and_together_are_the_window(stack, a, b):
    start, end = min(a, b), max(a, b)
    now = start
    for segment in sweep(start, end, [Interval(*claim) for layer in stack for claim in zip(*layer, strict=True)]):
        assert segment.start == now
        assert segment.end > segment.start
        now = segment.end
    assert now == end


@given(layers(), TIMES, TIMES)
def test_own_times_and_what_nobody_claims_sum_to_the_window(stack, a, b):
    start, end = min(a, b), max(a, b)
    owned, unclaimed = own_times(start, end, stack)
    assert sum(map(sum, owned)) + unclaimed == end - start
    assert unclaimed >= 0
    for own, layer in zip(owned, stack, strict=True):
        assert all(0 <= mine <= b - a for mine, a, b in zip(own, *layer, strict=True))


@given(layers(unlike=True), st.randoms(use_true_random=False))
def test_the_order_of_the_claims_of_a_layer_does_not_matter(stack, random):
    owned, unclaimed = own_times(START, END, stack)
    orders = [random.sample(range(len(layer.starts)), len(layer.starts)) for layer in stack]
    mixed = [
        Layer([layer.starts[i] for i in order], [layer.ends[i] for i in order])
        for layer, order in zip(stack, orders, strict=True)
    ]
    assert own_times(START, END, mixed) == (
        [[own[i] for i in order] for own, order in zip(owned, orders, strict=True)],
        unclaimed,
    )


@given(layers(), st.lists(st.integers(0, 100), max_size=4))
def test_what_lies_outside_the_window_changes_nothing(stack, lengths):
    owned, unclaimed = own_times(START, END, stack)
    for layer in stack:
        layer.starts.extend([END] * len(lengths) + [START - length for length in lengths])
        layer.ends.extend([END + length for length in lengths] + [START] * len(lengths))
    assert own_times(START, END, stack) == ([own + [0] * 2 * len(lengths) for own in owned], unclaimed)


@given(layers())
def test_a_window_cut_in_two_holds_the_same(stack):
    whole, unclaimed = own_times(START, END, stack)
    left, unclaimed_left = own_times(START, 37, stack)
    right, unclaimed_right = own_times(37, END, stack)
    assert [[a + b for a, b in zip(*both, strict=True)] for both in zip(left, right, strict=True)] == whole
    assert unclaimed_left + unclaimed_right == unclaimed


def test_a_span_inside_a_step_inside_a_phase_takes_its_time_from_both():
    phase, step, spans = Layer([0], [100]), Layer([10], [60]), Layer([20, 30], [50, 35])
    assert own_times(0, 120, [phase, step, spans]) == ([[50], [20], [25, 5]], 20)


def test_a_span_beats_a_step_that_started_after_it():
    assert own_times(0, 10, [Layer([4], [6]), Layer([0], [10])]) == ([[0], [10]], 0)


@given(st.integers(0, 50), st.lists(st.integers(0, 30), max_size=20))
def test_progress_counts_each_sample_once_as_new(reached, batches):
    progress = Progress(reached)
    position = repeated = 0
    for batch in batches:
        repeated += progress.advance(position, position + batch)
        position += batch
    assert repeated == min(reached, position)
    assert progress.high_water == max(reached, position)


@given(st.integers(0, 10**15), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_split_loses_nothing_and_keeps_the_ratio(total, a, b):
    part, rest = split(total, a, a + b)
    assert part + rest == total
    assert part >= 0
    assert rest >= 0
    if a + b:
        assert part == pytest.approx(total * a / (a + b), abs=1)
