"""The subcommands of the ``ett`` program that come from plugins."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from .errors import EttError, EttPluginError, described, one_line
from .loader import load_plugins
from .manager import EttManager, create_manager
from .markers import DISABLE_VARIABLE
from .types import Command

_OFFERS: Final = f"{__name__}.offers"

OFFERED_BY: Final[dict[str, str]] = {"ingest": "ett-timeline", "report": "ett-timeline"}
"""The commands of this project, for those who look for one that is not there."""


@dataclass(frozen=True, slots=True)
class _Offer:
    command: Command
    plugin: str


class EttGroup(click.Group):
    """A group that asks plugins for its commands, and imports only the one that is used.

    Args:
        *arguments: For ``click.Group``.
        own_commands: Commands that are there whatever plugins do.
        **options: For ``click.Group``.
    """

    def __init__(self, *arguments: Any, own_commands: Sequence[click.Command] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        for command in own_commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands; without those of plugins if these cannot be had."""
        return sorted({*self.commands, *_offers_or_none(ctx, self)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by name; plugins are asked only for what is not ours.

        Raises:
            EttPluginError: The plugin's command cannot be loaded.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        offer = offers(ctx, self).get(cmd_name)
        return None if offer is None else _resolve(offer)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a hint where the commands come from."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}: {_why_missing(name)}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run a command; what it returns is dropped, since click would take a number for the exit status."""
        super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands for the help, from what plugins say about them: nothing is imported for it."""
        try:
            offered = offers(ctx, self)
        except EttError as error:
            # Help is needed most where something is broken.
            click.echo(f"Error: {one_line(error)}", err=True)
            offered = {}
        rows = {name: command.get_short_help_str(limit=200) for name, command in self.commands.items()}
        rows.update((name, offer.command.help) for name, offer in offered.items())
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows.items()))


def offers(ctx: click.Context, group: click.Group) -> dict[str, _Offer]:
    """What plugins offer, by name; they are asked once in a run of the program.

    Raises:
        EttPluginError: A plugin cannot be loaded, one does not answer with commands, or a name is offered twice.
    """
    if _OFFERS not in ctx.meta:
        by_name: dict[str, _Offer] = {}
        for plugin, answer in create_manager().ask_each("ett_register_commands"):
            for command in _checked(plugin, answer):
                rival = "ett itself" if command.name in group.commands else None
                rival = by_name[command.name].plugin if command.name in by_name else rival
                if rival is not None:
                    raise EttPluginError(
                        f"the command {command.name!r} is offered by {rival} and by {plugin}: uninstall one of "
                        f"them, or name it in {DISABLE_VARIABLE}"
                    )
                by_name[command.name] = _Offer(command, plugin)
        ctx.meta[_OFFERS] = by_name
    known: dict[str, _Offer] = ctx.meta[_OFFERS]
    return known


def _why_missing(command: str) -> str:
    """Who offers a command and why it is not there, as far as that can be known without asking plugins that are off."""
    installed = load_plugins(EttManager(), listing=True)
    distribution = OFFERED_BY.get(command)
    if distribution is not None:
        offering = [plugin for plugin in installed if plugin.distribution == distribution]
        if not offering:
            return f"install {distribution}, which offers it"
        for plugin in offering:
            if plugin.reason is not None:
                return f"{distribution} offers it, but its plugin {plugin.name!r} is {plugin.status}: {plugin.reason}"
    off = [f"{plugin.name} is {plugin.status}" for plugin in installed if plugin.reason is not None]
    return "; ".join(["commands come from plugins, `ett plugins` lists the installed ones", *off])


def _offers_or_none(ctx: click.Context, group: click.Group) -> dict[str, _Offer]:
    try:
        return offers(ctx, group)
    except EttError:
        return {}


def _checked(plugin: str, answer: Any) -> list[Command]:
    answered = list(answer) if isinstance(answer, Iterable) else [answer]
    for command in answered:
        if not isinstance(command, Command):
            raise EttPluginError(
                f"{plugin} answered ett_register_commands with {command!r}, which is no Command; upgrade or "
                f"uninstall it"
            )
    return answered


def _resolve(offer: _Offer) -> click.Command:
    what = f"the command {offer.command.name!r} of {offer.plugin} cannot be loaded"
    try:
        target = pkgutil.resolve_name(offer.command.target)
    except (Exception, SystemExit) as error:  # the module's own code may raise anything
        raise EttPluginError(f"{what} ({described(error)}); reinstall or upgrade it") from error
    if not isinstance(target, click.Command):
        raise EttPluginError(f"{what}: {offer.command.target} is no click command; upgrade or uninstall it")
    return target
