"""For the tests of plugins: a suite that every one of them passes, fake installations, and a manager that listens.

Needs pytest only as whoever runs the suite.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import click

from . import specs
from .manager import EttManager
from .marked import Marked, marked_functions
from .markers import CONTRACT_ATTRIBUTE, CONTRACT_VERSION, ENTRY_POINT_GROUP, hookimpl
from .roles import OFFERING_HOOKS, is_participant
from .types import Command

_HEAVY = ("lightning", "pytorch_lightning", "torch")


def fake_distribution(
    folder: Path,
    name: str,
    *,
    version: str = "1.0",
    plugins: Mapping[str, str] | None = None,
    modules: Mapping[str, str] | None = None,
) -> Path:
    """Lay out an installed distribution, as pip would.

    Args:
        folder: Put it on ``sys.path`` afterwards.
        name: The distribution's name.
        version: Its version.
        plugins: Entry points of the group ``ett.plugins``: name to module.
        modules: Dotted module name to source text.

    Returns:
        `folder`.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [f"[{ENTRY_POINT_GROUP}]", *(f"{key} = {value}" for key, value in (plugins or {}).items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for module_name, source in (modules or {}).items():
        *packages, stem = module_name.split(".")
        package = folder
        for part in packages:
            package /= part
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
        (package / f"{stem}.py").write_text(source, encoding="utf-8")
    # The import system remembers folders by their time stamps, which are too coarse for this.
    importlib.invalidate_caches()
    return folder


class RecordingManager(EttManager):
    """A manager without installed plugins that keeps what observers were told.

    Attributes:
        calls: Name and arguments of each delivered call of an observer hook, in order.
    """

    def __init__(self, rank: int | None = None) -> None:
        super().__init__(rank)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.register(SimpleNamespace(**{name: self._listener(name) for name in observer_hooks()}), "recorder")

    def told(self, hook_name: str) -> list[dict[str, Any]]:
        """The arguments of every call of one hook."""
        return [arguments for name, arguments in self.calls if name == hook_name]

    def _listener(self, hook_name: str) -> Callable[..., None]:
        spec = getattr(specs, hook_name)
        names = list(inspect.signature(spec).parameters)

        @functools.wraps(spec)
        def listen(*values: Any) -> None:
            self.calls.append((hook_name, dict(zip(names, values, strict=True))))

        hookimpl(listen)
        return listen


def recording_manager(rank: int | None = None) -> RecordingManager:
    """A manager for tests: no installed plugin, and everything that observers were told is in its ``calls``."""
    return RecordingManager(rank)


def hook_names() -> list[str]:
    """Every hook of the contract, in alphabetical order."""
    return sorted(name for name in vars(specs) if name.startswith("ett_"))


def observer_hooks() -> list[str]:
    """The hooks that are told something."""
    return [name for name in hook_names() if not is_participant(name)]


class PluginContractSuite:
    """What every plugin keeps to.

    Subclass it in the plugin's tests::

        class TestContract(PluginContractSuite):
            plugin_module = "ett_timeline.plugin"
            distribution = "ett-timeline"

    Attributes:
        plugin_module: The module behind the entry point, or its name.
        distribution: The distribution that offers it, installed.
    """

    plugin_module: ClassVar[ModuleType | str]
    distribution: ClassVar[str]

    def test_its_entry_point_is_its_module(self) -> None:
        """Otherwise nobody finds the plugin."""
        offered = metadata.distribution(self.distribution).entry_points.select(group=ENTRY_POINT_GROUP)
        values = [entry_point.value for entry_point in offered]
        assert values == [self._module().__name__], f"{self.distribution} offers {values} in {ENTRY_POINT_GROUP}"

    def test_it_registers_and_leaves_no_hook_pending(self) -> None:
        """Refuses misspelt hooks and wrappers."""
        manager = EttManager()
        manager.register(self._module(), self.distribution)
        manager.check_pending()

    def test_its_signatures_are_subsets_of_the_specs(self) -> None:
        """So that a hook may gain an argument without breaking the plugin."""
        for marked in self._marked():
            allowed = list(inspect.signature(getattr(specs, marked.hook)).parameters)
            taken = list(inspect.signature(marked.function).parameters)
            assert set(taken) <= set(allowed), f"{marked.attribute} takes {taken}; {marked.hook} has {allowed}"

    def test_it_was_built_for_this_contract(self) -> None:
        """The same major version, and no newer minor one."""
        major, minor = vars(self._module()).get(CONTRACT_ATTRIBUTE, CONTRACT_VERSION)
        assert major == CONTRACT_VERSION[0], f"built for contract {major}.{minor}, this is {CONTRACT_VERSION}"
        assert minor <= CONTRACT_VERSION[1], f"built for contract {major}.{minor}, this is {CONTRACT_VERSION}"

    def test_installing_it_changes_nothing_in_a_training(self) -> None:
        """The module only offers things; what acts is registered by a callback that the user added."""
        acting = sorted({marked.hook for marked in self._marked()} - OFFERING_HOOKS)
        assert not acting, f"{self._module().__name__} implements {acting}: register them from a callback"

    def test_finding_it_imports_neither_torch_nor_lightning(self) -> None:
        """So that the program starts at once, and a training imports nothing that it does not use."""
        heavy = [name for name in _imported_by([self._module().__name__]) if name in _HEAVY]
        assert not heavy, f"importing {self._module().__name__} imports {heavy}"

    def test_its_commands_can_be_loaded_and_explain_themselves(self) -> None:
        """Each has one line for `ett --help`, a help of its own, and answers `--help`."""
        from click.testing import CliRunner

        for command in self._commands():
            assert command.help.strip(), f"{command.name} has no line for `ett --help`"
            assert "\n" not in command.help, f"the help of {command.name} has more than one line"
            target = pkgutil.resolve_name(command.target)
            assert isinstance(target, click.Command), f"{command.target} is no click command"
            for path, each in _tree(command.name, target):
                assert (each.help or "").strip(), f"{path} has no help"
                result = CliRunner().invoke(each, ["--help"])
                assert result.exit_code == 0, f"{path} --help exits with {result.exit_code}: {result.output}"

    def test_it_imports_no_other_plugin(self) -> None:
        """Plugins meet only through hooks."""
        others = {
            entry_point.value.partition(":")[0].partition(".")[0]
            for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP)
            if entry_point.dist is None or entry_point.dist.name != self.distribution
        }
        package = self._module().__name__.partition(".")[0]
        targets = [command.target.partition(":")[0] for command in self._commands()]
        foreign = sorted((others - {package}) & set(_imported_by([self._module().__name__, *targets])))
        assert not foreign, f"{package} imports {foreign}"

    def _module(self) -> ModuleType:
        given = self.plugin_module
        return importlib.import_module(given) if isinstance(given, str) else given

    def _marked(self) -> list[Marked]:
        return marked_functions(self._module())

    def _commands(self) -> list[Command]:
        manager = EttManager()
        manager.register(self._module(), self.distribution)
        return [command for answer in manager.hook.ett_register_commands() for command in answer]


def _tree(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            if inner is not None:
                yield from _tree(f"{path} {name}", inner)


def _imported_by(module_names: Sequence[str]) -> list[str]:
    """Top-level packages that a fresh interpreter holds after these imports."""
    program = (
        "import importlib, json, sys\n"
        f"for name in {list(module_names)!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(  # noqa: S603  our own text
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"importing {', '.join(module_names)} fails:\n{done.stderr}"
    imported: list[str] = json.loads(done.stdout.splitlines()[-1])
    return imported
