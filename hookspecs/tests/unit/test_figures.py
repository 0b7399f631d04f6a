from __future__ import annotations

import pytest

from ett_hookspecs import EttManager, EttPluginError, Figure, hookimpl, offered_figures


def figure(name):
    return Figure(name=name, title=name.title(), description="Read it from left to right.", draw=lambda report: None)


class Offering:
    def __init__(self, answer):
        self.answer = answer

    @hookimpl
    def ett_register_figures(self):
        return self.answer


def offering(*answers):
    """A manager with a plugin for each answer."""
    manager = EttManager()
    for number, answer in reversed(list(enumerate(answers))):
        manager.register(Offering(answer), f"plugin-{number}")
    return manager


def test_all_answers_count_in_the_order_of_the_plugins():
    manager = offering([figure("life")], (), [figure("waterfall"), figure("rolling")])
    assert [offered.name for offered in offered_figures(manager)] == ["life", "waterfall", "rolling"]


def test_without_plugins_there_are_no_figures():
    assert offered_figures(EttManager()) == ()


def test_a_name_offered_twice_is_refused_naming_both():
    manager = offering([figure("life")], [figure("life")])
    with pytest.raises(
        EttPluginError, match=r"'life' is offered by .*plugin-0.* and by .*plugin-1.*ETT_DISABLE_PLUGINS"
    ):
        offered_figures(manager)


@pytest.mark.parametrize("answer", ["life", [None], 3, figure("life")])
def test_what_is_no_sequence_of_figures_is_refused_naming_the_plugin(answer):
    with pytest.raises(EttPluginError, match=r"plugin-0.* answered ett_register_figures with .* no list of Figures"):
        offered_figures(offering(answer))


@pytest.mark.parametrize("name", ["", "Life", "a life", "life/1", "<b>", "life\n"])
def test_a_name_is_a_slug_so_that_it_can_be_a_key_an_anchor_and_a_file(name):
    with pytest.raises(ValueError, match="lower-case letters, digits, - and _"):
        figure(name)
