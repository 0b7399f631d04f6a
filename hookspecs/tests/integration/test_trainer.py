"""With a real Trainer of Lightning."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel

from ett_hookspecs import EttPluginError, Span, Stage, hookimpl, run_of, timed_span
from ett_hookspecs.testing import recording_manager


class Listener(Callback):
    """Registers an observer of its own."""

    class Ears:
        def __init__(self):
            self.heard = []

        @hookimpl
        def ett_span_recorded(self, span):
            self.heard.append(span.name)

    def __init__(self):
        self.ears = self.Ears()
        self.attached = 0

    def setup(self, trainer, pl_module, stage):
        run_of(trainer)

    def ett_attach(self, run):
        self.attached += 1
        run.manager.register(self.ears)


class Speaker(Callback):
    """Says something when it is attached, and at every epoch's start."""

    def setup(self, trainer, pl_module, stage):
        run_of(trainer)

    def ett_attach(self, run):
        span = Span(name="before", stage=Stage.COMPILATION, start_ns=0, end_ns=1, plugin="speaker")
        run.manager.hook.ett_span_recorded(span=span)

    def on_train_epoch_start(self, trainer, pl_module):
        with timed_span(trainer, stage=Stage.VALIDATION, name="epoch", plugin="speaker"):
            pass


class Asker(Callback):
    """Asks once before the first batch, as a callback that counts samples does."""

    def setup(self, trainer, pl_module, stage):
        run_of(trainer)

    def on_train_start(self, trainer, pl_module):
        self.answer = run_of(trainer).manager.hook.ett_choose_batch_samples()


class CountingModel(BoringModel):
    @hookimpl
    def ett_choose_batch_samples(self):
        return self.count

    def count(self, batch):
        return len(batch)


class DerivedModel(CountingModel):
    pass


class CountingData(BoringDataModule):
    @hookimpl
    def ett_choose_batch_samples(self):
        return len


def collect():
    # The first round frees the Trainer, and with it the last reference to its run; the second one the run.
    gc.collect()
    gc.collect()


def trainer_with(tmp_path, *callbacks, **options):
    return Trainer(
        default_root_dir=tmp_path,
        callbacks=list(callbacks),
        **{
            "max_steps": 2,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "limit_val_batches": 0,
            **options,
        },
    )


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_of_callbacks_does_not_matter(tmp_path, order):
    listener, speaker, stranger = Listener(), Speaker(), Callback()
    callbacks = [listener, speaker, stranger]
    trainer = trainer_with(tmp_path, *(callbacks[place] for place in order))
    trainer.fit(BoringModel())
    assert listener.attached == 1
    assert listener.ears.heard == ["before", "epoch"]


def test_fit_and_validate_and_fit_again_attach_once(tmp_path):
    listener = Listener()
    trainer = trainer_with(tmp_path, listener, Speaker(), limit_val_batches=1)
    model = BoringModel()
    trainer.fit(model)
    trainer.validate(model, verbose=False)
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model)
    assert listener.attached == 1
    assert listener.ears.heard.count("before") == 1


@pytest.mark.parametrize("kind", [CountingModel, DerivedModel])
def test_a_module_answers_before_its_data_module_and_plugins(tmp_path, kind):
    class Plugin:
        @hookimpl(tryfirst=True)
        def ett_choose_batch_samples(self):
            return "plugin"

    class Registering(Callback):
        def ett_attach(self, run):
            run.manager.register(Plugin())

    asker, model = Asker(), kind()
    trainer = trainer_with(tmp_path, asker, Registering())
    trainer.fit(model, datamodule=CountingData())
    assert asker.answer == model.count
    trainer.fit_loop.max_epochs, trainer.fit_loop.epoch_loop.max_steps = 2, 4
    trainer.fit(BoringModel(), datamodule=CountingData())
    assert asker.answer is len
    trainer.fit_loop.max_epochs, trainer.fit_loop.epoch_loop.max_steps = 3, 6
    trainer.fit(BoringModel(), datamodule=BoringDataModule())
    assert asker.answer == "plugin"


def test_plain_modules_answer_nothing_and_none_of_their_properties_is_evaluated(tmp_path):
    class Trapped(BoringModel):
        @property
        def ett_choose_batch_samples(self):
            raise AssertionError("evaluated")

        @property
        def trap(self):
            raise AssertionError("evaluated")

    asker = Asker()
    trainer_with(tmp_path, asker).fit(Trapped())
    assert asker.answer is None


def test_a_module_that_raises_stops_the_training_and_is_named(tmp_path):
    class Broken(BoringModel):
        @hookimpl
        def ett_choose_batch_samples(self):
            raise KeyError("label")

    with pytest.raises(EttPluginError, match=r"Broken' .* ett_choose_batch_samples: KeyError: 'label'"):
        trainer_with(tmp_path, Asker()).fit(Broken())


def test_an_observer_that_raises_does_not_harm_the_training(tmp_path, caplog):
    class Broken(BoringModel):
        @hookimpl
        def ett_span_recorded(self, span):
            raise KeyError("label")

    trainer = trainer_with(tmp_path, Speaker())
    trainer.fit(Broken())
    assert trainer.global_step == 2
    failures = [record for record in caplog.records if record.name.startswith("ett_hookspecs")]
    assert len(failures) == 1
    assert "on rank 0" in failures[0].getMessage()


def test_a_trainer_that_is_deleted_frees_its_manager_module_and_data_module(tmp_path):
    trainer = trainer_with(tmp_path, Listener(), Speaker(), Asker())
    model, data = CountingModel(), CountingData()
    trainer.fit(model, datamodule=data)
    run = run_of(trainer)
    gone = [weakref.ref(each) for each in (trainer, model, data, run, run.manager, run.context)]
    del trainer, model, data, run
    collect()
    assert [each() for each in gone] == [None] * 6


def test_the_manager_of_a_living_trainer_keeps_no_module_alive(tmp_path):
    trainer = trainer_with(tmp_path, Asker())
    model = CountingModel()
    trainer.fit(model)
    manager = run_of(trainer).manager
    gone = weakref.ref(model)
    del trainer, model
    collect()
    assert gone() is None
    assert manager.hook.ett_choose_batch_samples() is None


def test_a_test_may_prepare_a_trainer_with_a_manager_that_listens(tmp_path):
    manager = recording_manager()
    trainer = trainer_with(tmp_path, Speaker())
    run_of(trainer, manager=manager)
    trainer.fit(BoringModel())
    assert [call["span"].name for call in manager.told("ett_span_recorded")] == ["before", "epoch"]


def test_modules_of_lightning_themselves_mark_nothing():
    from ett_hookspecs.marked import marked_methods

    for kind in (LightningModule, LightningDataModule, BoringModel):
        assert marked_methods(kind, object()) == []
