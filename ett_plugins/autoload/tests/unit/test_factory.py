"""The factory adds a callback where there is something to measure, and otherwise leaves no trace."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ett_hookspecs.context
import ett_hookspecs.markers
from ett_autoload import callbacks, factory
from ett_hookspecs.testing import PluginContractSuite
from ett_timeline import EffectiveTrainingTime


class TestContract(PluginContractSuite):
    plugin_module = "ett_autoload.plugin"
    distribution = "ett-autoload"


def test_a_job_directory_in_the_environment_adds_the_callback(job_dir):
    (callback,) = callbacks()
    assert isinstance(callback, EffectiveTrainingTime)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_without_one_nothing_is_added(monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("ETT_JOB_DIR", value)
    assert callbacks() == []


@pytest.mark.parametrize("environ", [{}, {"ETT_JOB_DIR": "job", "ETT_DISABLE_PLUGINS": "autoload"}])
def test_where_there_is_nothing_to_measure_nothing_is_imported(environ):
    program = (
        "import json, sys, ett_autoload\n"
        "assert ett_autoload.callbacks() == []\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    imported = set(json.loads(done.stdout))
    assert not imported & {"torch", "lightning", "ett_timeline", "ett_record", "ett_hookspecs", "pluggy", "click"}


@pytest.mark.parametrize(
    ("disabled", "added"),
    [("autoload", 0), ("timeline", 0), ("*", 0), ("wandb, autoload", 0), ("wandb", 1), ("", 1), ("autoloader", 1)],
)
def test_it_can_be_disabled_like_any_plugin(job_dir, monkeypatch, disabled, added):
    monkeypatch.setenv("ETT_DISABLE_PLUGINS", disabled)
    assert len(callbacks()) == added


@pytest.mark.parametrize("url", ["s3://bucket/job", "file:///tmp/job", "gs://bucket"])
def test_a_url_is_one_warning_however_many_trainers_there_are(monkeypatch, warned, url):
    monkeypatch.setenv("ETT_JOB_DIR", url)
    assert callbacks() == callbacks() == []
    (warning,) = warned()
    assert "unmeasured" in warning
    assert f"ETT_JOB_DIR={url}" in warning


@pytest.mark.parametrize("missing", ["ett_timeline", "ett_timeline.callback", "ett_record"])
def test_a_broken_installation_is_one_warning(job_dir, monkeypatch, warned, missing):
    for name in [name for name in sys.modules if name.startswith(("ett_autoload.callback", "ett_timeline"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert callbacks() == callbacks() == []
    (warning,) = warned()
    assert "unmeasured" in warning
    assert missing in warning
    assert "\n" not in warning


def test_only_rank_zero_warns(monkeypatch, warned):
    monkeypatch.setenv("ETT_JOB_DIR", "s3://bucket")
    monkeypatch.setattr("lightning.pytorch.utilities.rank_zero_only.rank", 1)
    assert callbacks() == []
    assert warned() == []


def test_the_variables_are_those_of_the_contract():
    assert factory.JOB_DIR_VARIABLE == ett_hookspecs.context.JOB_DIR_VARIABLE
    assert factory.DISABLE_VARIABLE == ett_hookspecs.markers.DISABLE_VARIABLE
