"""The area under the curve."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ett_reference.auc import area_under_curve


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30))
def test_it_is_the_share_of_pairs_in_the_right_order(scored: list[tuple[int, bool]]) -> None:
    clicks = [score for score, label in scored if label]
    others = [score for score, label in scored if not label]
    area = area_under_curve(
        torch.tensor([float(score) for score, _ in scored]), torch.tensor([float(label) for _, label in scored])
    )
    if not clicks or not others:
        assert math.isnan(area)
    else:
        right = sum((click > other) + (click == other) / 2 for click in clicks for other in others)
        assert area == pytest.approx(right / (len(clicks) * len(others)))
