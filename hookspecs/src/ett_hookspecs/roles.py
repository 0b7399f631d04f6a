"""The one rule that says what happens to a hook implementation that raises."""

from __future__ import annotations

from typing import Final

PARTICIPANT_PREFIXES: Final = ("ett_register_", "ett_choose_", "ett_request_")
"""A hook whose name begins with one of these asks for an answer."""


def is_participant(hook_name: str) -> bool:
    """Whether the hook asks its implementations for an answer; every other hook is an observer.

    A participant that raises stops the run, since its answer is missing. An observer that raises is logged and told
    nothing more, since nobody waits for it.
    """
    return hook_name.startswith(PARTICIPANT_PREFIXES)


OFFERING_HOOKS: Final = frozenset({"ett_register_commands", "ett_register_figures"})
"""The hooks that the module behind an entry point may implement: they change nothing in a training.

What acts in a training is registered by a callback that the user added.
"""
