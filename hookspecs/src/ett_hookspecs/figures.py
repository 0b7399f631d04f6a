"""The pictures that plugins draw of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import EttPluginError
from .manager import EttManager
from .markers import DISABLE_VARIABLE
from .types import Figure


def offered_figures(manager: EttManager) -> tuple[Figure, ...]:
    """What plugins offer through ``ett_register_figures``.

    Args:
        manager: Whose plugins are asked.

    Raises:
        EttPluginError: A plugin does not answer with figures, or a name is offered twice.
    """
    offered: dict[str, tuple[Figure, str]] = {}
    for plugin, answer in manager.ask_each("ett_register_figures"):
        for figure in _checked(plugin, answer):
            if figure.name in offered:
                _, rival = offered[figure.name]
                raise EttPluginError(
                    f"the figure {figure.name!r} is offered by {rival} and by {plugin}: uninstall one of them, or name "
                    f"it in {DISABLE_VARIABLE}"
                )
            offered[figure.name] = figure, plugin
    return tuple(figure for figure, _ in offered.values())


def _checked(plugin: str, answer: Any) -> Sequence[Figure]:
    if isinstance(answer, Sequence) and all(isinstance(figure, Figure) for figure in answer):
        return answer
    raise EttPluginError(
        f"{plugin} answered ett_register_figures with {answer!r}, which is no list of Figures; upgrade or uninstall it"
    )
