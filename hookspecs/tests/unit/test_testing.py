from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from ett_hookspecs import Span, Stage
from ett_hookspecs.testing import PluginContractSuite, hook_names, observer_hooks, recording_manager

GOOD = """
from ett_hookspecs import Command, hookimpl
ETT_CONTRACT = (1, 0)

@hookimpl
def ett_register_commands():
    return [Command(name="good", help="Do good.", target="fake_good.commands:good")]
"""
COMMANDS = """
import click

@click.group()
def good():
    "Do good."

@good.command()
def more():
    "Do more good."
"""
TESTS = [name for name in vars(PluginContractSuite) if name.startswith("test_")]


def suite(module="fake_good.plugin", distribution="fake-good"):
    return type("Suite", (PluginContractSuite,), {"plugin_module": module, "distribution": distribution})()


@pytest.fixture
def installed(install):
    def installed(plugin=GOOD, commands=COMMANDS, entry="fake_good.plugin"):
        install(
            "fake-good",
            plugins={"good": entry},
            modules={"fake_good.plugin": plugin, "fake_good.commands": commands},
        )
        return suite()

    return installed


@pytest.mark.parametrize("test", TESTS)
def test_a_good_plugin_passes(installed, test):
    getattr(installed(), test)()


@pytest.mark.parametrize("test", TESTS)
def test_the_module_itself_may_be_given(installed, test):
    installed()
    import fake_good.plugin

    assert isinstance(fake_good.plugin, ModuleType)
    getattr(suite(fake_good.plugin), test)()


@pytest.mark.parametrize(
    ("test", "change", "complaint"),
    [
        ("test_its_entry_point_is_its_module", {"entry": "fake_good.other"}, "fake_good.other"),
        (
            "test_it_registers_and_leaves_no_hook_pending",
            {"plugin": GOOD + "@hookimpl\ndef ett_registr_commands(): ...\n"},
            "unknown hook",
        ),
        (
            "test_its_signatures_are_subsets_of_the_specs",
            {"plugin": GOOD + "@hookimpl(specname='ett_span_recorded')\ndef mine(span, more): ...\n"},
            "takes .'span', 'more'.",
        ),
        (
            "test_it_was_built_for_this_contract",
            {"plugin": GOOD.replace("(1, 0)", "(2, 0)")},
            "built for contract 2.0",
        ),
        ("test_it_was_built_for_this_contract", {"plugin": GOOD.replace("(1, 0)", "(1, 9)")}, "contract 1.9"),
        (
            "test_installing_it_changes_nothing_in_a_training",
            {"plugin": GOOD + "@hookimpl\ndef ett_span_recorded(span): ...\n"},
            "implements .'ett_span_recorded'.: register them from a callback",
        ),
        (
            "test_finding_it_imports_neither_torch_nor_lightning",
            {"plugin": GOOD + "import sys; sys.modules['torch'] = sys\n"},
            "imports .'torch'.",
        ),
        (
            "test_its_commands_can_be_loaded_and_explain_themselves",
            {"commands": COMMANDS.replace('"Do more good."', "...")},
            "good more has no help",
        ),
        (
            "test_its_commands_can_be_loaded_and_explain_themselves",
            {"plugin": GOOD.replace("Do good.", " ")},
            "good has no line",
        ),
        (
            "test_its_commands_can_be_loaded_and_explain_themselves",
            {"commands": "good = print\n"},
            "is no click command",
        ),
        ("test_it_imports_no_other_plugin", {"commands": "import fake_other\n" + COMMANDS}, "imports .'fake_other'."),
    ],
)
def test_a_bad_plugin_fails(installed, install, test, change, complaint):
    install("fake-other", plugins={"other": "fake_other"}, modules={"fake_other": ""})
    with pytest.raises(Exception, match=complaint):
        getattr(installed(**change), test)()


def test_every_test_of_the_suite_says_why():
    assert all(inspect.getdoc(getattr(PluginContractSuite, test)) for test in TESTS)


def test_a_recording_manager_keeps_what_observers_are_told_in_order_and_once():
    manager = recording_manager(rank=2)
    spans = [Span(name=name, stage=Stage.TRAINING, start_ns=0, end_ns=1, plugin="x") for name in "ab"]
    with manager.deliver_later():
        for span in spans:
            manager.hook.ett_span_recorded(span=span)
    assert manager.rank == 2
    assert manager.calls == [("ett_span_recorded", {"span": span}) for span in spans]
    assert manager.told("ett_span_recorded") == [{"span": span} for span in spans]
    assert manager.told("ett_attempt_started") == []


def test_the_hooks_are_known_by_name():
    assert set(observer_hooks()) < set(hook_names())
