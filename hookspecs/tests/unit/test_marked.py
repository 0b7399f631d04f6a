from __future__ import annotations

from types import SimpleNamespace

import pytest

from ett_hookspecs import hookimpl
from ett_hookspecs.marked import bound_method, marked_functions, marked_methods


def hooks_of(plugin):
    return [marked.hook for marked in marked_functions(plugin)]


class WithTraps:
    """Whatever is evaluated here fails the test."""

    evaluated = 0

    @property
    def trainer(self):
        raise AssertionError("a property was evaluated")

    def __getattr__(self, name):
        raise AssertionError(f"{name} was looked up dynamically")

    @hookimpl
    def ett_span_recorded(self, span): ...


def test_properties_are_not_evaluated():
    assert hooks_of(WithTraps()) == ["ett_span_recorded"]


def test_methods_static_methods_and_class_methods_count_whatever_the_order_of_decorators():
    class Plugin:
        @hookimpl
        def ett_a(self):
            return self

        @staticmethod
        @hookimpl
        def ett_b():
            return "b"

        @hookimpl
        @staticmethod
        def ett_c():
            return "c"

        @classmethod
        @hookimpl
        def ett_d(cls):
            return cls

        @hookimpl
        @classmethod
        def ett_e(cls):
            return cls

    plugin = Plugin()
    answers = [marked.function() for marked in marked_functions(plugin)]
    assert answers == [plugin, "b", "c", Plugin, Plugin]


def test_methods_marked_in_a_base_class_count_unless_overridden_without_a_mark():
    class Base:
        @hookimpl
        def ett_a(self): ...

        @hookimpl
        def ett_b(self): ...

    class Derived(Base):
        def ett_b(self): ...

    assert hooks_of(Derived()) == ["ett_a"]
    assert [marked.hook for marked in marked_methods(Derived, object())] == ["ett_a"]


def test_functions_on_an_instance_are_not_bound():
    def answer():
        return 1

    assert marked_functions(SimpleNamespace(ett_a=hookimpl(answer)))[0].function() == 1


def test_a_hook_may_be_implemented_under_another_name():
    class Plugin:
        @hookimpl(specname="ett_a", tryfirst=True)
        def mine(self): ...

    (marked,) = marked_functions(Plugin())
    assert (marked.attribute, marked.hook, marked.tryfirst, marked.trylast) == ("mine", "ett_a", True, False)


def test_objects_with_slots_can_be_plugins():
    class Plugin:
        __slots__ = ("value",)

        @hookimpl
        def ett_a(self): ...

    assert hooks_of(Plugin()) == ["ett_a"]


def test_what_is_callable_but_no_function_does_not_count():
    class Callable:
        ett_impl = {"specname": None}

        def __call__(self): ...

    assert hooks_of(SimpleNamespace(ett_a=Callable(), ett_b=len)) == []


def test_a_class_can_be_a_plugin():
    class Plugin:
        @staticmethod
        @hookimpl
        def ett_a():
            return 1

    assert marked_functions(Plugin)[0].function() == 1


def test_binding_a_method_that_is_gone_says_so():
    class Model:
        def ett_a(self): ...

    model = Model()
    Model.ett_a = 3
    with pytest.raises(TypeError, match=r"ett_a of .*Model is no longer a method"):
        bound_method(model, "ett_a")
