"""What pluggy is given in a plugin's place: the same functions, each behind a guard.

Whatever a plugin does, ``manager.hook.X(...)`` is safe to call from a training loop: there is no other door to it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from .errors import EttPluginError, described
from .marked import Marked, bound_method, marked_functions, marked_methods
from .markers import DISABLE_VARIABLE, hookimpl
from .provider import module_name_of, provider_of
from .roles import is_participant

_LOGGER = logging.getLogger(__name__)


class Calls(Protocol):
    """What a guard asks the manager."""

    rank: int | None

    @property
    def held_back(self) -> bool:
        """Whether the call that this guard is part of will be made again later."""


class StandIn:
    """Stands for a plugin towards pluggy, and knows how to speak of it.

    Attributes:
        name: The plugin's name.
        marked: What the plugin marked.
    """

    def __init__(
        self,
        name: str,
        marked: list[Marked],
        calls: Calls,
        *,
        refer: Callable[[], object | None],
        module_name: str,
        provider: str | None = None,
    ) -> None:
        self.name = name
        self.marked = marked
        self._calls = calls
        self._refer = refer
        self._module_name = module_name
        self._provider = provider
        self._failed = False
        self._lock = threading.Lock()

    @classmethod
    def for_plugin(cls, plugin: object, name: str, calls: Calls, *, provider: str | None) -> StandIn:
        """For a module or an observer object, which lives as long as the manager."""
        return cls(
            name,
            marked_functions(plugin),
            calls,
            refer=lambda: plugin,
            module_name=module_name_of(plugin),
            provider=provider,
        )

    @classmethod
    def for_participant(cls, participant: object, name: str, calls: Calls) -> StandIn:
        """For an object that must be free to die: nothing here refers to it but weakly."""
        # The methods are bound to a placeholder, for their signatures; the guards bind them again at each call.
        methods = marked_methods(type(participant), receiver=object())
        return cls(name, methods, calls, refer=weakref.ref(participant), module_name=type(participant).__module__)

    @property
    def plugin(self) -> object | None:
        """What it stands for; None when that is gone."""
        return self._refer()

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self._provider or provider_of(self._module_name)})"

    @property
    def advice(self) -> str:
        """What to do when it does not work, for the end of an error message."""
        if self._provider is not None:
            return f"repair or uninstall it, or set {DISABLE_VARIABLE}={self.name} to do without it"
        return "repair it, or train without it"

    def fail(self) -> bool:
        """The plugin is told nothing more.

        Returns:
            Whether this is news.
        """
        with self._lock:
            news, self._failed = not self._failed, True
            return news

    def guard(self, *, first: bool = False) -> None:
        """Put the guarded functions where pluggy finds them.

        Args:
            first: Ask the plugin before all that are registered so far, whatever it wishes.
        """
        weak = isinstance(self._refer, weakref.ref)
        for marked in self.marked:
            function = self._rebound(marked.attribute) if weak else marked.function
            make = self._answering if is_participant(marked.hook) else self._observing
            # pluggy reads the argument names from what a function wraps.
            guarded = functools.wraps(marked.function)(make(marked.hook, function))
            hookimpl(
                guarded,
                specname=marked.hook,
                tryfirst=first or marked.tryfirst,
                trylast=marked.trylast and not first,
                optionalhook=marked.optional,
            )
            # pluggy looks for the hook's own name where it calls a hook without some plugins.
            setattr(self, f"impl_{marked.attribute}" if marked.hook in vars(self) else marked.hook, guarded)

    def _rebound(self, attribute: str) -> Callable[..., Any]:
        refer = self._refer

        def call(*arguments: Any) -> Any:
            participant = refer()
            return None if participant is None else bound_method(participant, attribute)(*arguments)

        return call

    def _answering(self, hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except EttPluginError:
                # A hook that this plugin called in turn: the text already names who failed.
                raise
            except Exception as error:
                raise EttPluginError(f"{self} could not answer {hook}: {described(error)}; {self.advice}") from error

        return guarded

    def _observing(self, hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> None:
            if self._failed or self._calls.held_back:
                return
            try:
                function(*arguments)
            except Exception as error:  # noqa: BLE001  whatever it is, training goes on
                if self.fail():
                    self._log(hook, error)

        return guarded

    def _log(self, hook: str, error: Exception) -> None:
        rank = self._calls.rank
        # A log handler of the user's own that raises must not harm training either.
        with contextlib.suppress(Exception):
            _LOGGER.error(
                "%s failed in %s%s and is told nothing more in this run; training goes on",
                self,
                hook,
                "" if rank is None else f" on rank {rank}",
                exc_info=error,
            )
