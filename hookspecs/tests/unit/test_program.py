from __future__ import annotations

import json

import click
import pytest

from ett_hookspecs import EttError, cli, commands
from ett_hookspecs.commands import EttGroup

PLUGIN = """
from ett_hookspecs import Command, hookimpl

@hookimpl
def ett_register_commands():
    return [Command(name={name!r}, help="Do a {name}.", target="{module}_cli:command")]
"""

COMMANDS = """
import sys
import click
from ett_hookspecs import EttError

@click.group()
def command():
    "A group of faults."

@command.command()
@click.argument("text", default="hello")
@click.option("--number", type=int)
def say(text, number):
    "Say something."
    click.echo(f"{text} {number}")
    return 7

@command.command()
@click.argument("code", type=int)
def fail(code):
    raise EttError("the snapshot 10 is corrupt:\\n delete it", exit_code=code)

@command.command()
def explode():
    raise LookupError("first line\\nsecond line")

@command.command()
def interrupt():
    raise KeyboardInterrupt

@command.command()
def leave():
    click.get_current_context().exit(4)

@command.command()
def refuse():
    raise click.ClickException("not today")

@command.command()
def ask():
    click.confirm("Sure?", abort=True)
    click.echo("done")

@command.command()
def stop():
    sys.exit(9)
"""


@pytest.fixture
def do(install):
    """A plugin with a command that can fail in every way."""
    modules = {"fake_do": PLUGIN.format(name="do", module="fake_do"), "fake_do_cli": COMMANDS}
    install("fake-do", version="1.5", plugins={"do": "fake_do"}, modules=modules)


@pytest.fixture
def ett(capsys):
    def ett(*arguments):
        status = cli.run(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return ett


def test_without_a_command_the_program_explains_itself(ett, do):
    status, out, err = ett()
    assert (status, err) == (0, "")
    assert "EffectiveTrainingTime" in out
    assert "ett report runs/job1" in out
    assert "Do a do." in out
    assert "List every installed plugin" in out
    assert ett("--help") == (0, out, "")
    assert ett("-h") == (0, out, "")


def test_the_version_names_the_contract(ett):
    status, out, _ = ett("--version")
    assert status == 0
    assert out.startswith("ett ")
    assert out.endswith(" (contract 1.0)\n")


def test_a_command_runs_and_what_it_returns_is_no_exit_status(ett, do):
    assert ett("do", "say", "--number", "3") == (0, "hello 3\n", "")


def test_help_does_not_import_the_command(ett, install):
    modules = {"fake_lazy": PLUGIN.format(name="lazy", module="fake_lazy"), "fake_lazy_cli": "raise SystemExit(5)\n"}
    install("fake-lazy", plugins={"lazy": "fake_lazy"}, modules=modules)
    status, out, _ = ett("--help")
    assert status == 0
    assert "Do a lazy." in out


@pytest.mark.parametrize("code", [1, 2])
def test_an_error_of_ours_is_one_line_and_its_exit_status(ett, do, code):
    assert ett("do", "fail", str(code)) == (code, "", "Error: the snapshot 10 is corrupt: delete it\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("--nonsense",),
        ("do", "nonsense"),
        ("do", "say", "--nonsense"),
        ("do", "say", "--number", "x"),
        ("do", "say", "a", "b"),
        ("do", "fail"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_2(ett, do, arguments):
    status, out, err = ett(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert "--help` shows the usage" in err


def test_a_group_without_a_command_shows_its_help(ett, do):
    status, _, err = ett("do")
    assert status == 2
    assert "Say something." in err
    assert "Error" not in err


def test_an_unknown_command_says_where_commands_come_from_and_which_plugins_are_off(ett, install, disable):
    install("fake-y", plugins={"y": "fake_y"})
    disable("y")
    status, out, err = ett("nonsense")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "commands come from plugins, `ett plugins` lists the installed ones" in err
    assert "y is disabled" in err


def test_a_command_of_a_plugin_that_is_off_says_who_offers_it_and_why_it_is_off(ett, install, disable, monkeypatch):
    monkeypatch.setitem(commands.OFFERED_BY, "watchdog", "fake-y")
    assert "No such command 'watchdog': install fake-y, which offers it" in ett("watchdog")[2]
    install("fake-y", plugins={"y": "fake_y"})
    disable("y")
    err = ett("watchdog")[2]
    assert "fake-y offers it, but its plugin 'y' is disabled: ETT_DISABLE_PLUGINS says so" in err
    assert err.count("\n") == 1


def test_a_command_that_its_distribution_no_longer_offers_is_unknown(ett, install, monkeypatch):
    monkeypatch.setitem(commands.OFFERED_BY, "watchdog", "fake-y")
    install("fake-y", plugins={"y": "fake_y"}, modules={"fake_y": ""})
    assert "No such command 'watchdog': commands come from plugins" in ett("watchdog")[2]


def test_an_unexpected_exception_is_one_line_that_names_it(ett, do):
    status, out, err = ett("do", "explode")
    assert (status, out) == (1, "")
    assert err == "Error: LookupError: first line (unexpected; --debug shows where)\n"


@pytest.mark.parametrize(
    "arguments", [("--debug", "do", "explode"), ("do", "--debug", "explode"), ("do", "explode", "--debug")]
)
def test_debug_shows_the_traceback_wherever_it_stands(ett, do, arguments):
    status, _, err = ett(*arguments)
    assert status == 1
    assert "Traceback (most recent call last)" in err
    assert "in explode" in err
    assert err.endswith("Error: LookupError: first line (unexpected; --debug shows where)\n")


def test_debug_behind_two_dashes_belongs_to_the_command(ett, do):
    assert ett("do", "say", "--", "--debug") == (0, "--debug None\n", "")


def test_other_errors_of_click_keep_their_status(ett, do):
    assert ett("do", "refuse") == (1, "", "Error: not today\n")
    assert ett("do", "leave")[0] == 4


def test_an_exit_of_the_command_passes(ett, do):
    with pytest.raises(SystemExit) as raised:
        ett("do", "stop")
    assert raised.value.code == 9


def test_ctrl_c_leaves_with_130_and_no_traceback(ett, do):
    status, out, err = ett("do", "interrupt")
    assert (status, out, err.strip()) == (130, "", "")


def test_a_question_answered_with_no_is_exit_status_1(ett, do, monkeypatch):
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda *_: "n")
    status, _, err = ett("do", "ask")
    assert (status, err) == (1, "Aborted.\n")


def test_a_name_offered_twice_is_refused_naming_both_plugins(ett, install):
    for module in ("fake_a", "fake_b"):
        source = PLUGIN.format(name="twice", module=module)
        install(module.replace("_", "-"), plugins={module: module}, modules={module: source})
    status, out, err = ett("twice")
    assert (status, out) == (1, "")
    assert "plugin 'fake_a' (fake-a 1.0) and by plugin 'fake_b' (fake-b 1.0)" in err
    assert err.count("\n") == 1


def test_a_name_of_our_own_cannot_be_taken(ett, install):
    install("fake-thief", plugins={"thief": "fake_t"}, modules={"fake_t": PLUGIN.format(name="plugins", module="x")})
    assert "'plugins' is offered by ett itself and by plugin 'thief' (fake-thief 1.0)" in ett("other")[2]
    assert ett("plugins")[0] == 0


def test_a_command_that_cannot_be_imported_is_one_line_that_names_its_plugin(ett, install):
    install("fake-x", version="0.2", plugins={"x": "fake_x"}, modules={"fake_x": PLUGIN.format(name="x", module="no")})
    status, _, err = ett("x")
    assert status == 1
    assert "the command 'x' of plugin 'x' (fake-x 0.2) cannot be loaded" in err
    assert "ModuleNotFoundError: No module named 'no_cli'" in err
    assert err.count("\n") == 1


def test_a_command_that_is_no_click_command_is_refused(ett, install):
    modules = {"fake_x": PLUGIN.format(name="x", module="fake_x"), "fake_x_cli": "command = print\n"}
    install("fake-x", plugins={"x": "fake_x"}, modules=modules)
    assert "fake_x_cli:command is no click command" in ett("x")[2]


def test_a_plugin_that_does_not_answer_with_commands_is_named(ett, install):
    source = "from ett_hookspecs import hookimpl\n@hookimpl\ndef ett_register_commands():\n    return ['x']\n"
    install("fake-x", plugins={"x": "fake_x"}, modules={"fake_x": source})
    assert "plugin 'x' (fake-x 1.0) answered ett_register_commands with 'x', which is no Command" in ett("x")[2]


BROKEN = {
    "import": "raise ImportError('no such library')\n",
    "typo": "from ett_hookspecs import hookimpl\n@hookimpl\ndef ett_register_command(): ...\n",
    "answer": "from ett_hookspecs import hookimpl\n@hookimpl\ndef ett_register_commands(): 1 / 0\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_leaves_the_help_and_the_listing_usable(ett, install, kind):
    install("fake-x", plugins={"x": "fake_x"}, modules={"fake_x": BROKEN[kind]})
    status, out, _ = ett("--help")
    assert status == 0
    assert "List every installed plugin" in out
    status, out, err = ett("plugins", "--json")
    assert (status, err) == (0, "")
    assert "x" in [plugin["name"] for plugin in json.loads(out)["plugins"]]


def test_the_help_says_why_commands_are_missing(ett, install):
    install("fake-x", plugins={"x": "fake_x"}, modules={"fake_x": BROKEN["typo"]})
    _, _, err = ett("--help")
    assert err.startswith("Error: plugin 'x' (fake-x 1.0): ett_register_command implements an unknown hook")
    assert err.count("\n") == 1


def test_the_listing_as_json_tells_what_became_of_each_plugin(ett, install, do, disable):
    install("fake-x", plugins={"x": "fake_x"}, modules={"fake_x": BROKEN["typo"]})
    install("fake-y", plugins={"y": "fake_y"})
    disable("y")
    listing = json.loads(ett("plugins", "--json")[1])
    assert listing["schema"] == "ett.plugins/1"
    assert listing["contract"] == "1.0"
    plugins = {plugin["name"]: plugin for plugin in listing["plugins"]}
    assert plugins["do"] == {
        "name": "do",
        "module": "fake_do",
        "distribution": "fake-do",
        "version": "1.5",
        "contract": "1.0",
        "status": "loaded",
        "reason": None,
        "hooks": ["ett_register_commands"],
    }
    assert plugins["x"]["status"] == "refused"
    assert plugins["y"]["status"] == "disabled"


def test_the_listing_as_a_table_tells_the_same(ett, install, do):
    install("fake-x", version="0.1[beta]", plugins={"x": "fake_x"}, modules={"fake_x": BROKEN["import"]})
    status, out, err = ett("plugins")
    assert (status, err) == (0, "")
    for text in ("fake-do", "1.5", "ett_register_commands", "loaded", "0.1[beta]", "skipped"):
        assert text in out
    assert "x is skipped: it cannot be imported (ImportError: no such library)" in out


def test_the_table_fits_a_narrow_terminal_with_every_hook_in_one_piece(ett, install, monkeypatch):
    hooks = ("ett_register_commands", "ett_choose_batch_samples", "ett_choose_stage_owner")
    source = "from ett_hookspecs import hookimpl\n" + "".join(f"@hookimpl\ndef {hook}(): ...\n" for hook in hooks)
    install("fake-many-hooks", version="10.20.30", plugins={"many_hooks": "fake_m"}, modules={"fake_m": source})
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    out = ett("plugins")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert [line for line in out.splitlines() if line.endswith(" ")] == []
    for text in ("fake-many-hooks 10.20.30", *hooks):
        assert text in out


def test_a_listing_without_any_plugin_says_what_to_install(ett, monkeypatch):
    monkeypatch.setattr("ett_hookspecs.listing.load_plugins", lambda *_, **__: ())
    assert "ett-timeline" in ett("plugins")[1]


def test_shell_completion_knows_the_commands_of_plugins(do):
    assert isinstance(cli.ett, EttGroup)
    assert cli.ett.list_commands(click.Context(cli.ett)) == ["do", "plugins"]


def test_errors_of_ours_ask_for_exit_status_1_by_default():
    assert EttError("x").exit_code == 1
