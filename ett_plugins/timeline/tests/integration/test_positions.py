"""Where in the data a job is, what a checkpoint carries of it, and what the next attempt makes of that."""

from __future__ import annotations

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, OnExceptionCheckpoint
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from ett_hookspecs import hookimpl
from ett_record import Recorder, recording
from ett_timeline import EffectiveTrainingTime


def position(path):
    return torch.load(path)["callbacks"]["ett-timeline"]["samples"]


@pytest.mark.parametrize("every", [1, 3, 4, 10])
def test_a_save_by_a_callback_listed_before_ours_carries_the_batch_it_follows(job, lab, tmp_path, every):
    save = lab.SaveEvery(tmp_path, every)
    job.train(lab.Model(batches=10), save, max_epochs=2)
    for n in range(every, 21, every):
        assert position(tmp_path / f"{n}.ckpt") == 4 * n


@pytest.mark.parametrize("every", [1, 3, 7])
def test_a_model_checkpoint_carries_the_batch_it_follows(job, lab, tmp_path, every):
    keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=every, save_top_k=-1)
    job.train(lab.Model(batches=10), keep, enable_checkpointing=True)
    for n in range(every, 11, every):
        assert position(tmp_path / f"step={n}.ckpt") == 4 * n


def test_a_save_before_the_batch_is_trained_does_not_carry_it(job, lab, tmp_path):
    save = lab.At(3, lambda trainer: trainer.save_checkpoint(tmp_path / "early.ckpt"), when="start")
    job.train(lab.Model(), save)
    assert position(tmp_path / "early.ckpt") == 8


def test_saves_at_the_end_of_validation_and_of_the_epoch_carry_all_that_was_trained(job, lab, tmp_path):
    class Save(Callback):
        def on_validation_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / f"validation-{trainer.global_step}.ckpt")

        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / "epoch.ckpt")

        def on_fit_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / "fit.ckpt")

    job.train(lab.Model(batches=10), Save(), limit_val_batches=1, val_check_interval=5, num_sanity_val_steps=0)
    found = {path.stem: position(path) for path in tmp_path.glob("*.ckpt")}
    assert found == {"validation-5": 20, "validation-10": 40, "epoch": 40, "fit": 40}


def test_what_was_trained_after_the_checkpoint_is_repeated_once(job, lab, tmp_path):
    """B34 (transformers #40560): 100 steps, crash after the one at 80, resume, finish 120."""
    save = lab.SaveEvery(tmp_path, 80)
    with pytest.raises(lab.Crash):
        job.train(lab.Model(batches=200), save, lab.At(101, lab.crash, when="start"))
    model = lab.Model(batches=200)
    job.train(model, ckpt_path=tmp_path / "80.ckpt", max_epochs=-1, max_steps=120)
    assert len(model.losses) == 40

    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (120, 20)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (480, 80, 0)
    first, second = report.attempts
    assert (first.samples.new, first.samples.repeated) == (400, 0)
    assert (second.samples.new, second.samples.repeated) == (80, 80)
    assert (first.resumed_from_samples, second.resumed_from_samples) == (0, 320)
    assert (first.reached_samples, second.reached_samples) == (400, 480)
    assert second.stages["retraining"] > 0
    assert second.stages["checkpoint_restore"] > 0
    assert first.stages["checkpoint_save"] > 0
    assert len(report.time_to_recover_s.each) == len(report.time_to_resume_s.each) == 1
    assert report.time_to_recover_s.max >= report.time_to_resume_s.max > 0


def test_a_batch_that_a_checkpoint_holds_was_trained_though_the_next_callback_fails(job, lab, tmp_path):
    with pytest.raises(lab.Crash):
        job.train(lab.Model(), lab.SaveEvery(tmp_path), lab.At(5, lab.crash))
    job.train(lab.Model(), ckpt_path=tmp_path / "5.ckpt", max_epochs=-1, max_steps=8)
    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (8, 0)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (32, 0, 0)
    assert report.attempts[0].reached_samples == 20


def test_a_stop_and_a_resume_repeat_nothing(job, lab, tmp_path):
    """M1 (ml-goodput-measurement): a clean save and exit, and a resume at the next step."""
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 5), max_epochs=-1, max_steps=5)
    job.train(lab.Model(), ckpt_path=tmp_path / "5.ckpt", max_epochs=-1, max_steps=12)
    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (12, 0)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (48, 0, 0)
    assert report.failures == 0
    assert report.stages["retraining"] == 0
    assert report.attempts[1].resumed_from_samples == 20


def test_a_restart_from_zero_repeats_everything(job, lab):
    with pytest.raises(lab.Crash):
        job.train(lab.Model(), lab.At(6, lab.crash, when="start"))
    job.train(lab.Model())
    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (10, 5)
    assert (report.samples.new, report.samples.repeated) == (40, 20)
    assert report.attempts[1].stages["retraining"] > 0


def test_a_changed_batch_size_changes_nothing_in_what_counts_as_repeated(job, lab, tmp_path):
    """The step across the old high-water mark is new, and split by samples."""
    with pytest.raises(lab.Crash):
        job.train(lab.Model(batch_size=4), lab.SaveEvery(tmp_path, 2), lab.At(5, lab.crash, when="start"))
    job.train(lab.Model(batch_size=5), ckpt_path=tmp_path / "2.ckpt", max_epochs=-1, max_steps=6)
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (28, 8, 0)
    assert (report.steps.new, report.steps.repeated) == (4 + 3, 1)


def test_another_jobs_checkpoint_starts_at_zero(job, lab, tmp_path, monkeypatch):
    other = type(job)(tmp_path / "other", monkeypatch)
    other.train(lab.Model(), lab.SaveEvery(tmp_path, 5))
    job.train(lab.Model(), ckpt_path=tmp_path / "5.ckpt")
    report = job.report()
    assert report.attempts[0].resumed_from_samples == 0
    assert (report.samples.new, report.samples.skipped) == (20, 0)


def test_a_checkpoint_saved_without_measuring_starts_at_zero(job, lab, tmp_path):
    Trainer(callbacks=[lab.SaveEvery(tmp_path, 5)], max_epochs=1, limit_val_batches=0, **lab.quiet).fit(lab.Model())
    job.train(lab.Model(), ckpt_path=tmp_path / "5.ckpt")
    assert job.report().samples.new == 20


def test_a_checkpoint_validated_or_tested_moves_no_position(job, lab, tmp_path):
    with job.process():
        trainer = job.trainer(lab.SaveEvery(tmp_path, 5), max_epochs=1, limit_val_batches=0)
        model = lab.Model()
        trainer.fit(model)
        trainer.test(model, ckpt_path=tmp_path / "5.ckpt")
        trainer.fit_loop.max_epochs = 2
        trainer.fit(model)
    report = job.report()
    assert (report.samples.new, report.samples.repeated) == (80, 0)
    assert report.stages["checkpoint_restore"] > 0


def test_going_back_within_one_process_repeats_what_was_trained(job, lab, tmp_path):
    with job.process():
        trainer = job.trainer(lab.SaveEvery(tmp_path, 5), max_epochs=1, limit_val_batches=0)
        model = lab.Model()
        trainer.fit(model)
        trainer.fit(model, ckpt_path=tmp_path / "5.ckpt")
    report = job.report()
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (40, 20, 0)


class Counting(Callback):
    """Optimizer steps and batches as the Trainer counts them."""

    def on_train_end(self, trainer, pl_module):
        self.steps = trainer.global_step
        self.batches = trainer.fit_loop.epoch_loop.batch_progress.total.processed


def test_raised_max_steps_continue_exactly(job, lab, tmp_path):
    """B25 (Lightning #19617): 10 batches an epoch; max_steps 10 then 20."""
    job.train(lab.Model(batches=10), lab.SaveEvery(tmp_path, 10), max_epochs=-1, max_steps=10)
    model, counting = lab.Model(batches=10), Counting()
    job.train(model, counting, ckpt_path=tmp_path / "10.ckpt", max_epochs=-1, max_steps=20)
    assert (counting.steps, counting.batches, len(model.losses)) == (20, 20, 10)
    report = job.report()
    assert (report.steps.new, report.steps.repeated) == (20, 0)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (80, 0, 0)


@pytest.mark.parametrize("at", [1, 2, 4, 5, 7])
def test_a_resume_in_the_middle_of_an_accumulation_continues_exactly(job, lab, tmp_path, at):
    """B25 (Lightning #21808): accumulate 4 with 3 batches an epoch; a save in mid-accumulation."""
    options = {"accumulate_grad_batches": 4, "limit_train_batches": 3, "max_epochs": 3}
    with pytest.raises(lab.Crash):
        job.train(lab.Model(), lab.SaveEvery(tmp_path), lab.At(at + 1, lab.crash, when="start"), **options)
    assert position(tmp_path / f"{at}.ckpt") == 4 * at
    model, counting = lab.Model(), Counting()
    job.train(model, counting, ckpt_path=tmp_path / f"{at}.ckpt", **options)
    report = job.report()
    assert counting.batches == at + len(model.losses)
    assert (report.steps.new, report.steps.repeated) == (counting.batches, 0)
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (4 * counting.batches, 0, 0)
    assert report.attempts[1].reached_samples == 4 * counting.batches


def test_an_attempt_that_only_validates_between_two_fits_changes_no_position(job, lab, tmp_path):
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 10))
    with job.process():
        job.trainer().validate(lab.Model(), ckpt_path=tmp_path / "10.ckpt")
    job.train(lab.Model(), ckpt_path=tmp_path / "10.ckpt", max_epochs=2)
    report = job.report()
    assert [attempt.end for attempt in report.attempts] == ["finished"] * 3
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (80, 0, 0)


def test_the_state_in_a_checkpoint_is_small_and_plain(job, lab, tmp_path):
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 10))
    state = torch.load(tmp_path / "10.ckpt", weights_only=True)["callbacks"]["ett-timeline"]
    assert state == {"job_id": job.report().job_id, "samples": 40}


def test_the_module_says_what_a_batch_holds_and_who_owns_the_time(job, lab, tmp_path):
    class Owning(lab.Model):
        @hookimpl
        def ett_choose_batch_samples(self):
            return lambda batch: 100

        @hookimpl
        def ett_choose_stage_owner(self, span):
            return "storage team" if span.stage == "checkpoint_save" else None

    job.train(Owning(), lab.SaveEvery(tmp_path, 5))
    report = job.report()
    assert report.samples.new == 1000
    assert report.owners["storage team"] == report.stages["checkpoint_save"] > 0
    assert "checkpoint" not in report.owners


def test_a_data_module_says_what_a_batch_holds(job, lab):
    class Data(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(lab.Rows(12), batch_size=4)

        @hookimpl
        def ett_choose_batch_samples(self):
            return lambda batch: 7

    job.train(lab.Model(), data=Data())
    assert job.report().samples.new == 21


def test_the_callback_takes_its_directory_from_the_environment(job, lab, monkeypatch):
    monkeypatch.setenv("ETT_JOB_DIR", str(job.dir))
    with job.process():
        Trainer(callbacks=[EffectiveTrainingTime()], max_epochs=1, limit_val_batches=0, **lab.quiet).fit(lab.Model())
    assert job.report().samples.new == 40


def test_an_unmeasured_attempt_in_between_costs_the_later_ones_nothing(job, lab, tmp_path, monkeypatch):
    job.train(lab.Model(batches=30), lab.SaveEvery(tmp_path, 5), max_epochs=-1, max_steps=5)
    with monkeypatch.context() as patch:
        patch.setattr(recording, "claim", lab.crash)
        job.train(
            lab.Model(batches=30),
            lab.SaveEvery(tmp_path, 6),
            ckpt_path=tmp_path / "5.ckpt",
            max_epochs=-1,
            max_steps=11,
        )
    job.train(lab.Model(batches=30), ckpt_path=tmp_path / "6.ckpt", max_epochs=-1, max_steps=20)
    report = job.report()
    assert [attempt.resumed_from_samples for attempt in report.attempts] == [0, 44]
    assert (report.samples.new, report.samples.repeated, report.samples.skipped) == (20 + 36, 0, 24)
    assert any("not measured: what that trained counts as skipped" in warning for warning in report.warnings)


def test_a_job_that_fell_silent_still_carries_its_position_and_says_how_it_ended(job, lab, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "begin_step", lab.At(3, lab.crash).call)
        job.train(lab.Model(), lab.SaveEvery(tmp_path, 5))
    assert position(tmp_path / "10.ckpt") == 40
    assert job.report().state == "finished"
    job.train(lab.Model(), ckpt_path=tmp_path / "10.ckpt", max_epochs=2)
    assert job.attempt().resumed_from_samples == 40


@pytest.mark.parametrize("samples", [-5, "x", None, float("nan"), 10**30, True])
def test_a_damaged_position_in_a_checkpoint_counts_from_zero_with_a_warning(job, lab, tmp_path, warned, samples):
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 5))
    checkpoint = torch.load(tmp_path / "5.ckpt", weights_only=False)
    checkpoint["callbacks"]["ett-timeline"]["samples"] = samples
    torch.save(checkpoint, tmp_path / "damaged.ckpt")
    job.train(lab.Model(), ckpt_path=tmp_path / "damaged.ckpt")
    (warning,) = warned()
    assert "the checkpoint's sample position is damaged" in warning
    report = job.report()
    assert any("the checkpoint's sample position is damaged" in warning for warning in report.warnings)
    assert (report.attempts[1].resumed_from_samples, report.samples.repeated) == (0, 20)


def test_trainers_of_one_process_go_on_where_the_last_one_ended(job, lab):
    with job.process():
        first, second = (job.trainer(max_epochs=1, limit_val_batches=0) for _ in range(2))
        model = lab.Model()
        first.fit(model)
        second.fit(model)
        first.fit_loop.max_epochs = 2
        first.fit(model)
    report = job.report()
    assert (report.steps.new, report.samples.new, report.samples.repeated) == (30, 120, 0)


@pytest.mark.parametrize("resumable", [True, False])
def test_the_report_warns_where_positions_are_not_items(job, lab, tmp_path, resumable):
    loader = StatefulDataLoader if resumable else DataLoader
    data = [loader(lab.Rows(40), batch_size=4) for _ in range(2)]
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 5), data=data[0])
    job.train(lab.Model(), ckpt_path=tmp_path / "5.ckpt", data=data[1])
    assert any("count positions, not items" in warning for warning in job.report().warnings) is not resumable


def test_a_resume_at_the_end_of_an_epoch_needs_no_resumable_loader(job, lab, tmp_path):
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 10))
    job.train(lab.Model(), ckpt_path=tmp_path / "10.ckpt", max_epochs=2)
    assert not job.report().warnings


def test_a_batch_was_trained_though_a_callback_before_ours_fails_before_we_hear_of_it(job, lab, tmp_path):
    with job.process(), pytest.raises(lab.Crash):
        job.trainer(
            lab.At(7, lab.crash),
            after=(OnExceptionCheckpoint(tmp_path, filename="last"),),
            enable_checkpointing=True,
            max_epochs=1,
        ).fit(lab.Model())
    assert position(tmp_path / "last.ckpt") == 28
    assert (job.report().steps.new, job.report().samples.new) == (7, 28)
