"""The import contracts hold, and fail where they should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = Path(sys.executable).with_name("lint-imports")
PACKAGES = {
    "ett_hookspecs": "hookspecs/src",
    "ett_record": "ett_plugins/record/src",
    "ett_timeline": "ett_plugins/timeline/src",
    "ett_reference": "reference_model/src",
}


def lint(sources: Path) -> subprocess.CompletedProcess[str]:
    # The copy must be found before what is installed.
    return subprocess.run(
        [LINT, "--no-cache", "--no-logo", ROOT / "pyproject.toml"],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of every package, side by side, that a test may spoil."""
    for name, folder in PACKAGES.items():
        shutil.copytree(ROOT / folder / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_contracts_hold(sources: Path) -> None:
    outcome = lint(sources)
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("ett_hookspecs/types.py", "import ett_record", "ett_hookspecs imports no other part"),
        ("ett_hookspecs/attach.py", "import lightning.pytorch", "ett_hookspecs imports no other part"),
        ("ett_record/report.py", "import torch", "ett_record imports no plugin"),
        ("ett_record/lines.py", "import ett_timeline", "ett_record imports no plugin"),
        ("ett_timeline/plugin.py", "import lightning.pytorch", "only the callback and the probes"),
        ("ett_timeline/plugin.py", "import ett_reference", "No plugin imports another plugin"),
    ],
)
def test_a_forbidden_import_is_found(sources: Path, module: str, line: str, contract: str) -> None:
    with (sources / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    outcome = lint(sources)
    assert outcome.returncode == 1
    assert any(contract in row and "BROKEN" in row for row in outcome.stdout.splitlines()), outcome.stdout
