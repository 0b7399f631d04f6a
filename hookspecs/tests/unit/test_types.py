from __future__ import annotations

import dataclasses

import pytest

from ett_hookspecs import DEFAULT_OWNERS, Attempt, Command, Figure, Span, Stage


def test_every_stage_but_training_has_an_owner():
    assert set(Stage) - set(DEFAULT_OWNERS) == {Stage.TRAINING}


def test_a_span_cannot_end_before_it_starts():
    with pytest.raises(ValueError, match="span 'work' ends 3 ns before it starts"):
        Span(name="work", stage=Stage.TRAINING, start_ns=5, end_ns=2, plugin="x")


def test_a_span_of_no_length_is_one():
    Span(name="work", stage=Stage.TRAINING, start_ns=5, end_ns=5, plugin="x")


@pytest.mark.parametrize("kind", [Span, Attempt, Command, Figure])
def test_what_crosses_a_hook_is_frozen(kind):
    assert kind.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(kind))
