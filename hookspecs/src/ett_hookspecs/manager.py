"""The plugin manager: the one door through which hooks are called."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pluggy

from . import specs
from .checks import check
from .deliveries import Deliveries
from .guard import StandIn
from .loader import InstalledPlugin, load_plugins
from .markers import PROJECT
from .provider import module_name_of
from .roles import is_participant


class EttManager(pluggy.PluginManager):
    """Calls hooks so that no plugin can do harm by raising.

    ``manager.hook.<name>(...)`` is safe from any thread: an observer that raises is logged, with its plugin, version,
    hook, rank and traceback, and told nothing more; a participant that raises becomes an
    :class:`~ett_hookspecs.EttPluginError` that names it. ``KeyboardInterrupt`` and ``SystemExit`` always pass.

    What is registered is kept alive by the manager, and the manager by its Trainer: an observer object must not refer
    to the Trainer but weakly.

    Args:
        rank: Global rank of this process, for log lines.

    Attributes:
        rank: Global rank of this process, for log lines; None where there is none.
        installed: Every installed plugin, and whether it was loaded.
    """

    def __init__(self, rank: int | None = None) -> None:
        super().__init__(PROJECT)
        self.rank = rank
        self.installed: tuple[InstalledPlugin, ...] = ()
        self._deliveries = Deliveries(lambda hook_name, arguments: getattr(self.hook, hook_name)(**arguments))
        self._participants: list[StandIn] = []
        self.add_hookspecs(specs)
        self.add_hookcall_monitoring(
            lambda hook_name, _, arguments: self._deliveries.begin(
                hook_name, arguments, observer=not is_participant(hook_name)
            ),
            lambda *_: self._deliveries.end(),
        )

    @property
    def held_back(self) -> bool:
        """Whether the hook call in progress in this thread will be made again later."""
        return self._deliveries.held_back

    def deliver_later(self) -> AbstractContextManager[None]:
        """Put what observers are told aside, from any thread, until the outermost such block is left.

        Then it is delivered in order, so that an observer registered last hears what was said first. Participants are
        asked at once.
        """
        return self._deliveries.later()

    def register(self, plugin: object, name: str | None = None, *, provider: str | None = None) -> str | None:
        """Register a module or an observer object.

        Its attributes are looked up statically; properties are not evaluated.

        Args:
            plugin: Holds functions marked with :data:`~ett_hookspecs.hookimpl`.
            name: Its name, for messages; derived from its class or module by default.
            provider: For an installed plugin, its distribution and version.

        Returns:
            Its name, or None if the name is blocked.

        Raises:
            EttPluginError: It implements a hook that does not exist, or one in a way that cannot work.
            ValueError: It is registered already, or its name is taken.
        """
        if self.is_registered(plugin):
            raise ValueError(f"{plugin!r} is registered already, as {self.get_name(plugin)!r}")
        stand_in = StandIn.for_plugin(plugin, name or self.get_canonical_name(plugin), self, provider=provider)
        check(stand_in, self._arguments_by_hook())
        stand_in.guard()
        registered = super().register(stand_in, stand_in.name)
        if any(marked.tryfirst for marked in stand_in.marked):
            self._ask_participants_first()
        return registered

    def register_participant(self, participant: object) -> str | None:
        """Let a LightningModule or a data module answer hooks, before any plugin.

        Methods of its class and bases that are marked with :data:`~ett_hookspecs.hookimpl` count. It is referred to
        weakly.

        Args:
            participant: Any object.

        Returns:
            Its name, or None if nothing is marked.

        Raises:
            EttPluginError: It implements a hook that does not exist, or one in a way that cannot work.
        """
        self._forget_the_dead()
        known = self._stand_in_of(participant)
        if known is not None:
            return known.name
        stand_in = StandIn.for_participant(participant, self.get_canonical_name(participant), self)
        if not stand_in.marked:
            return None
        check(stand_in, self._arguments_by_hook())
        stand_in.guard(first=True)
        self._participants.append(stand_in)
        return super().register(stand_in, stand_in.name)

    def unregister_participant(self, participant: object) -> None:
        """The object answers no more; nothing happens if it did not."""
        self._forget_the_dead()
        known = self._stand_in_of(participant)
        if known in self._participants:
            self.unregister(participant)

    def unregister(self, plugin: object | None = None, name: str | None = None) -> Any | None:
        """Forget a plugin.

        Args:
            plugin: What was registered.
            name: Or its name.

        Returns:
            What was registered, or None if nothing was.
        """
        stand_in = super().get_plugin(name) if plugin is None and name is not None else self._stand_in_of(plugin)
        if not isinstance(stand_in, StandIn):
            return super().unregister(plugin, name)
        super().unregister(stand_in, name or stand_in.name)
        if stand_in in self._participants:
            self._participants.remove(stand_in)
        return stand_in.plugin

    def ask_each(self, hook_name: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Ask a participant hook, and say who answered what.

        Args:
            hook_name: A hook of which all answers count.
            **arguments: The hook's arguments.

        Yields:
            The plugin, in words for a message, and its answer; in the order in which the hook asks.
        """
        for implementation in reversed(getattr(self.hook, hook_name).get_hookimpls()):
            answer = implementation.function(*(arguments[argument] for argument in implementation.argnames))
            if answer is not None:
                yield str(implementation.plugin), answer

    def get_canonical_name(self, plugin: object) -> str:
        """A name for an object that was registered without one, unlike all others."""
        own = getattr(plugin, "__qualname__", None) if isinstance(plugin, type) else type(plugin).__qualname__
        module_name = module_name_of(plugin)
        name = module_name if inspect.ismodule(plugin) else f"{module_name}.{own}"
        taken = {known for known, _ in super().list_name_plugin()}
        return next(free for free in _numbered(name) if free not in taken)

    def get_name(self, plugin: object) -> str | None:
        """The name something is registered under, or None."""
        stand_in = self._stand_in_of(plugin)
        return super().get_name(plugin if stand_in is None else stand_in)

    def get_plugin(self, name: str) -> Any | None:
        """What is registered under a name, or None."""
        return _original(super().get_plugin(name))

    def get_plugins(self) -> set[Any]:
        """Everything that is registered and alive."""
        return {plugin for _, plugin in self.list_name_plugin() if plugin is not None}

    def list_name_plugin(self) -> list[tuple[str, Any]]:
        """Names and what is registered under them."""
        return [(name, _original(plugin)) for name, plugin in super().list_name_plugin()]

    def is_registered(self, plugin: object) -> bool:
        """Whether this very object is registered."""
        return self._stand_in_of(plugin) is not None

    def get_hookcallers(self, plugin: object) -> list[pluggy.HookCaller] | None:
        """The hooks that a plugin implements, or None if it is not registered."""
        return super().get_hookcallers(self._stand_in_of(plugin) or plugin)

    def subset_hook_caller(self, name: str, remove_plugins: Iterable[object]) -> pluggy.HookCaller:
        """A hook without some of the plugins that implement it."""
        return super().subset_hook_caller(name, [self._stand_in_of(plugin) or plugin for plugin in remove_plugins])

    def _stand_in_of(self, plugin: object | None) -> StandIn | None:
        for _, known in super().list_name_plugin():
            if isinstance(known, StandIn) and plugin is not None and (known is plugin or known.plugin is plugin):
                return known
        return None

    def _ask_participants_first(self) -> None:
        """Register participants again: pluggy asks last what was registered first."""
        for stand_in in self._participants:
            super().unregister(stand_in, stand_in.name)
            super().register(stand_in, stand_in.name)

    def _forget_the_dead(self) -> None:
        for stand_in in [known for known in self._participants if known.plugin is None]:
            super().unregister(stand_in, stand_in.name)
            self._participants.remove(stand_in)

    def _arguments_by_hook(self) -> Mapping[str, tuple[str, ...]]:
        callers: dict[str, pluggy.HookCaller] = vars(self.hook)
        return {
            name: tuple(inspect.signature(caller.spec.function).parameters)
            for name, caller in callers.items()
            if caller.spec is not None
        }


def create_manager(rank: int | None = None) -> EttManager:
    """A manager with every installed plugin.

    Args:
        rank: Global rank of this process, for log lines.

    Raises:
        EttPluginError: A plugin cannot be loaded.
    """
    manager = EttManager(rank)
    manager.installed = load_plugins(manager)
    return manager


def _original(plugin: Any) -> Any:
    return plugin.plugin if isinstance(plugin, StandIn) else plugin


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
