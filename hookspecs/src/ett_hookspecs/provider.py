"""Which distribution a module comes from, for error messages."""

from __future__ import annotations

import contextlib
from importlib import metadata
from types import ModuleType

from .markers import ENTRY_POINT_GROUP


def provider_of(module_name: str) -> str:
    """Distribution and version that a module comes from.

    Args:
        module_name: Dotted name of the module.

    Returns:
        For example ``ett-timeline 0.1.0``; the package's name and ``version unknown`` where nobody can say, as for a
        user's own script.
    """
    package = module_name.partition(".")[0]
    # An error message must not fail on a broken installation.
    with contextlib.suppress(Exception):
        # Entry points first: the files of an editable installation do not name its packages.
        for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
            if entry_point.dist is not None and entry_point.value.partition(".")[0].partition(":")[0] == package:
                return f"{entry_point.dist.name} {entry_point.dist.version}"
        for name in metadata.packages_distributions().get(package, ()):
            return f"{name} {metadata.version(name)}"
    return f"{package}, version unknown"


def module_name_of(plugin: object) -> str:
    """Dotted name of the module that a plugin is, or that its class or function is written in."""
    if isinstance(plugin, ModuleType):
        return plugin.__name__
    return plugin.__module__ if isinstance(plugin, type) else type(plugin).__module__
