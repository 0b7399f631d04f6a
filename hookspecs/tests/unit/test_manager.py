from __future__ import annotations

import gc
import logging
import weakref
from types import SimpleNamespace

import pytest

from ett_hookspecs import EttManager, EttPluginError, Span, Stage, create_manager, hookimpl
from ett_hookspecs.guard import StandIn

SPAN = Span(name="work", stage=Stage.TRAINING, start_ns=0, end_ns=1, plugin="test")


class Failing:
    """Raises what it is given, and counts."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.asked = 0

    @hookimpl
    def ett_span_recorded(self, span):
        self.asked += 1
        raise self.error

    @hookimpl
    def ett_choose_stage_owner(self, span):
        self.asked += 1
        raise self.error


class Listening:
    def __init__(self) -> None:
        self.heard = []

    @hookimpl
    def ett_span_recorded(self, span):
        self.heard.append(span)


def test_an_observer_that_raises_is_logged_once_and_told_nothing_more(caplog):
    manager = EttManager(rank=3)
    failing, listening = Failing(RuntimeError("disk on fire")), Listening()
    manager.register(listening)
    manager.register(failing, "burning", provider="ett-burning 1.2.3")
    for _ in range(3):
        manager.hook.ett_span_recorded(span=SPAN)
    assert failing.asked == 1
    assert listening.heard == [SPAN] * 3
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "plugin 'burning' (ett-burning 1.2.3) failed in ett_span_recorded on rank 3" in record.getMessage()
    assert "disk on fire" in caplog.text
    assert "Traceback" in caplog.text


def test_an_observer_of_unknown_origin_is_named_by_its_class_and_package(caplog):
    manager = EttManager()
    manager.register(Failing(RuntimeError()))
    manager.hook.ett_span_recorded(span=SPAN)
    assert f"plugin '{__name__}.Failing' ({__name__.partition('.')[0]}, version unknown)" in caplog.text
    assert "on rank" not in caplog.text


def test_an_observer_from_an_installed_plugin_is_named_with_its_distribution(install, caplog):
    source = (
        "from ett_hookspecs import hookimpl\n"
        "class Recorder:\n"
        "    @hookimpl\n"
        "    def ett_span_recorded(self, span):\n"
        "        raise OSError('full')\n"
    )
    install("fake-lamp", version="2.5", plugins={"lamp": "fake_lamp.plugin"}, modules={"fake_lamp.plugin": source})
    from fake_lamp.plugin import Recorder

    manager = EttManager()
    manager.register(Recorder())
    manager.hook.ett_span_recorded(span=SPAN)
    assert "plugin 'fake_lamp.plugin.Recorder' (fake-lamp 2.5) failed" in caplog.text


def test_a_log_handler_that_raises_harms_nobody(monkeypatch):
    manager = EttManager()
    manager.register(Failing(RuntimeError()))

    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("the log is broken, too")

    handler = Broken()
    logging.getLogger("ett_hookspecs").addHandler(handler)
    try:
        manager.hook.ett_span_recorded(span=SPAN)
    finally:
        logging.getLogger("ett_hookspecs").removeHandler(handler)


def test_a_participant_that_raises_stops_the_run_and_is_named():
    manager = EttManager()
    error = KeyError("embedding")
    manager.register(Failing(error), "owner", provider="ett-owner 0.3")
    with pytest.raises(EttPluginError) as raised:
        manager.hook.ett_choose_stage_owner(span=SPAN)
    text = str(raised.value)
    assert "plugin 'owner' (ett-owner 0.3) could not answer ett_choose_stage_owner" in text
    assert "KeyError: 'embedding'" in text
    assert "ETT_DISABLE_PLUGINS=owner" in text
    assert "\n" not in text
    assert raised.value.__cause__ is error


def test_an_error_of_another_plugin_that_a_participant_asked_keeps_its_name():
    manager = EttManager()

    class Asking:
        @hookimpl
        def ett_choose_stage_owner(self, span):
            return manager.hook.ett_choose_batch_samples()

    class Culprit:
        @hookimpl
        def ett_choose_batch_samples(self):
            raise RuntimeError

    manager.register(Asking(), "asking")
    manager.register(Culprit(), "culprit")
    with pytest.raises(EttPluginError, match="plugin 'culprit'"):
        manager.hook.ett_choose_stage_owner(span=SPAN)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("hook", ["ett_span_recorded", "ett_choose_stage_owner"])
def test_ctrl_c_and_exit_always_pass(error, hook, caplog):
    manager = EttManager()
    failing = Failing(error)
    manager.register(failing)
    for _ in range(2):
        with pytest.raises(type(error)):
            getattr(manager.hook, hook)(span=SPAN)
    assert failing.asked == 2
    assert not caplog.records


def test_the_first_answer_that_is_not_none_is_chosen_and_the_others_are_not_asked():
    manager = EttManager()
    asked = []

    def owner(name, answer):
        @hookimpl
        def ett_choose_stage_owner():
            asked.append(name)
            return answer

        manager.register(SimpleNamespace(ett_choose_stage_owner=ett_choose_stage_owner), name)

    for name, answer in [("never", "x"), ("second", "data"), ("first", None)]:
        owner(name, answer)
    assert manager.hook.ett_choose_stage_owner(span=SPAN) == "data"
    assert asked == ["first", "second"]


def test_properties_of_what_is_registered_are_not_evaluated():
    class Trapped(Listening):
        @property
        def trainer(self):
            raise RuntimeError("not attached to a Trainer")

    manager = EttManager()
    trapped = Trapped()
    manager.register(trapped)
    manager.hook.ett_span_recorded(span=SPAN)
    assert trapped.heard == [SPAN]


@pytest.mark.parametrize("kind", ["wrapper", "hookwrapper"])
def test_hook_wrappers_are_refused(kind):
    class Wrapping:
        @hookimpl(**{kind: True})
        def ett_span_recorded(self, span):
            yield

    with pytest.raises(EttPluginError, match="ett_span_recorded is a hook wrapper, which ett does not have"):
        EttManager().register(Wrapping())


def test_a_misspelt_hook_is_refused_with_the_name_that_was_meant_and_nothing_stays_registered():
    class Misspelt(Listening):
        @hookimpl
        def ett_regster_commands(self): ...

    manager = EttManager()
    misspelt = Misspelt()
    with pytest.raises(EttPluginError, match="unknown hook 'ett_regster_commands', perhaps 'ett_register_commands'"):
        manager.register(misspelt)
    manager.hook.ett_span_recorded(span=SPAN)
    assert misspelt.heard == []
    assert not manager.is_registered(misspelt)
    manager.check_pending()


def test_an_unknown_hook_that_is_marked_optional_is_left_alone():
    class Optional:
        @hookimpl(optionalhook=True)
        def ett_future_thing_done(self, thing): ...

    manager = EttManager()
    manager.register(Optional())
    manager.check_pending()


def unknown_argument(span, colour): ...
def default_argument(span=None): ...
def variable_arguments(*args): ...
def keyword_arguments(**kwargs): ...
def keyword_only(*, span): ...


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (unknown_argument, "takes 'colour', which ett_span_recorded does not have .its arguments: span"),
        (default_argument, "gives 'span' a default, and would always get it"),
        (variable_arguments, "takes .args, which is never passed"),
        (keyword_arguments, "takes ..kwargs, which is never passed"),
        (keyword_only, "takes span, which is never passed"),
    ],
)
def test_arguments_that_would_never_arrive_are_refused(function, complaint):
    plugin = SimpleNamespace(ett_span_recorded=hookimpl(function))
    with pytest.raises(EttPluginError, match=complaint):
        EttManager().register(plugin)


def test_functions_that_yield_or_await_are_refused():
    @hookimpl
    def ett_register_commands():
        yield 1

    @hookimpl
    async def ett_span_recorded(span): ...

    for function in (ett_register_commands, ett_span_recorded):
        with pytest.raises(EttPluginError, match="yields or awaits: return the answer instead"):
            EttManager().register(SimpleNamespace(**{function.__name__: function}))


def test_a_plugin_is_known_by_what_was_registered_not_by_what_stands_in_for_it():
    manager = EttManager()
    plugin = Listening()
    name = manager.register(plugin)
    assert name == f"{__name__}.Listening"
    assert manager.get_name(plugin) == name
    assert manager.get_plugin(name) is plugin
    assert manager.has_plugin(name)
    assert manager.is_registered(plugin)
    assert manager.list_name_plugin() == [(name, plugin)]
    assert manager.get_plugins() == {plugin}
    assert [caller.name for caller in manager.get_hookcallers(plugin)] == ["ett_span_recorded"]
    assert not any(isinstance(known, StandIn) for known in manager.get_plugins())


def test_a_hook_can_be_called_without_some_plugins():
    manager = EttManager()
    one, two = Listening(), Listening()
    manager.register(one)
    manager.register(two)
    manager.subset_hook_caller("ett_span_recorded", [one])(span=SPAN)
    assert (one.heard, two.heard) == ([], [SPAN])


def test_a_plugin_may_implement_a_hook_twice():
    class Twice(Listening):
        @hookimpl(specname="ett_span_recorded")
        def again(self, span):
            self.heard.append(span)

    manager = EttManager()
    twice = Twice()
    manager.register(twice)
    manager.hook.ett_span_recorded(span=SPAN)
    assert twice.heard == [SPAN, SPAN]


def test_two_objects_of_one_class_get_names_of_their_own():
    manager = EttManager()
    names = [manager.register(Listening()) for _ in range(3)]
    assert len(set(names)) == 3


def test_registering_the_same_object_twice_is_an_error():
    manager = EttManager()
    plugin = Listening()
    manager.register(plugin)
    with pytest.raises(ValueError, match="registered already"):
        manager.register(plugin, "other")


@pytest.mark.parametrize("by", ["plugin", "name"])
def test_an_unregistered_plugin_hears_nothing(by):
    manager = EttManager()
    plugin = Listening()
    name = manager.register(plugin)
    assert manager.unregister(**{by: plugin if by == "plugin" else name}) is plugin
    manager.hook.ett_span_recorded(span=SPAN)
    assert plugin.heard == []
    assert manager.unregister(name=name) is None


def test_a_blocked_name_is_not_registered():
    manager = EttManager()
    manager.set_blocked("listener")
    plugin = Listening()
    assert manager.register(plugin, "listener") is None
    manager.hook.ett_span_recorded(span=SPAN)
    assert plugin.heard == []


def test_a_manager_that_nobody_holds_can_die():
    manager = EttManager()
    manager.register(Listening())
    manager.hook.ett_span_recorded(span=SPAN)
    gone = weakref.ref(manager)
    del manager
    gc.collect()
    assert gone() is None


def test_who_answered_what_can_be_told():
    manager = EttManager()
    for name, answer in (("b", ["x"]), ("a", None), ("c", ["y"])):
        plugin = SimpleNamespace(ett_register_commands=hookimpl(_answering(answer)))
        manager.register(plugin, name, provider=f"dist-{name} 1")
    answers = list(manager.ask_each("ett_register_commands"))
    assert answers == [("plugin 'c' (dist-c 1)", ["y"]), ("plugin 'b' (dist-b 1)", ["x"])]


def _answering(answer):
    def ett_register_commands():
        return answer

    return ett_register_commands


def test_a_manager_is_created_with_every_installed_plugin(install):
    source = "from ett_hookspecs import hookimpl\n@hookimpl\ndef ett_choose_stage_owner(span):\n    return 'somebody'\n"
    install("fake-owner", plugins={"owner": "fake_owner"}, modules={"fake_owner": source})
    manager = create_manager(rank=1)
    assert manager.rank == 1
    assert manager.hook.ett_choose_stage_owner(span=SPAN) == "somebody"
    assert "owner" in [plugin.name for plugin in manager.installed]
