"""Finds what a plugin marked as hookimpl, without evaluating anything.

pluggy may read attributes with ``getattr``, which runs properties; those of a LightningModule raise, or start work.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from .markers import PROJECT

_MARKER: Final = f"{PROJECT}_impl"
"""Where ``hookimpl`` leaves its options on what it marks."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A function that a plugin marked.

    Attributes:
        attribute: The plugin's name for it.
        hook: Name of the hook it implements.
        function: Bound as ``getattr`` would have bound it.
        tryfirst: Asked before others.
        trylast: Asked after others.
        optional: No error when the hook is unknown.
        wrapper: Wants to wrap the other implementations.
    """

    attribute: str
    hook: str
    function: Callable[..., Any]
    tryfirst: bool
    trylast: bool
    optional: bool
    wrapper: bool


def marked_functions(plugin: object) -> list[Marked]:
    """What a module, class or object marked, in alphabetical order.

    Only functions, methods, static and class methods can be hook implementations, as in pluggy.
    """
    own = [] if isinstance(plugin, type) else list(_attributes_of(plugin).items())
    inherited = [] if isinstance(plugin, ModuleType) else _class_attributes(_class_of(plugin))
    taken = {name for name, _ in own}
    return _marked(
        [
            *((name, raw, _free(raw)) for name, raw in own),
            *((name, raw, _bound(raw, plugin)) for name, raw in inherited if name not in taken),
        ]
    )


def marked_methods(owner: type, receiver: object) -> list[Marked]:
    """What a class and its bases marked, bound to `receiver`, so that nothing in it refers to an instance."""
    return _marked((name, raw, _bound(raw, receiver, owner)) for name, raw in _class_attributes(owner))


def bound_method(instance: object, attribute: str) -> Callable[..., Any]:
    """A method of the instance's class, bound to it, without a detour through ``__getattr__``."""
    raw = inspect.getattr_static(type(instance), attribute)
    bound = _bound(raw, instance)
    if bound is None:
        raise TypeError(f"{attribute} of {type(instance).__qualname__} is no longer a method")
    return bound


def _class_of(plugin: object) -> type:
    return plugin if isinstance(plugin, type) else type(plugin)


def _attributes_of(plugin: object) -> Mapping[str, Any]:
    try:
        attributes = object.__getattribute__(plugin, "__dict__")
    except AttributeError:
        return {}
    return attributes if isinstance(attributes, dict) else {}


def _class_attributes(owner: type) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for base in owner.__mro__:
        for name, raw in list(vars(base).items()):
            if name not in seen:
                seen.add(name)
                yield name, raw


def _free(raw: Any) -> Callable[..., Any] | None:
    """A function that stands in a module or an instance, where nothing is bound."""
    return raw if isinstance(raw, FunctionType | MethodType) else None


def _bound(raw: Any, receiver: object, owner: type | None = None) -> Callable[..., Any] | None:
    """A function that stands in a class, bound to a receiver."""
    if isinstance(raw, staticmethod):
        return raw.__func__ if isinstance(raw.__func__, FunctionType) else None
    if isinstance(raw, classmethod):
        return MethodType(raw.__func__, owner or _class_of(receiver))
    if isinstance(raw, FunctionType):
        return raw if isinstance(receiver, type) else MethodType(raw, receiver)
    return raw if isinstance(raw, MethodType) else None


def _marked(members: Iterable[tuple[str, Any, Callable[..., Any] | None]]) -> list[Marked]:
    found = []
    for name, raw, function in sorted(members, key=lambda member: member[0]):
        if function is None:
            continue
        # The mark lies on the static or class method where it was applied above it, else on the function.
        options = getattr(raw, _MARKER, None) or getattr(getattr(raw, "__func__", None), _MARKER, None)
        if isinstance(options, Mapping):
            found.append(
                Marked(
                    attribute=name,
                    hook=options.get("specname") or name,
                    function=function,
                    tryfirst=bool(options.get("tryfirst")),
                    trylast=bool(options.get("trylast")),
                    optional=bool(options.get("optionalhook")),
                    wrapper=bool(options.get("wrapper") or options.get("hookwrapper")),
                )
            )
    return found
