"""Fake installations, and silence from the plugins that are really installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Protocol

import pytest

from ett_hookspecs import JOB_DIR_VARIABLE
from ett_hookspecs.markers import DISABLE_VARIABLE, ENTRY_POINT_GROUP
from ett_hookspecs.testing import fake_distribution


class Install(Protocol):
    def __call__(
        self,
        name: str,
        *,
        version: str = "1.0",
        plugins: dict[str, str] | None = None,
        modules: dict[str, str] | None = None,
        folder: str = "site",
    ) -> Path: ...


REALLY_INSTALLED = sorted({entry_point.name for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP)})


@pytest.fixture(autouse=True)
def _undisturbed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISABLE_VARIABLE, ",".join(REALLY_INSTALLED))
    monkeypatch.delenv(JOB_DIR_VARIABLE, raising=False)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a fake distribution for the length of the test."""
    before = dict(sys.modules)

    def install(name, *, version="1.0", plugins=None, modules=None, folder="site"):
        place = fake_distribution(tmp_path / folder, name, version=version, plugins=plugins, modules=modules)
        if str(place) not in sys.path:
            monkeypatch.syspath_prepend(str(place))
        return place

    yield install
    # A fake plugin may pose as another module: what was there before is put back, and what came with it goes.
    for name, module in list(sys.modules.items()):
        was = before.get(name)
        if was is not None and was is not module:
            sys.modules[name] = was
        elif was is None and (module is sys or str(getattr(module, "__file__", "")).startswith(str(tmp_path))):
            del sys.modules[name]


@pytest.fixture
def disable(monkeypatch: pytest.MonkeyPatch):
    """Names plugins in the environment variable, beside those that are really installed."""

    def disable(*names: str) -> None:
        monkeypatch.setenv(DISABLE_VARIABLE, ",".join([*REALLY_INSTALLED, *names]))

    return disable
