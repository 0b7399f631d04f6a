"""Ends of every kind."""

from __future__ import annotations

import signal
import sys
import time

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import OnExceptionCheckpoint


def position(path):
    return torch.load(path)["callbacks"]["ett-timeline"]["samples"]


def killed(trainer):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("code", [0, None])
def test_an_exit_without_an_error_is_an_interruption(job, lab, code):
    with pytest.raises(SystemExit):
        job.train(lab.Model(), lab.At(3, lambda trainer: sys.exit(code)))
    report = job.report()
    assert (report.state, report.failures) == ("interrupted", 0)
    assert report.attempts[0].failure_class is None


def test_an_exit_with_an_error_is_the_users_failure(job, lab):
    with pytest.raises(SystemExit) as raised:
        job.train(lab.Model(), lab.At(3, lambda trainer: sys.exit(3)))
    assert raised.value.code == 3
    report = job.report()
    assert (report.state, report.failures) == ("failed", 0)
    assert report.attempts[0].failure_class == "user"


def test_an_exception_of_user_code_is_a_failure_but_not_one_of_infrastructure(job, lab):
    class Broken(lab.Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 4:
                raise lab.Crash
            return super().training_step(batch, batch_idx)

    with pytest.raises(lab.Crash):
        job.train(Broken())
    report = job.report()
    assert (report.state, report.failures) == ("failed", 0)
    assert report.attempts[0].failure_class == "user"
    assert (report.steps.new, report.samples.new) == (4, 16)


def test_a_crash_inside_a_validation_ends_everything_that_was_open(job, lab):
    class Broken(lab.Model):
        def validation_step(self, batch, batch_idx):
            raise lab.Crash

    with pytest.raises(lab.Crash):
        job.train(Broken(), limit_val_batches=1, num_sanity_val_steps=0)
    report = job.report()
    assert report.steps.new == 10
    assert report.state == "failed"
    assert report.stages["unknown"] == 0


def test_a_termination_signal_answered_in_order_is_a_preemption(job, lab):
    with pytest.raises(SystemExit):
        job.train(lab.Model(), lab.At(3, lambda trainer: signal.raise_signal(signal.SIGTERM)))
    report = job.report()
    assert (report.state, report.failures) == ("preempted", 0)
    assert report.attempts[0].failure_class is None
    # Lightning answers at the end of the batch.
    assert report.steps.new == 3


@pytest.fixture
def interruptible():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_step_is_an_interruption(job, lab):
    """B27 (Lightning #11924)."""

    class Interrupted(lab.Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 4:
                killed(None)
            return super().training_step(batch, batch_idx)

    with pytest.raises(SystemExit) as raised:
        job.train(Interrupted())
    assert isinstance(raised.value.__context__, KeyboardInterrupt)
    report = job.report()
    assert (report.state, report.failures, report.steps.new) == ("interrupted", 0, 4)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_a_save_is_an_interruption(job, lab, tmp_path):
    """B27 (Lightning #11924)."""

    class Save(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            trainer.save_checkpoint(tmp_path / "interrupted.ckpt")

        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            killed(trainer)

    with pytest.raises(SystemExit):
        job.train(lab.Model(), Save())
    report = job.report()
    assert report.state == "interrupted"
    assert report.stages["checkpoint_save"] > 0
    assert report.stages["unknown"] == 0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("before", [True, False], ids=["before ours", "after ours"])
def test_ctrl_c_twice_is_an_interruption(job, lab, before):
    """B27 (Lightning #11924): the second one comes while callbacks clean up, when nobody listens to it any more."""

    class Slow(Callback):
        def on_exception(self, trainer, pl_module, exception):
            killed(trainer)

    order = {"after": ()} if before else {"after": (Slow(),)}
    trainer = job.trainer(*([Slow()] if before else []), lab.At(3, killed), **order, max_epochs=1)
    with job.process(), pytest.raises(SystemExit):
        trainer.fit(lab.Model())
    report = job.report()
    assert (report.state, report.failures) == ("interrupted", 0)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("before", [True, False], ids=["before ours", "after ours"])
def test_a_callback_that_raises_while_it_cleans_up_hides_nothing(job, lab, before):
    """B27 (Lightning #11924): the original exception survives as what the other one arose from."""

    class Clumsy(Callback):
        def on_exception(self, trainer, pl_module, exception):
            raise ValueError("clumsy")

    order = {"after": ()} if before else {"after": (Clumsy(),)}
    trainer = job.trainer(*([Clumsy()] if before else []), lab.At(3, killed), **order, max_epochs=1)
    with job.process(), pytest.raises(ValueError, match="clumsy") as raised:
        trainer.fit(lab.Model())
    assert isinstance(raised.value.__context__, KeyboardInterrupt)
    assert job.report().state == "interrupted"


def test_a_save_on_the_way_out_of_an_exception_is_a_save(job, lab, tmp_path):
    with pytest.raises(lab.Crash):
        job.train(
            lab.Model(),
            OnExceptionCheckpoint(tmp_path, filename="last"),
            lab.At(6, lab.crash, when="start"),
            enable_checkpointing=True,
        )
    report = job.report()
    assert position(tmp_path / "last.ckpt") == 20
    assert report.stages["checkpoint_save"] > 0
    assert report.state == "failed"


def test_after_an_exception_the_same_trainer_can_be_measured_again(job, lab):
    with job.process():
        trainer = job.trainer(lab.At(4, lab.crash, when="start"), max_epochs=1, limit_val_batches=0)
        model = lab.Model()
        with pytest.raises(lab.Crash):
            trainer.fit(model)
        before = job.report().stages["initialization"]
        trainer.callbacks = [callback for callback in trainer.callbacks if not isinstance(callback, lab.At)]
        model.setup = lambda stage: time.sleep(0.2)
        trainer.fit(model)
    report = job.report()
    assert report.stages["initialization"] >= before + 0.2
    assert report.state == "finished"
    assert len(report.attempts) == 1
    assert report.steps.new + report.steps.repeated == len(model.losses)
