"""What the documentation promises is what the code has, and every hook is tested."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import metadata
from pathlib import Path

import click
import pytest

from ett_hookspecs import specs

ROOT = Path(__file__).resolve().parents[2]
HOOKS = {
    name: function for name, function in vars(specs).items() if inspect.isfunction(function) and name.startswith("ett_")
}
HOOKS_PAGE = (ROOT / "docs/hooks.md").read_text(encoding="utf-8")
TEST_FILES = [
    path
    for folder in ("hookspecs", "ett_plugins", "reference_model", "tests")
    for path in sorted((ROOT / folder).glob("**/tests/**/test_*.py" if folder != "tests" else "**/test_*.py"))
    if path != Path(__file__).resolve()
]


def documented_signatures() -> dict[str, str]:
    return {m[1]: m[2] for m in re.finditer(r"^## `(\w+)\(([^)]*)\)`$", HOOKS_PAGE, flags=re.MULTILINE)}


def hooks_named_by_tests() -> set[str]:
    """Hooks that a test module calls or implements, be it in the source of a plugin that it writes."""
    named: set[str] = set()
    for path in TEST_FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                    named.add(name)
                case ast.Constant(value=str(text)):
                    named.update(re.findall(r"\bdef (ett_\w+)\(", text))
    return named & HOOKS.keys()


def test_every_hook_is_documented_under_its_own_heading() -> None:
    assert documented_signatures().keys() == HOOKS.keys()


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_the_documented_signature_is_the_real_one(hook: str) -> None:
    assert documented_signatures().get(hook) == ", ".join(inspect.signature(HOOKS[hook]).parameters)


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_the_page_shows_the_docstring_of_the_hook_it_heads(hook: str) -> None:
    _, _, section = HOOKS_PAGE.partition(f"## `{hook}(")
    section = section.partition("\n## ")[0]
    assert f".. autofunction:: ett_hookspecs.specs.{hook}\n" in section


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_a_docstring_says_what_kind_of_hook_it_is_and_where_it_runs(hook: str) -> None:
    text = inspect.getdoc(HOOKS[hook]) or ""
    assert text.startswith(("Observer:", "Participant:"))
    assert "*Runs on*" in text
    for argument in inspect.signature(HOOKS[hook]).parameters:
        assert re.search(rf"^\s+{argument}: ", text, flags=re.MULTILINE), f"{hook} does not say what {argument} is"


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_every_hook_has_a_test(hook: str) -> None:
    assert hook in hooks_named_by_tests()


def commands() -> dict[str, click.Command]:
    from ett_hookspecs.cli import ett

    context = click.Context(ett)
    found = {name: ett.get_command(context, name) for name in ett.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def undocumented_options(heading: str, command: click.Command) -> list[str]:
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    _, found, section = page.partition(f"\n## `{heading}")
    assert found, f"docs/cli.md has no section for `{heading}`"
    section = section.partition("\n## ")[0]
    options = (option for option in command.params if isinstance(option, click.Option) and not option.hidden)
    return [option.opts[0] for option in options if not re.search(rf"`{option.opts[0]}[` ]", section)]


def test_every_command_and_each_of_its_options_is_documented() -> None:
    for name, command in commands().items():
        assert undocumented_options(f"ett {name}", command) == []


def test_every_option_of_the_reference_model_is_documented() -> None:
    from ett_reference.cli import train

    assert undocumented_options("ett-reference train", train) == []


def test_every_documented_command_exists() -> None:
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `ett (\w+)", page, flags=re.MULTILINE)) == commands().keys()


def test_the_program_knows_which_distribution_offers_each_command() -> None:
    from ett_hookspecs.commands import OFFERED_BY

    offered = {
        command.name: entry_point.dist.name
        for entry_point in metadata.entry_points(group="ett.plugins")
        if entry_point.dist is not None
        for command in getattr(entry_point.load(), "ett_register_commands", list)()
    }
    assert offered == OFFERED_BY
