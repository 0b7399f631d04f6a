"""The distributions are alike where they must be."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = sorted(
    path.parent
    for pattern in ("hookspecs", "ett_plugins/*", "reference_model")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)


def project(distribution: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((distribution / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


@pytest.fixture(params=DISTRIBUTIONS, ids=lambda path: path.name)
def distribution(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_a_distribution_has_its_files(distribution: Path) -> None:
    (package,) = (path for path in (distribution / "src").iterdir() if (path / "__init__.py").exists())
    assert (package / "py.typed").exists()
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "tests"):
        assert (distribution / name).exists(), name
    assert not list((distribution / "tests").rglob("__init__.py")), "tests are no package, else same names collide"


def test_a_distribution_carries_the_licence_of_the_workspace(distribution: Path) -> None:
    assert (distribution / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_changelog_speaks_of_the_present_version(distribution: Path) -> None:
    text = (distribution / "CHANGELOG.md").read_text(encoding="utf-8")
    version = project(distribution)["version"]
    assert re.search(rf"^## {re.escape(str(version))}\b", text, flags=re.MULTILINE)


def test_the_readme_lists_every_distribution() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for distribution in DISTRIBUTIONS:
        assert f"`{distribution.relative_to(ROOT)}/` | `{project(distribution)['name']}`" in text


def test_every_dependency_is_pinned_for_the_workspace() -> None:
    pinned = {
        canonical(line.partition("==")[0])
        for line in (ROOT / "requirements/constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    own = {canonical(str(project(distribution)["name"])) for distribution in DISTRIBUTIONS}
    for distribution in DISTRIBUTIONS:
        for requirement in project(distribution).get("dependencies", []):
            name = canonical(re.split(r"[^\w.-]", requirement)[0])
            assert name in pinned | own, f"{distribution.name} needs {name}, which requirements/ does not pin"


INSTALLED_BY_RECIPE = {"torchrec", "fbgemm-gpu-cpu"}
"""torchrec's metadata demands the CUDA build of fbgemm: whoever declares it cannot be installed beside a CPU torch."""


def imported_packages(distribution: Path) -> set[str]:
    """Top-level names that the source imports, wherever in a module it does."""
    names: set[str] = set()
    for path in (distribution / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=aliases):
                    names.update(alias.name.partition(".")[0] for alias in aliases)
                case ast.ImportFrom(level=0, module=str(module)):
                    names.add(module.partition(".")[0])
    return names - sys.stdlib_module_names - {path.name for path in (distribution / "src").iterdir()}


def test_what_a_distribution_imports_it_declares(distribution: Path) -> None:
    table = project(distribution)
    declared = [*table.get("dependencies", []), *itertools.chain(*table.get("optional-dependencies", {}).values())]
    known = {canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in declared}
    providers = packages_distributions()
    for package in sorted(imported_packages(distribution)):
        candidates = {canonical(name) for name in providers.get(package, [package])}
        assert candidates & (known | INSTALLED_BY_RECIPE), f"{distribution.name} does not declare {sorted(candidates)}"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("page", ["README.md", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/*.md")))])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("package", ["ett_hookspecs.cli", "ett_record", "ett_timeline.plugin"])
def test_the_program_starts_without_torch_and_lightning(package: str) -> None:
    code = f"import sys, {package}; sys.exit(any(name in sys.modules for name in ('torch', 'lightning', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
