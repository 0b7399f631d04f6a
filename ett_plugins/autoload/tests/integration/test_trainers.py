"""Trainers made where ETT_JOB_DIR is set are measured, once, and their checkpoints are those of a measured training."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import partial

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping

from ett_autoload.callback import AutoloadedTrainingTime
from ett_timeline import EffectiveTrainingTime

KEY = EffectiveTrainingTime().state_key


class Own(EffectiveTrainingTime):
    """A user's own variety."""


def measuring(trainer):
    return [callback for callback in trainer.callbacks if isinstance(callback, EffectiveTrainingTime)]


def test_a_trainer_that_knows_nothing_is_measured(job_dir, make_trainer, model, process, report):
    with process():
        make_trainer().fit(model())
    found = report(job_dir)
    assert (found.state, found.steps.new, found.samples.new) == ("finished", 3, 12)


def test_without_a_job_directory_a_trainer_has_no_callback_more(make_trainer):
    assert measuring(make_trainer()) == []


@pytest.mark.parametrize("own", [EffectiveTrainingTime, Own])
@pytest.mark.parametrize("comes", ["in the list", "in front", "appended", "from the model"])
def test_it_gives_way_to_one_of_the_users_own(tmp_path, job_dir, make_trainer, model, process, report, own, comes):
    theirs = own(tmp_path / "theirs")
    trained = model()
    with process():
        trainer = make_trainer(*([theirs] if comes == "in the list" else []))
        if comes == "in front":
            trainer.callbacks.insert(0, theirs)
        elif comes == "appended":
            trainer.callbacks.append(theirs)
        elif comes == "from the model":
            trained.configure_callbacks = lambda: [theirs]
        trainer.fit(trained)
    assert measuring(trainer) == [theirs]
    assert report(tmp_path / "theirs").steps.new == 3
    assert not job_dir.exists()


def test_one_of_the_users_own_that_names_no_directory_is_not_measured_twice(
    job_dir, make_trainer, model, process, report
):
    with process():
        make_trainer(EffectiveTrainingTime()).fit(model())
    assert report(job_dir).steps.new == 3


def test_giving_way_leaves_no_other_callback_out(tmp_path, job_dir, make_trainer, model, process):
    class Witness(Callback):
        """Says when it was set up."""

        def __init__(self):
            self.set_up = 0

        def setup(self, trainer, pl_module, stage):
            self.set_up += 1

    witnesses = [Witness(), Witness()]
    with process():
        trainer = make_trainer(witnesses[0], EffectiveTrainingTime(tmp_path / "theirs"))
        trainer.callbacks.append(witnesses[1])
        trainer.fit(model())
    assert [witness.set_up for witness in witnesses] == [1, 1]
    assert trainer.callbacks[-1] is witnesses[1]


def test_installed_twice_it_measures_once(job_dir, make_trainer, model, process, report):
    with process():
        trainer = make_trainer(AutoloadedTrainingTime())
        trainer.fit(model())
    assert len(measuring(trainer)) == 1
    assert report(job_dir).steps.new == 3


def test_several_trainers_of_a_process_are_one_attempt(job_dir, make_trainer, model, process, report):
    with process():
        make_trainer().fit(model())
        second = make_trainer(max_steps=5)
        second.fit(model())
        second.validate(model(), verbose=False)
    found = report(job_dir)
    assert (len(found.attempts), found.state, found.steps.new) == (1, "finished", 8)


def test_a_trainer_fits_again(job_dir, make_trainer, model, process, report):
    with process():
        trainer = make_trainer()
        trainer.fit(model())
        trainer.fit_loop.epoch_loop.max_steps = 5
        trainer.fit(model())
    assert len(measuring(trainer)) == 1
    assert report(job_dir).steps.new == 5


def test_a_bad_job_directory_fails_no_trainer(monkeypatch, tmp_path, make_trainer, model, process, warned):
    (tmp_path / "file").write_text("")
    for place in ("s3://bucket/job", str(tmp_path / "file")):
        monkeypatch.setenv("ETT_JOB_DIR", place)
        with process():
            trainer = make_trainer()
            trainer.fit(model())
        assert trainer.global_step == 3
    assert [place in warning for place, warning in zip(("s3://", "file"), warned(), strict=True)] == [True, True]


WITH = partial(pytest.param, True, id="autoloaded")
OWN = partial(pytest.param, False, id="own")


@pytest.mark.parametrize("saver", [WITH(), OWN()])
@pytest.mark.parametrize("loader", [WITH(), OWN()])
def test_whoever_measured_positions_go_on(tmp_path, monkeypatch, make_trainer, model, process, report, saver, loader):
    """Removing or adding it between two attempts loses nothing."""
    job_dir = tmp_path / "job"

    def trainer(autoloaded, **options):
        if autoloaded:
            monkeypatch.setenv("ETT_JOB_DIR", str(job_dir))
            return make_trainer(**options)
        monkeypatch.delenv("ETT_JOB_DIR", raising=False)
        return make_trainer(EffectiveTrainingTime(job_dir), **options)

    with process():
        first = trainer(saver)
        first.fit(model())
        first.save_checkpoint(tmp_path / "last.ckpt")
    assert list(torch.load(tmp_path / "last.ckpt", weights_only=False)["callbacks"]) == [KEY]
    with process(), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*callbacks used to create the checkpoint")
        trainer(loader, max_steps=5).fit(model(), ckpt_path=tmp_path / "last.ckpt")
    found = report(job_dir)
    assert [attempt.resumed_from_samples for attempt in found.attempts] == [0, 12]
    assert (found.samples.new, found.samples.repeated, found.samples.skipped) == (20, 0, 0)


@pytest.mark.parametrize("saved_with", [True, False])
def test_checkpoints_load_where_it_is_not_there_or_was_not(
    tmp_path, monkeypatch, make_trainer, model, process, saved_with
):
    for step, with_it in ((3, saved_with), (5, not saved_with)):
        if with_it:
            monkeypatch.setenv("ETT_JOB_DIR", str(tmp_path / "job"))
        else:
            monkeypatch.delenv("ETT_JOB_DIR", raising=False)
        with process():
            trainer = make_trainer(max_steps=step)
            trainer.fit(model(), ckpt_path=tmp_path / "last.ckpt" if step > 3 else None)
            trainer.save_checkpoint(tmp_path / "last.ckpt")
    assert trainer.global_step == 5
    assert (tmp_path / "job").exists()


def test_other_state_lies_in_the_checkpoint_as_without_it(tmp_path, job_dir, make_trainer, model, process):
    with process():
        trainer = make_trainer(EarlyStopping("x", strict=False))
        trainer.fit(model())
        trainer.save_checkpoint(tmp_path / "last.ckpt")
    keys = set(torch.load(tmp_path / "last.ckpt", weights_only=False)["callbacks"])
    assert KEY in keys
    assert len(keys) == 2


@pytest.mark.parametrize("take", [copy.deepcopy, lambda callback: pickle.loads(pickle.dumps(callback))])
def test_a_copy_of_a_trainers_callback_measures(job_dir, make_trainer, model, process, report, take):
    with process():
        trainer = make_trainer()
        trainer.callbacks = take(trainer.callbacks)
        trainer.fit(model())
    assert report(job_dir).steps.new == 3
