"""Refuses at registration what could never work, so that it does not fail in the middle of a training."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping

from .errors import EttPluginError
from .guard import StandIn
from .marked import Marked

_LATER = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check(stand_in: StandIn, specs: Mapping[str, tuple[str, ...]]) -> None:
    """Check everything a plugin marked.

    Args:
        stand_in: The plugin.
        specs: Argument names by hook.

    Raises:
        EttPluginError: A hook that does not exist, an argument that the hook does not have, a wrapper, or a function
            that yields or awaits.
    """
    for marked in stand_in.marked:
        fault = _fault_of(marked, specs)
        if fault is not None:
            raise EttPluginError(f"{stand_in}: {marked.attribute} {fault}; {stand_in.advice}")


def _fault_of(marked: Marked, specs: Mapping[str, tuple[str, ...]]) -> str | None:
    if marked.wrapper:
        return "is a hook wrapper, which ett does not have: write a plain hookimpl"
    if any(test(marked.function) for test in _LATER):
        return "yields or awaits: return the answer instead"
    if marked.hook not in specs:
        if marked.optional:
            return None
        alike = difflib.get_close_matches(marked.hook, specs, n=1)
        return f"implements an unknown hook {marked.hook!r}" + (f", perhaps {alike[0]!r} is meant" if alike else "")
    for parameter in inspect.signature(marked.function).parameters.values():
        if parameter.kind not in _POSITIONAL:
            # pluggy passes positional arguments by name, and nothing else.
            return f"takes {parameter}, which is never passed: name the arguments of {marked.hook}"
        if parameter.default is not parameter.empty:
            return f"gives {parameter.name!r} a default, and would always get it: take the argument without one"
        if parameter.name not in specs[marked.hook]:
            has = ", ".join(specs[marked.hook]) or "none"
            return f"takes {parameter.name!r}, which {marked.hook} does not have (its arguments: {has})"
    return None
