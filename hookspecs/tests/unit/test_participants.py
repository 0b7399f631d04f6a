from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest

from ett_hookspecs import EttManager, EttPluginError, Span, Stage, hookimpl

SPAN = Span(name="work", stage=Stage.TRAINING, start_ns=0, end_ns=1, plugin="test")


class Model:
    """As a LightningModule: some of its properties raise while it has no Trainer."""

    def __init__(self, owner="model"):
        self.owner = owner

    @property
    def trainer(self):
        raise RuntimeError("not attached to a Trainer")

    def __getattr__(self, name):
        raise AttributeError(name)

    @hookimpl
    def ett_choose_stage_owner(self, span):
        return self.owner


class Plugin:
    @hookimpl
    def ett_choose_stage_owner(self, span):
        return "plugin"


class EagerPlugin:
    @hookimpl(tryfirst=True)
    def ett_choose_stage_owner(self, span):
        return "eager plugin"


def owner(manager):
    return manager.hook.ett_choose_stage_owner(span=SPAN)


@pytest.mark.parametrize("model_last", [True, False])
@pytest.mark.parametrize("plugin", [Plugin, EagerPlugin])
def test_a_model_is_asked_before_every_plugin(plugin, model_last):
    manager = EttManager()
    model = Model()
    steps = [lambda: manager.register(plugin()), lambda: manager.register_participant(model)]
    for step in steps if model_last else reversed(steps):
        step()
    assert owner(manager) == "model"


def test_even_a_model_that_wishes_to_be_asked_last_is_asked_first():
    class Modest(Model):
        @hookimpl(trylast=True)
        def ett_choose_stage_owner(self, span):
            return "modest"

    manager = EttManager()
    model = Modest()
    manager.register_participant(model)
    manager.register(EagerPlugin())
    assert owner(manager) == "modest"


def test_the_participant_that_came_last_wins_also_after_an_eager_plugin():
    manager = EttManager()
    data, model = Model("data"), Model("model")
    manager.register_participant(data)
    manager.register_participant(model)
    manager.register(EagerPlugin())
    assert owner(manager) == "model"
    manager.unregister_participant(model)
    assert owner(manager) == "data"


def test_a_model_that_answers_none_leaves_it_to_the_plugins():
    manager = EttManager()
    model = Model(None)
    manager.register(Plugin())
    manager.register_participant(model)
    assert owner(manager) == "plugin"


def test_a_model_without_marked_methods_is_not_registered():
    manager = EttManager()
    assert manager.register_participant(object.__new__(type("Plain", (), {}))) is None
    assert manager.list_name_plugin() == []


def test_methods_marked_in_a_base_class_count():
    class Derived(Model):
        pass

    manager = EttManager()
    model = Derived()
    manager.register_participant(model)
    assert owner(manager) == "model"


def test_a_method_may_call_its_first_argument_what_it_likes():
    class Model:
        @hookimpl
        def ett_choose_stage_owner(this, span):
            return f"{type(this).__name__} {span.name}"

    manager = EttManager()
    model = Model()
    manager.register_participant(model)
    assert owner(manager) == "Model work"


def test_static_and_class_methods_answer_too():
    class Model:
        @staticmethod
        @hookimpl
        def ett_choose_stage_owner(span):
            return span.name

        @classmethod
        @hookimpl
        def ett_choose_batch_samples(cls):
            return cls

    manager = EttManager()
    model = Model()
    manager.register_participant(model)
    assert owner(manager) == "work"
    assert manager.hook.ett_choose_batch_samples() is Model


def test_the_manager_keeps_no_model_alive_and_is_not_disturbed_by_its_death():
    manager = EttManager()
    manager.register(Plugin())
    model = Model()
    manager.register_participant(model)
    assert owner(manager) == "model"
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert owner(manager) == "plugin"


def test_dead_models_do_not_pile_up():
    manager = EttManager()
    for _ in range(5):
        manager.register_participant(Model())
        gc.collect()
    keep = Model()
    manager.register_participant(keep)
    assert [plugin for _, plugin in manager.list_name_plugin()] == [keep]


def test_registering_a_model_again_changes_nothing():
    manager = EttManager()
    model = Model()
    assert manager.register_participant(model) == manager.register_participant(model)
    assert len(manager.list_name_plugin()) == 1


def test_unregistering_one_that_is_not_there_changes_nothing():
    manager = EttManager()
    plugin = Plugin()
    manager.register(plugin)
    manager.unregister_participant(Model())
    manager.unregister_participant(plugin)
    assert owner(manager) == "plugin"


def test_a_model_that_raises_is_named():
    class Broken:
        @hookimpl
        def ett_choose_stage_owner(self, span):
            raise ValueError("no table of that name")

    manager = EttManager()
    model = Broken()
    manager.register_participant(model)
    with pytest.raises(EttPluginError, match=r"Broken' .* ett_choose_stage_owner: ValueError: no table"):
        owner(manager)


def test_a_model_with_a_misspelt_hook_is_refused():
    class Misspelt:
        @hookimpl
        def ett_choose_batch_sample(self): ...

    with pytest.raises(EttPluginError, match="perhaps 'ett_choose_batch_samples' is meant"):
        EttManager().register_participant(Misspelt())


def test_a_model_that_compares_equal_to_another_is_not_taken_for_it():
    class Equal(Model):
        def __eq__(self, other):
            return isinstance(other, Equal)

        __hash__ = None

    manager = EttManager()
    one, two = Equal("one"), Equal("two")
    manager.register_participant(one)
    manager.register_participant(two)
    assert owner(manager) == "two"
    manager.unregister_participant(two)
    assert owner(manager) == "one"


def test_observers_of_a_model_hear_too_and_are_isolated(caplog):
    class Listening(SimpleNamespace):
        @hookimpl
        def ett_span_recorded(self, span):
            self.heard.append(span)
            raise RuntimeError

    manager = EttManager()
    model = Listening(heard=[])
    manager.register_participant(model)
    for _ in range(2):
        manager.hook.ett_span_recorded(span=SPAN)
    assert model.heard == [SPAN]
    assert len(caplog.records) == 1
