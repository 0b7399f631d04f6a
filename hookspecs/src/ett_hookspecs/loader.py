"""Loads the installed plugins, in the same order on every rank."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from types import ModuleType
from typing import Any, Final, Protocol

from .errors import EttPluginError, described
from .marked import marked_functions
from .markers import CONTRACT_ATTRIBUTE, CONTRACT_VERSION, DISABLE_VARIABLE, ENTRY_POINT_GROUP

_LOGGER = logging.getLogger(__name__)

_ALL: Final = "*"


class PluginStatus(StrEnum):
    """What became of an installed plugin."""

    LOADED = "loaded"
    DISABLED = "disabled"
    """The environment says not to load it."""
    SKIPPED = "skipped"
    """It cannot be imported, or was built for another contract; the others were loaded."""
    REFUSED = "refused"
    """It breaks the contract. A run stops; only a listing goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """An entry point of the group ``ett.plugins``, and what became of it.

    Attributes:
        name: The entry point's name.
        value: Its value, the name of a module.
        distribution: The distribution that offers it.
        version: The distribution's version.
        status: What became of it.
        reason: Why it was not loaded; None if it was.
        contract: Major and minor version it was built for; None where it was not imported.
        hooks: The hooks it implements, in alphabetical order.
    """

    name: str
    value: str
    distribution: str
    version: str
    status: PluginStatus
    reason: str | None = None
    contract: tuple[int, int] | None = None
    hooks: tuple[str, ...] = ()


class Registry(Protocol):
    """Where plugins go: the manager."""

    def register(self, plugin: object, name: str | None = None, *, provider: str | None = None) -> str | None:
        """Take a plugin, or raise :class:`~ett_hookspecs.EttPluginError`."""


def load_plugins(registry: Registry, *, listing: bool = False) -> tuple[InstalledPlugin, ...]:
    """Import every installed plugin that is not disabled, and register it under its entry point's name.

    Hooks ask plugins in the alphabetical order of their names, on every rank.

    Args:
        registry: Takes the plugins.
        listing: Neither raise nor warn, but say in the result what became of each.

    Returns:
        Every installed plugin, sorted by name.

    Raises:
        EttPluginError: A name is claimed by two distributions, or a plugin implements a hook that does not exist or in
            a way that cannot work.
    """
    offers = _offers()
    disabled = _disabled()
    if not listing:
        _warn_about_unknown(disabled - offers.keys())
    results: list[InstalledPlugin] = []
    # pluggy asks first what was registered last.
    for name in sorted(offers, reverse=True):
        claims = offers[name]
        try:
            results.extend(_load(registry, claims, is_disabled=not disabled.isdisjoint({name, _ALL})))
        except EttPluginError as error:
            if not listing:
                raise
            results.extend(claim.result(PluginStatus.REFUSED, str(error)) for claim in claims)
    for result in () if listing else results:
        if result.status is PluginStatus.SKIPPED:
            _LOGGER.warning(
                "plugin %r (%s %s) is skipped: %s", result.name, result.distribution, result.version, result.reason
            )
    return tuple(sorted(results, key=lambda result: (result.name, result.distribution)))


@dataclass(frozen=True, slots=True)
class _Claim:
    """A distribution offers a module under a name."""

    name: str
    value: str
    distribution: str
    version: str

    @property
    def provider(self) -> str:
        return f"{self.distribution} {self.version}"

    def result(self, status: PluginStatus, reason: str | None = None, **known: Any) -> InstalledPlugin:
        return InstalledPlugin(
            name=self.name,
            value=self.value,
            distribution=self.distribution,
            version=self.version,
            status=status,
            reason=reason,
            **known,
        )


def _offers() -> dict[str, list[_Claim]]:
    """Claims by name. One distribution seen twice along ``sys.path`` makes one claim: the one that an import finds."""
    claims: dict[tuple[str, str, str], _Claim] = {}
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        distribution, version = _named(entry_point.dist)
        key = (entry_point.name, entry_point.value, distribution)
        claims.setdefault(key, _Claim(entry_point.name, entry_point.value, distribution, version))
    by_name: dict[str, list[_Claim]] = {}
    for key in sorted(claims):
        by_name.setdefault(claims[key].name, []).append(claims[key])
    return by_name


def _named(distribution: metadata.Distribution | None) -> tuple[str, str]:
    """Name and version, which a damaged installation may lack."""
    if distribution is None:
        return "unknown distribution", "unknown version"
    fields = distribution.metadata.json
    return str(fields.get("name") or "unknown distribution"), str(fields.get("version") or "unknown version")


def _disabled() -> frozenset[str]:
    return frozenset(name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip())


def _warn_about_unknown(disabled: frozenset[str]) -> None:
    unknown = sorted(disabled - {_ALL})
    if unknown:
        _LOGGER.warning("%s names %s, which is not installed", DISABLE_VARIABLE, ", ".join(unknown))


def _load(registry: Registry, claims: list[_Claim], *, is_disabled: bool) -> list[InstalledPlugin]:
    if is_disabled:
        return [claim.result(PluginStatus.DISABLED, f"{DISABLE_VARIABLE} says so") for claim in claims]
    claim = claims[0]
    if len(claims) > 1:
        raise EttPluginError(
            f"plugin name {claim.name!r} is claimed by "
            + " and by ".join(f"{each.provider} (module {each.value})" for each in claims)
            + f": uninstall one of them, or set {DISABLE_VARIABLE}={claim.name} to do without both"
        )
    try:
        module = _import(claim)
        contract = _contract_of(module)
    except _Skip as skip:
        _LOGGER.debug("plugin %r is skipped", claim.name, exc_info=True)
        return [claim.result(PluginStatus.SKIPPED, str(skip), contract=skip.contract)]
    try:
        registry.register(module, claim.name, provider=claim.provider)
    except EttPluginError as error:
        if contract > CONTRACT_VERSION:
            raise EttPluginError(f"{error} (built for contract {_dotted(contract)}: upgrade ett-hookspecs)") from error
        raise
    hooks = sorted({marked.hook for marked in marked_functions(module)})
    return [claim.result(PluginStatus.LOADED, contract=contract, hooks=tuple(hooks))]


class _Skip(Exception):
    """Why a plugin is left out while the others are loaded."""

    def __init__(self, reason: str, contract: tuple[int, int] | None = None) -> None:
        super().__init__(reason)
        self.contract = contract


def _import(claim: _Claim) -> ModuleType:
    try:
        module = metadata.EntryPoint(claim.name, claim.value, ENTRY_POINT_GROUP).load()
    except (Exception, SystemExit) as error:  # the module's own code may raise anything, and has no say in the exit
        raise _Skip(f"it cannot be imported ({described(error)}); reinstall or uninstall it") from error
    if not isinstance(module, ModuleType):
        raise _Skip(f"its entry point {claim.value!r} is no module; tell its authors")
    return module


def _contract_of(module: ModuleType) -> tuple[int, int]:
    contract = vars(module).get(CONTRACT_ATTRIBUTE, CONTRACT_VERSION)
    match contract:
        case (int(major), int(minor)):
            pass
        case _:
            raise _Skip(f"its {CONTRACT_ATTRIBUTE} is {contract!r}, not (major, minor); tell its authors")
    if major != CONTRACT_VERSION[0]:
        raise _Skip(
            f"it was built for contract {major}.{minor} and this is {_dotted(CONTRACT_VERSION)}; install a version of "
            f"it for this contract",
            contract=(major, minor),
        )
    return major, minor


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
