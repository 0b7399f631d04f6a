"""The ``ett`` program: its subcommands come from plugins, its manners from here.

An error is one line on standard error that says what is wrong and what to do; ``--debug``, anywhere on the command
line, adds the traceback. Exit status: 0 well, 1 the thing asked about is bad, 2 wrong usage, 130 interrupted, 141
the reader of the output went away.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final, NoReturn

import click

from .commands import EttGroup
from .errors import EttError, described, one_line
from .listing import plugins
from .markers import CONTRACT_VERSION
from .output import READER_GONE, ReaderGone, standard_output

_BAD: Final = 1
_WRONG_USAGE: Final = 2
_INTERRUPTED: Final = 130

_DEBUG: Final = "--debug"

_HELP = """Effective training time: how much of a job's wall time trained on new data, and where the rest went.

A job is measured by a callback of the distribution ett-timeline, and asked about by its directory:

\b
    Trainer(callbacks=[EffectiveTrainingTime("runs/job1")])
    ett report runs/job1

Subcommands come from the installed plugins. ETT_DISABLE_PLUGINS=NAME,NAME leaves plugins out, * all of them.
"""

_EPILOG = "`ett COMMAND --help` tells more about each."


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        contract = ".".join(map(str, CONTRACT_VERSION))
        click.echo(f"ett {metadata.version('ett-hookspecs')} (contract {contract})")
        context.exit()


@click.group(
    cls=EttGroup,
    own_commands=[plugins],
    help=_HELP,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
# Taken off the command line before click sees it, so that it may stand anywhere; declared here for the help.
@click.option(_DEBUG, is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.pass_context
def ett(context: click.Context) -> None:
    """Show the help when nothing else was asked for."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> NoReturn:
    """Run the program on this process's arguments and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the program.

    Args:
        arguments: What stands behind ``ett`` on the command line.

    Returns:
        The exit status.
    """
    rest, debug = _without_debug(arguments)
    with standard_output(), _details_logged() if debug else contextlib.nullcontext():
        return _run(rest, debug=debug)


def _run(arguments: list[str], *, debug: bool) -> int:
    try:
        # What a command returns is not its exit status; that is what Context.exit makes of the whole.
        status = ett.main(args=arguments, prog_name="ett", standalone_mode=False)
        sys.stdout.flush()
    except ReaderGone:
        return READER_GONE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  whatever it is, it is told in one line
        if debug:
            traceback.print_exc()
        status, text = _verdict(error)
        if text:
            # Nobody is left to tell where this fails.
            with contextlib.suppress(OSError):
                click.echo(text, err=True)
    return int(status or 0)


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` off, wherever it stands before a ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != _DEBUG]
    return [*kept, *arguments[end:]], len(kept) < end


@contextlib.contextmanager
def _details_logged() -> Iterator[None]:
    """Show what the contract logs for those who look closely, such as the traceback of a skipped plugin."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger(__package__)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _verdict(error: BaseException) -> tuple[int, str]:
    """Exit status and text of an error."""
    match error:
        case KeyboardInterrupt() | click.Abort(__cause__=KeyboardInterrupt()):
            return _INTERRUPTED, ""
        case click.Abort():
            return _BAD, "Aborted."
        case click.exceptions.NoArgsIsHelpError():
            # A group without a subcommand: its help is the answer, in as many lines as it has.
            return _WRONG_USAGE, error.format_message()
        case click.UsageError():
            path = "ett" if error.ctx is None else error.ctx.command_path
            return _WRONG_USAGE, f"Error: {_flat(error.format_message())} (`{path} --help` shows the usage)"
        case click.ClickException():
            return error.exit_code, f"Error: {_flat(error.format_message())}"
        case EttError():
            return error.exit_code, f"Error: {one_line(error)}"
        case _:
            return _BAD, f"Error: {described(error)} (unexpected; {_DEBUG} shows where)"


def _flat(text: str) -> str:
    return " ".join(text.split())
