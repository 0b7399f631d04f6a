"""``ett plugins``: which plugins are installed, and what became of each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from .loader import InstalledPlugin, load_plugins
from .manager import EttManager
from .markers import CONTRACT_VERSION
from .output import draw

PLUGINS_SCHEMA: Final = "ett.plugins/1"


@click.command()
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON object, schema {PLUGINS_SCHEMA}.")
def plugins(*, as_json: bool) -> None:
    """List every installed plugin, with its version and hooks.

    A plugin that is not loaded stands there with the reason.
    """
    installed = load_plugins(EttManager(), listing=True)
    if as_json:
        click.echo(json.dumps(_as_json(installed), indent=2))
    elif installed:
        _print_table(installed)
    else:
        click.echo("No plugin is installed; ett-timeline, for one, measures a job and reports on it.")


def _as_json(installed: Sequence[InstalledPlugin]) -> dict[str, Any]:
    return {
        "schema": PLUGINS_SCHEMA,
        "contract": _dotted(CONTRACT_VERSION),
        "plugins": [
            {
                "name": plugin.name,
                "module": plugin.value,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "contract": _dotted(plugin.contract),
                "status": plugin.status.value,
                "reason": plugin.reason,
                "hooks": list(plugin.hooks),
            }
            for plugin in installed
        ],
    }


def _print_table(installed: Sequence[InstalledPlugin]) -> None:
    # Only where it is drawn: the program should start at once.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Nobody folds what goes into a pipe: names stay in one piece there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("plugin", "distribution", "status", "hooks"):
        table.add_column(column, overflow="fold")
    for plugin in installed:
        cells = (
            plugin.name,
            f"{plugin.distribution} {plugin.version}",
            plugin.status.value,
            "\n".join(plugin.hooks) or "-",
        )
        # As text: a bracket in a name is no markup.
        table.add_row(*map(Text, cells))
    draw(table, console)
    for plugin in installed:
        if plugin.reason is not None:
            click.echo(f"{plugin.name} is {plugin.status.value}: {plugin.reason}")


def _dotted(version: tuple[int, int] | None) -> str | None:
    return None if version is None else ".".join(map(str, version))
