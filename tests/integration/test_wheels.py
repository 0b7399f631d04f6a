"""Each distribution can be built, installed and used alone, and all of them together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "ett-hookspecs": "hookspecs",
    "ett-record": "ett_plugins/record",
    "ett-timeline": "ett_plugins/timeline",
    "ett-autoload": "ett_plugins/autoload",
    "ett-reference-model": "reference_model",
}
IMPORTS = {
    "ett-hookspecs": "ett_hookspecs",
    "ett-record": "ett_record",
    "ett-timeline": "ett_timeline",
    "ett-autoload": "ett_autoload",
    "ett-reference-model": "ett_reference",
}
NEEDS_NEITHER = ("ett-hookspecs", "ett-record")
"""Distributions that must not bring a training framework along."""

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ETT_", "PYTHON", "VIRTUAL_ENV"))}
    outcome = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if check and outcome.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}\n{outcome.stdout}\n{outcome.stderr}")
    return outcome


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment, in which nothing of this workspace can be seen but what was installed."""

    path: Path
    constraints: Path

    @property
    def site_packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.path), "platbase": str(self.path)}))

    def pip(self, *arguments: str | Path) -> None:
        # Byte code is left to the first import: most of what is installed here is never imported.
        self.python("-m", "pip", "--disable-pip-version-check", *arguments)

    def install(self, *arguments: str | Path) -> None:
        self.pip("install", "--quiet", "--no-compile", "-c", self.constraints, *arguments)

    def python(self, *arguments: str | Path) -> str:
        return run(self.path / "bin/python", *arguments, cwd=self.path).stdout

    def ett(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run(self.path / "bin/ett", *arguments, cwd=self.path, check=check)

    def installed(self) -> dict[str, str]:
        listed = json.loads(self.python("-m", "pip", "--disable-pip-version-check", "list", "--format=json"))
        return {entry["name"].lower().replace("_", "-"): entry["version"] for entry in listed}


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each distribution as an sdist, and the wheel built from that sdist."""
    built: dict[str, Path] = {}
    for name, folder in FOLDERS.items():
        out = tmp_path_factory.mktemp(name)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT / folder)
        (built[name],) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def constraints(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace's versions; torch in the build that runs here; our own distributions from nowhere but here."""
    lines = [
        line
        for line in (ROOT / "requirements/constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("torch==")
    ]
    lines.append(f"torch=={version('torch')}")
    lines.extend(f"{name} @ {wheel.as_uri()}" for name, wheel in wheels.items())
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def make_environment(path: Path, constraints: Path) -> Environment:
    run(sys.executable, "-m", "venv", path)
    return Environment(path, constraints)


@pytest.fixture(scope="session")
def environments(
    wheels: dict[str, Path], constraints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Environment]]:
    """One per distribution that pip can resolve by itself, with nothing but it and what it declares."""
    made: dict[str, Environment] = {}
    home = tmp_path_factory.mktemp("environments")
    for name in ("ett-hookspecs", "ett-record", "ett-timeline"):
        made[name] = make_environment(home / name, constraints)
        made[name].install(wheels[name])
    made["ett-autoload"] = linked(made["ett-timeline"], home / "ett-autoload", without="ett_")
    made["ett-autoload"].install(*(wheels[name] for name in (*made, "ett-autoload")))
    yield made
    shutil.rmtree(home)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_holds_the_package_its_types_and_its_licence(name: str, wheels: dict[str, Path]) -> None:
    members = zipfile.ZipFile(wheels[name]).namelist()
    package = IMPORTS[name]
    source = ROOT / FOLDERS[name] / "src" / package
    expected = {
        f"{package}/{path.relative_to(source)}"
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= set(members)
    assert f"{package}/py.typed" in members
    assert any(member.endswith("licenses/LICENSE") for member in members)
    assert {member.partition("/")[0].partition("-")[0] for member in members} <= {package, name.replace("-", "_")}


@pytest.mark.parametrize("name", ["ett-hookspecs", "ett-record", "ett-timeline", "ett-autoload"])
def test_a_distribution_works_alone(name: str, environments: dict[str, Environment]) -> None:
    environment = environments[name]
    environment.pip("check")
    environment.python("-c", f"import {IMPORTS[name]}")
    others = {other for other in FOLDERS if other in environment.installed()}
    assert (
        others
        == {
            "ett-hookspecs": {"ett-hookspecs"},
            "ett-record": {"ett-hookspecs", "ett-record"},
            "ett-timeline": {"ett-hookspecs", "ett-record", "ett-timeline"},
            "ett-autoload": {"ett-hookspecs", "ett-record", "ett-timeline", "ett-autoload"},
        }[name]
    )


@pytest.mark.parametrize("name", NEEDS_NEITHER)
def test_a_library_brings_no_training_framework(name: str, environments: dict[str, Environment]) -> None:
    assert not {"torch", "lightning", "pytorch-lightning", "numpy"} & environments[name].installed().keys()


def test_the_program_runs_with_no_plugin_at_all(environments: dict[str, Environment]) -> None:
    environment = environments["ett-hookspecs"]
    assert environment.installed()["ett-hookspecs"] in environment.ett("--version").stdout
    assert json.loads(environment.ett("plugins", "--json").stdout)["plugins"] == []


def test_the_timeline_is_found_through_its_entry_point(environments: dict[str, Environment]) -> None:
    (plugin,) = json.loads(environments["ett-timeline"].ett("plugins", "--json").stdout)["plugins"]
    assert (plugin["name"], plugin["distribution"], plugin["status"]) == ("timeline", "ett-timeline", "loaded")
    assert "ett_register_commands" in plugin["hooks"]


TRAINING = """
import sys
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from ett_timeline import EffectiveTrainingTime

Trainer(
    max_steps=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[EffectiveTrainingTime(sys.argv[1])],
).fit(BoringModel())
"""


UNCHANGED = """
import os, sys
os.environ["ETT_JOB_DIR"] = sys.argv[1]
""" + TRAINING.replace("from ett_timeline import EffectiveTrainingTime", "").replace(
    "callbacks=[EffectiveTrainingTime(sys.argv[1])],", ""
)


def check_a_training_is_measured(environment: Environment, job_dir: Path, training: str = TRAINING) -> None:
    environment.python("-W", "ignore", "-c", training, job_dir)
    report = json.loads(environment.ett("report", job_dir, "--json").stdout)
    assert report["schema"] == "ett.report/1"
    assert report["state"] == "finished"
    assert report["steps"] == {"new": 3, "repeated": 0}
    assert sum(report["stages"].values()) == pytest.approx(report["wall_s"], abs=1e-3)


def test_the_timeline_alone_measures_a_training(environments: dict[str, Environment], tmp_path: Path) -> None:
    check_a_training_is_measured(environments["ett-timeline"], tmp_path / "job")


def test_autoload_alone_measures_a_training_that_knows_nothing_of_it(
    environments: dict[str, Environment], tmp_path: Path
) -> None:
    assert "ett" not in UNCHANGED.replace("ETT_JOB_DIR", "")
    check_a_training_is_measured(environments["ett-autoload"], tmp_path / "job", UNCHANGED)


def linked(source: Environment, path: Path, *, without: str = "") -> Environment:
    """A fresh environment with the packages of another: linked, not installed again, since torch takes its time.

    Args:
        source: The other one.
        path: Where the new one goes.
        without: Beginning of the names that are left out.
    """
    environment = make_environment(path, source.constraints)
    present = {entry.name for entry in environment.site_packages.iterdir()}
    for entry in source.site_packages.iterdir():
        if entry.name in present or (without and entry.name.startswith(without)):
            continue
        target = environment.site_packages / entry.name
        if entry.is_dir():
            shutil.copytree(entry, target, copy_function=os.link)
        else:
            os.link(entry, target)
    return environment


@pytest.fixture(scope="session")
def reference_alone(
    environments: dict[str, Environment], wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    """The reference model with what it declares, and torchrec by the CPU recipe; no other plugin."""
    home = tmp_path_factory.mktemp("reference")
    environment = linked(environments["ett-timeline"], home / "venv", without="ett_")
    environment.install(wheels["ett-reference-model"])
    environment.install("iopath", "pyre-extensions", "tensordict", "torchmetrics", "tqdm")
    environment.install("--no-deps", "-r", ROOT / "requirements/3-no-deps.txt")
    yield environment
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def everything(
    reference_alone: Environment, wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    """All distributions in one environment."""
    home = tmp_path_factory.mktemp("everything")
    environment = linked(reference_alone, home / "venv", without="ett_")
    environment.install(*wheels.values())
    yield environment
    shutil.rmtree(home)


def test_the_reference_model_alone_trains_without_any_plugin(reference_alone: Environment, tmp_path: Path) -> None:
    assert {name for name in FOLDERS if name in reference_alone.installed()} == {"ett-hookspecs", "ett-reference-model"}
    train(reference_alone, tmp_path / "job", "--with", "none")
    assert not (tmp_path / "job/timeline").exists()


def test_all_distributions_work_together(everything: Environment, tmp_path: Path) -> None:
    assert set(FOLDERS) <= everything.installed().keys()
    for package in IMPORTS.values():
        everything.python("-W", "ignore", "-c", f"import {package}")
    check_a_training_is_measured(everything, tmp_path / "job")


def train(environment: Environment, job_dir: Path, *with_what: str) -> None:
    """A few batches of the reference model on synthetic data."""
    run(
        environment.path / "bin/ett-reference", "train", "--job-dir", job_dir, "--data", "synthetic",
        "--preset", "small", "--max-samples", "512", "--ranks", "1", *with_what, cwd=job_dir.parent,
    )  # fmt: skip


def test_the_reference_model_is_measured_where_the_timeline_is_installed(
    everything: Environment, tmp_path: Path
) -> None:
    train(everything, tmp_path / "job", "--with", "timeline")
    report = json.loads(everything.ett("report", tmp_path / "job", "--json").stdout)
    assert report["state"] == "finished"
    assert report["samples"] == {"new": 512, "repeated": 0, "skipped": 0}


def test_the_cuda_build_of_fbgemm_is_nowhere(everything: Environment) -> None:
    installed = everything.installed()
    assert "fbgemm-gpu" not in installed
    assert not [name for name in installed if name.startswith("nvidia")]
