"""Every kind of training that Lightning has, measured: what was trained is counted, and every second is somewhere."""

from __future__ import annotations

import time

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BatchSizeFinder, LearningRateFinder
from lightning.pytorch.demos import Transformer
from lightning.pytorch.demos.boring_classes import BoringModel, ManualOptimBoringModel, RandomIterableDataset
from lightning.pytorch.tuner import Tuner
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, IterableDataset

from ett_record import read_job


class Tokens(torch.utils.data.Dataset):
    """Random tokens: no text is downloaded."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        tokens = torch.randint(100, (36,), generator=torch.Generator().manual_seed(index))
        return tokens[:35], tokens[1:]


class LanguageModel(LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Transformer(vocab_size=100, ninp=16, nhid=16)

    def training_step(self, batch, batch_idx):
        inputs, target = batch
        return torch.nn.functional.nll_loss(self.model(inputs, target), target.view(-1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train_dataloader(self):
        return DataLoader(Tokens(), batch_size=4)


def counts(report):
    return report.steps.new, report.samples.new


def test_the_demo_transformer_is_measured(job):
    job.train(LanguageModel(), max_epochs=2)
    report = job.report()
    assert counts(report) == (6, 24)
    assert report.state == "finished"
    assert report.stages["training"] > 0
    assert report.stages["initialization"] > 0
    assert report.time_to_start_s > 0


def test_boring_model_is_measured(job):
    job.train(BoringModel())
    assert counts(job.report()) == (64, 64)


def test_max_steps_end_a_training_in_the_middle_of_an_epoch(job, lab):
    job.train(lab.Model(batches=10), max_epochs=-1, max_steps=13)
    assert counts(job.report()) == (13, 52)


def test_batches_inside_gradient_accumulation_are_steps(job, lab):
    trainer = job.train(lab.Model(batches=10), accumulate_grad_batches=4)
    assert trainer.global_step == 3
    assert counts(job.report()) == (10, 40)


def test_the_samples_of_a_short_last_batch_are_counted_as_they_are(job, lab):
    job.train(lab.Model(), data=DataLoader(lab.Rows(10), batch_size=4), max_epochs=2)
    assert counts(job.report()) == (6, 20)


def test_steps_of_a_few_microseconds_are_all_counted(job, lab):
    """M2 (ml-goodput-measurement): nothing may be dropped as too short to be a step."""

    class Nothing(lab.Model):
        def training_step(self, batch, batch_idx):
            return None

    job.train(Nothing(batches=500, batch_size=1))
    report = job.report()
    assert counts(report) == (500, 500)
    assert report.stages["training"] > 0


def test_validation_inside_an_epoch_is_not_training(job, lab):
    class Slow(lab.Model):
        def validation_step(self, batch, batch_idx):
            time.sleep(0.05)

    job.train(Slow(batches=10), limit_val_batches=2, val_check_interval=0.25, num_sanity_val_steps=1)
    report = job.report()
    assert counts(report) == (10, 40)
    assert report.stages["validation"] >= 0.05 * (1 + 5 * 2)
    assert report.owners["trainer"] >= report.stages["validation"]


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_an_attempt_without_a_fit_is_measured_too(job, lab, verb):
    with job.process():
        getattr(job.trainer(), verb)(lab.Model())
    report = job.report()
    assert counts(report) == (0, 0)
    assert report.state == "finished"
    assert report.stages["validation"] > 0
    assert report.stages["training"] == 0
    assert report.time_to_start_s is None


def test_each_kind_of_evaluation_is_recorded_by_its_name(job, lab):
    with job.process():
        trainer = job.trainer(max_epochs=1, num_sanity_val_steps=1)
        for verb in ("fit", "test", "predict"):
            getattr(trainer, verb)(lab.Model())
    (attempt,) = read_job(job.dir).attempts
    names = [span.name for span in attempt.ranks[0].spans if span.stage == "validation"]
    assert names == ["sanity check", "validate", "test", "predict"]


def test_a_launch_that_trains_nothing_creates_no_attempt(job):
    with job.process():
        job.trainer()
    assert not job.dir.exists()


def test_fit_validate_and_fit_again_with_more_epochs_are_one_attempt(job, lab):
    """B04 (Lightning PR #20952): the same Trainer and callback objects."""
    with job.process():
        trainer = job.trainer(max_epochs=1, limit_val_batches=0)
        model = lab.Model(batches=10)
        trainer.fit(model)
        trainer.limit_val_batches = 2
        trainer.validate(model)
        trainer.limit_val_batches = 0
        trainer.fit_loop.max_epochs = 3
        trainer.fit(model)
        trainer.test(model)
    report = job.report()
    assert counts(report) == (30, 120)
    assert (report.steps.repeated, report.samples.skipped) == (0, 0)
    assert len(report.attempts) == 1
    assert report.stages["validation"] > 0


def test_time_between_two_fits_is_initialization_and_time_after_the_last_is_shutdown(job, lab):
    with job.process():
        trainer = job.trainer(max_epochs=1, limit_val_batches=0)
        model = lab.Model()
        trainer.fit(model)
        before = job.report().stages
        time.sleep(0.3)
        trainer.fit_loop.max_epochs = 2
        trainer.fit(model)
        time.sleep(0.4)
    after = job.report().stages
    assert after["initialization"] >= before["initialization"] + 0.3
    assert after["shutdown"] >= 0.4


def test_another_trainer_of_the_process_goes_on_where_the_first_one_ended(job, lab):
    with job.process():
        model = lab.Model(batches=5)
        job.trainer(max_epochs=1, limit_val_batches=0).fit(model)
        job.trainer(max_epochs=1, limit_val_batches=0).fit(model)
    report = job.report()
    assert counts(report) == (10, 40)
    assert report.samples.repeated == 0
    assert len(report.attempts) == 1


@pytest.mark.parametrize("as_dict", [False, True])
def test_of_a_combined_loader_the_largest_batch_counts(job, lab, as_dict):
    loaders = [DataLoader(lab.Rows(12), batch_size=2), DataLoader(lab.Rows(30), batch_size=5)]

    class Combined(lab.Model):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch["b"] if as_dict else batch[1], batch_idx)

    loaders = dict(zip("ab", loaders, strict=True)) if as_dict else loaders
    job.train(Combined(), data=CombinedLoader(loaders, "min_size"))
    assert counts(job.report()) == (6, 30)


def test_a_list_of_loaders_of_which_one_ends_first_is_counted(job, lab):
    class Combined(lab.Model):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch[1], batch_idx)

    loaders = [DataLoader(lab.Rows(8), batch_size=4), DataLoader(lab.Rows(8), batch_size=2)]
    job.train(Combined(), data=CombinedLoader(loaders, "max_size"))
    assert counts(job.report()) == (4, 4 + 4 + 2 + 2)


def test_an_iterable_dataset_of_unknown_length_is_measured(job, lab):
    job.train(lab.Model(), data=DataLoader(RandomIterableDataset(32, 10), batch_size=4), max_epochs=2)
    assert counts(job.report()) == (6, 20)


class Shard(IterableDataset):
    """Rows that two workers share; each takes its time to begin."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        time.sleep(0.3)
        yield from (torch.ones(32) for _ in range(6 if worker is None else 3))


def test_an_iterable_dataset_with_workers_is_measured(job, lab):
    job.train(lab.Model(), data=DataLoader(Shard(), batch_size=3, num_workers=2), max_epochs=2)
    report = job.report()
    assert counts(report) == (4, 12)
    assert report.stages["input_wait"] >= 0.25


def test_waiting_for_the_loader_is_not_training(job, lab):
    class Slow(lab.Rows):
        def __getitem__(self, index):
            time.sleep(0.02)
            return super().__getitem__(index)

    job.train(lab.Model(), data=DataLoader(Slow(20), batch_size=2))
    report = job.report()
    assert report.stages["input_wait"] >= 0.4
    assert report.owners["data"] == report.stages["input_wait"]


class Sluggish:
    """A loader that takes its time to begin an epoch, as one does that starts workers."""

    def __init__(self, rows, seconds):
        self.rows = rows
        self.seconds = seconds

    def __iter__(self):
        return self.begin()

    def begin(self):
        time.sleep(self.seconds)
        return iter(DataLoader(self.rows, batch_size=2))

    def __len__(self):
        return len(self.rows) // 2


def test_a_loader_that_begins_a_later_epoch_slowly_is_waited_for_too(job, lab):
    job.train(lab.Model(), data=Sluggish(lab.Rows(6), 0.3), max_epochs=3)
    report = job.report()
    assert counts(report) == (9, 18)
    assert report.stages["input_wait"] >= 0.6


def test_a_loop_that_asks_its_loader_itself_is_counted_by_what_it_got(job, lab):
    class Asking(lab.Model):
        def training_step(self, dataloader_iter):
            batch, batch_idx, _ = next(dataloader_iter)
            return super().training_step(batch, batch_idx)

    save = lab.SaveEvery(job.dir.parent)
    job.train(Asking(), save, data=DataLoader(lab.Rows(10), batch_size=4), max_epochs=2)
    assert counts(job.report()) == (6, 20)
    positions = [torch.load(job.dir.parent / f"{n}.ckpt")["callbacks"]["ett-timeline"]["samples"] for n in range(1, 7)]
    assert positions == [4, 8, 10, 14, 18, 20]


def test_the_wait_of_a_loop_that_asks_its_loader_itself_is_not_training(job, lab):
    class Asking(lab.Model):
        def training_step(self, dataloader_iter):
            batch, batch_idx, _ = next(dataloader_iter)
            return super().training_step(batch, batch_idx)

    class Slow(lab.Rows):
        def __getitem__(self, index):
            time.sleep(0.02)
            return super().__getitem__(index)

    job.train(Asking(), data=DataLoader(Slow(20), batch_size=2))
    stages = job.report().stages
    assert stages["input_wait"] >= 0.4


def test_manual_optimization_is_measured(job):
    job.train(ManualOptimBoringModel(), limit_train_batches=8)
    assert counts(job.report()) == (8, 8)


def test_a_module_may_end_an_epoch_by_itself(job, lab):
    """The batch that it refused was taken from the loader: the position is beyond it, as Lightning's own count is."""

    class Refusing(lab.Model):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 3 else None

    model = Refusing(batches=10)
    job.train(model, max_epochs=2)
    report = job.report()
    assert len(model.losses) == 6
    assert report.samples.new == 2 * 4 * 4
    assert report.attempts[0].reached_samples == 32


def test_fast_dev_run_is_measured(job, lab):
    job.train(lab.Model(), fast_dev_run=2)
    assert counts(job.report()) == (2, 8)


def test_barebones_is_measured(job, lab):
    with job.process():
        Trainer(callbacks=[job.callback()], barebones=True, max_epochs=1, accelerator="cpu").fit(lab.Model())
    assert counts(job.report()) == (10, 40)


def test_overfitting_batches_are_new_positions_every_epoch(job, lab):
    job.train(lab.Model(), overfit_batches=2, max_epochs=3)
    report = job.report()
    assert counts(report) == (6, 24)
    assert report.samples.repeated == 0


class Tunable(BoringModel):
    def __init__(self, lr=0.1, batch_size=2):
        super().__init__()
        self.save_hyperparameters()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


def test_a_learning_rate_finder_leaves_the_job_measured(job, lab, tmp_path):
    job.train(Tunable(), LearningRateFinder(num_training_steps=6), limit_train_batches=4, default_root_dir=tmp_path)
    report = job.report()
    assert report.state == "finished"
    assert report.samples.skipped == 0
    assert report.attempts[0].reached_samples == 4


def test_a_tuner_leaves_the_job_measured(job, tmp_path):
    with job.process():
        trainer = job.trainer(max_epochs=1, limit_train_batches=4, limit_val_batches=0, default_root_dir=tmp_path)
        model = Tunable()
        Tuner(trainer).lr_find(model, num_training=6)
        trainer.fit(model)
    report = job.report()
    assert report.state == "finished"
    assert report.samples.skipped == 0


def test_a_batch_size_finder_leaves_the_job_measured(job, lab, tmp_path):
    class Scalable(Tunable):
        def train_dataloader(self):
            return DataLoader(lab.Rows(16), batch_size=self.hparams.batch_size)

    finder = BatchSizeFinder(mode="power", max_trials=2, steps_per_trial=1)
    job.train(Scalable(), finder, default_root_dir=tmp_path)
    report = job.report()
    assert report.state == "finished"
    assert report.samples.skipped == 0
