from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_record import LARGEST
from ett_timeline.saved import SavedPosition


@given(job_id=st.none() | st.text(), samples=st.integers(0, LARGEST), measured=st.booleans())
def test_what_a_checkpoint_carries_comes_back(job_id, samples, measured):
    saved = SavedPosition(job_id, samples, measured=measured)
    assert SavedPosition.from_state(saved.to_state()) == saved


def test_a_checkpoint_that_carries_nothing_belongs_to_no_job_and_begins_at_zero():
    assert SavedPosition.from_state({}) == SavedPosition(None, 0)


@pytest.mark.parametrize(
    ("state", "what"),
    [
        ({"job_id": "a", "samples": -1}, "its samples is -1"),
        ({"job_id": "a", "samples": True}, "its samples is True"),
        ({"job_id": "a", "samples": 2**62}, f"its samples is {2**62}"),
        ({"job_id": "a", "samples": None}, "its samples is None"),
        ({"job_id": 7, "samples": 1}, "its job_id is 7"),
    ],
)
def test_what_cannot_be_is_refused_and_named(state, what):
    with pytest.raises(ValueError, match=what):
        SavedPosition.from_state(state)
