from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_hookspecs import SamplePosition

BATCHES = st.lists(st.integers(min_value=0, max_value=10_000), max_size=50)


def train(position, batches):
    for processed, samples in enumerate(batches):
        position.start_batch(samples, processed)
        position.end_batch()


@given(start=st.integers(min_value=0, max_value=10**12), batches=BATCHES, replicas=st.integers(1, 64))
def test_the_position_is_the_start_plus_every_sample_of_every_replica(start, batches, replicas):
    position = SamplePosition(start, replicas=replicas)
    train(position, batches)
    assert position.samples == start + replicas * sum(batches)


@given(batches=BATCHES, last=st.integers(0, 10_000), replicas=st.integers(1, 64))
def test_in_a_batch_it_follows_the_trainers_own_count(batches, last, replicas):
    position = SamplePosition(replicas=replicas)
    train(position, batches)
    before = position.samples
    position.start_batch(last, processed=len(batches))
    assert position.at(processed=len(batches)) == before
    assert position.at(processed=len(batches) + 1) == before + last * replicas
    assert position.samples == before
    assert position.end_batch() == before + last * replicas
    assert position.at(processed=len(batches) + 1) == position.samples


@given(batches=BATCHES.filter(bool), start=st.integers(0, 10**12))
def test_it_does_not_matter_when_it_is_asked(batches, start):
    asked, unasked = SamplePosition(start), SamplePosition(start)
    for processed, samples in enumerate(batches):
        asked.start_batch(samples, processed)
        asked.at(processed)
        asked.at(processed + 1)
        asked.end_batch()
    train(unasked, batches)
    assert asked.samples == unasked.samples


@given(batches=BATCHES, samples=st.integers(0, 10**12))
def test_moving_forgets_the_batch_in_flight(batches, samples):
    position = SamplePosition()
    train(position, batches)
    position.start_batch(7, processed=len(batches))
    position.move_to(samples)
    assert position.at(processed=len(batches) + 1) == samples
    assert position.end_batch() == samples


def test_a_batch_that_is_started_again_counts_once():
    position = SamplePosition()
    position.start_batch(4, processed=0)
    position.start_batch(6, processed=0)
    assert position.end_batch() == 6


def test_ending_without_a_batch_moves_nothing():
    position = SamplePosition(5)
    assert position.end_batch() == 5


def test_a_batch_whose_size_is_known_late_counts_what_it_held():
    position = SamplePosition(replicas=2)
    position.start_batch(0, processed=0)
    position.resize_batch(3)
    assert position.at(processed=1) == 6
    assert position.end_batch() == 6


def test_it_says_whether_a_batch_is_in_flight_and_whether_that_was_trained():
    position = SamplePosition()
    assert not position.in_batch
    assert not position.was_trained(processed=1)
    position.start_batch(4, processed=7)
    assert position.in_batch
    assert (position.was_trained(processed=7), position.was_trained(processed=8)) == (False, True)
    position.drop_batch()
    assert not position.in_batch
    assert not position.was_trained(processed=8)
    assert position.end_batch() == 0


def test_there_is_no_position_below_zero():
    with pytest.raises(ValueError, match="counts samples from 0, not -1"):
        SamplePosition().move_to(-1)
