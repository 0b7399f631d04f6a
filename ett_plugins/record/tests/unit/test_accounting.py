"""The accounting: intervals in, partition out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ett_record.accounting import Interval, Progress, own_time, split, sweep

TIMES = st.integers(-20, 120)
START, END = 0, 100


@st.composite
def intervals(draw, *, unlike: bool = False) -> list[Interval]:
    """Any claims at all: nested, crossing, equal, empty, outside the window."""
    return draw(
        st.lists(
            st.builds(
                lambda a, b, level: Interval(min(a, b), max(a, b), level),
                TIMES,
                TIMES,
                st.integers(0, 2),
            ),
            max_size=12,
            unique=unlike,
        )
    )


def winner(claims: list[Interval], instant: int) -> int:
    """The rule itself, an instant at a time."""
    there = [i for i, claim in enumerate(claims) if claim.start <= instant < claim.end]
    if not there:
        return -1
    return max(there, key=lambda i: (claims[i].level, claims[i].start, -claims[i].end, -i))


@given(intervals())
@settings(max_examples=500)
def test_every_instant_belongs_to_the_highest_level_and_there_to_the_innermost(claims):
    owners = [None] * (END - START)
    for start, end, claim in sweep(START, END, claims):
        owners[start:end] = [claim] * (end - start)
    assert owners == [winner(claims, instant) for instant in range(START, END)]


@given(intervals(), TIMES, TIMES)
def test_segments_touch_and_together_are_the_window(claims, a, b):
    start, end = min(a, b), max(a, b)
    now = start
    for segment in sweep(start, end, claims):
        assert segment.start == now
        assert segment.end > segment.start
        now = segment.end
    assert now == end


@given(intervals(), TIMES, TIMES)
def test_own_times_and_what_nobody_claims_sum_to_the_window(claims, a, b):
    start, end = min(a, b), max(a, b)
    owned, unclaimed = own_time(start, end, claims)
    assert len(owned) == len(claims)
    assert sum(owned) + unclaimed == end - start
    assert min([unclaimed, *owned]) >= 0
    for own, claim in zip(owned, claims, strict=True):
        assert own <= claim.end - claim.start


@given(intervals(unlike=True), st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_matter(claims, random):
    owned, unclaimed = own_time(START, END, claims)
    order = list(range(len(claims)))
    random.shuffle(order)
    shuffled, same = own_time(START, END, [claims[i] for i in order])
    assert same == unclaimed
    assert shuffled == [owned[i] for i in order]


@given(intervals(), st.lists(st.integers(0, 100), max_size=4))
def test_what_lies_outside_the_window_changes_nothing(claims, lengths):
    outside = [Interval(END, END + length) for length in lengths]
    outside += [Interval(START - length, START) for length in lengths]
    owned, unclaimed = own_time(START, END, claims)
    assert own_time(START, END, [*claims, *outside]) == (owned + [0] * len(outside), unclaimed)


@given(intervals())
def test_a_window_cut_in_two_holds_the_same(claims):
    whole, unclaimed = own_time(START, END, claims)
    left, unclaimed_left = own_time(START, 37, claims)
    right, unclaimed_right = own_time(37, END, claims)
    assert [a + b for a, b in zip(left, right, strict=True)] == whole
    assert unclaimed_left + unclaimed_right == unclaimed


def test_a_span_inside_a_step_inside_a_phase_takes_its_time_from_both():
    phase, step, span, inner = Interval(0, 100, 0), Interval(10, 60, 1), Interval(20, 50, 2), Interval(30, 35, 2)
    assert own_time(0, 120, [phase, step, span, inner]) == ([50, 20, 25, 5], 20)


def test_a_span_beats_a_step_that_started_after_it():
    assert own_time(0, 10, [Interval(0, 10, 2), Interval(4, 6, 1)]) == ([10, 0], 0)


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
