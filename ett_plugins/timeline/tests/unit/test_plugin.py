"""The plugin keeps to the contract, and the callback to its constructor's promises."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from ett_hookspecs.testing import PluginContractSuite
from ett_timeline import EffectiveTrainingTime


class TestContract(PluginContractSuite):
    plugin_module = "ett_timeline.plugin"
    distribution = "ett-timeline"


@pytest.mark.parametrize("job_dir", ["s3://bucket/job", "gs://bucket", "memory://x", "file:///tmp/job"])
def test_a_url_is_refused_since_the_timeline_is_memory_mapped(job_dir):
    with pytest.raises(ValueError, match="must be a local or shared POSIX path") as raised:
        EffectiveTrainingTime(job_dir)
    assert job_dir in str(raised.value)


def test_an_empty_directory_is_refused():
    with pytest.raises(ValueError, match="ETT_JOB_DIR"):
        EffectiveTrainingTime("")


def test_what_is_no_path_is_refused():
    with pytest.raises(TypeError):
        EffectiveTrainingTime(3)


def test_the_constructor_touches_nothing(tmp_path):
    EffectiveTrainingTime(tmp_path / "job")
    EffectiveTrainingTime(str(tmp_path / "job"))
    EffectiveTrainingTime()
    assert not (tmp_path / "job").exists()


def test_its_state_is_kept_under_the_name_of_its_distribution(tmp_path):
    assert EffectiveTrainingTime(tmp_path).state_key == "ett-timeline"


def test_before_a_training_it_has_no_state_and_takes_none(tmp_path):
    callback = EffectiveTrainingTime(tmp_path)
    callback.load_state_dict({"job_id": "x", "samples": 3})
    assert callback.state_dict() == {}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda callback: pickle.loads(pickle.dumps(callback))])
def test_it_can_be_copied(tmp_path, copied):
    callback = EffectiveTrainingTime(tmp_path / "job")
    assert vars(copied(callback)) == vars(callback)


def test_hooks_that_come_without_a_setup_do_nothing(tmp_path):
    callback = EffectiveTrainingTime(tmp_path / "job")
    callback.on_train_start(None, None)
    callback.on_train_batch_start(None, None, None, 0)
    callback.on_train_batch_end(None, None, None, None, 0)
    callback.on_train_epoch_end(None, None)
    callback.on_train_end(None, None)
    callback.on_validation_end(None, None)
    callback.on_exception(None, None, KeyboardInterrupt())
    callback.teardown(None, None, "fit")
    assert not (tmp_path / "job").exists()


def test_the_package_starts_without_lightning():
    program = (
        "import sys, ett_timeline, ett_timeline.cli; sys.exit('torch' in sys.modules or 'lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_package_has_nothing_but_what_it_names():
    import ett_timeline

    assert ett_timeline.EffectiveTrainingTime is EffectiveTrainingTime
    with pytest.raises(AttributeError, match="Effective"):
        _ = ett_timeline.EffectiveTrainingTimes
