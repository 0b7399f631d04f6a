from __future__ import annotations

import inspect

import pytest

from ett_hookspecs import specs
from ett_hookspecs.manager import EttManager
from ett_hookspecs.roles import OFFERING_HOOKS, is_participant
from ett_hookspecs.testing import hook_names


def test_the_manager_knows_every_spec_and_no_other_hook():
    assert sorted(vars(EttManager().hook)) == hook_names()


@pytest.mark.parametrize("name", hook_names())
def test_each_spec_is_either_an_observer_or_a_participant_and_says_so(name):
    spec = getattr(specs, name)
    role = "Participant" if is_participant(name) else "Observer"
    assert spec.__doc__.startswith(f"{role}: ")


@pytest.mark.parametrize("name", hook_names())
def test_observers_return_nothing_and_participants_something(name):
    returned = inspect.signature(getattr(specs, name)).return_annotation
    assert (returned in {"None", None}) is not is_participant(name)


@pytest.mark.parametrize("name", hook_names())
def test_where_one_is_chosen_or_requested_the_first_answer_wins(name):
    first_wins = getattr(EttManager().hook, name).spec.opts["firstresult"]
    assert first_wins is name.startswith(("ett_choose_", "ett_request_"))


@pytest.mark.parametrize("name", hook_names())
def test_each_spec_says_on_what_it_runs(name):
    assert "*Runs on*" in getattr(specs, name).__doc__


def test_what_installing_may_offer_exists_and_acts_in_no_training():
    assert set(hook_names()) >= OFFERING_HOOKS
    assert all(name.startswith("ett_register_") for name in OFFERING_HOOKS)
