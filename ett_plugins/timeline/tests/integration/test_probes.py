"""What is used of Lightning's and torch's inside: each name is pinned here by what it does in a real fit."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from contextlib import contextmanager

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO
from lightning.pytorch.profilers import (
    AdvancedProfiler,
    PassThroughProfiler,
    Profiler,
    PyTorchProfiler,
    SimpleProfiler,
)
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.callback import CallbackTrigger, callback_handler
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.data import DataLoader

from ett_hookspecs import EttPluginError, Stage, hookimpl
from ett_timeline.probes.checkpoint import MeasuredCheckpointIO
from ett_timeline.probes.compilation import CompilationWatch
from ett_timeline.probes.loader import EPOCH_ACTION, LOADER_ACTION, SAVE_ACTION, ListeningProfiler
from ett_timeline.probes.progress import fetched_batch, fetches_itself, processed_batches


class Journal(Profiler):
    """The user's own profiler: hears everything, in order."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def start(self, action_name):
        self.heard.append(("start", action_name))

    def stop(self, action_name):
        self.heard.append(("stop", action_name))


# --- the loader and saves, as the profiler hears them ---


def test_lightning_tells_its_profiler_of_waits_saves_and_epochs(lab, job, tmp_path):
    """Pins the names of its actions; without our callback, so that they are Lightning's own."""
    journal = Journal()
    trainer = Trainer(
        callbacks=[lab.SaveEvery(tmp_path, 5)], max_epochs=2, limit_val_batches=0, profiler=journal, **lab.quiet
    )
    trainer.fit(lab.Model(batches=5))
    heard = journal.heard
    assert sum(kind == "start" and name.endswith(LOADER_ACTION) for kind, name in heard) == 10
    assert sum(kind == "stop" and name.endswith(LOADER_ACTION) for kind, name in heard) == 10
    assert heard.count(("start", SAVE_ACTION)) == heard.count(("stop", SAVE_ACTION)) == 2
    assert heard.count(("start", EPOCH_ACTION)) == heard.count(("stop", EPOCH_ACTION)) == 2
    first_epoch = heard.index(("start", EPOCH_ACTION))
    assert first_epoch < heard.index(("start", f"[_TrainingEpochLoop].{LOADER_ACTION}"))


def test_the_users_own_profiler_hears_the_same_with_and_without_us(job, lab):
    journals = Journal(), Journal()
    Trainer(max_epochs=2, limit_val_batches=0, profiler=journals[0], **lab.quiet).fit(lab.Model())
    trainer = job.train(lab.Model(), profiler=journals[1], max_epochs=2)
    assert trainer.profiler is journals[1]
    ours = [entry for entry in journals[1].heard if "ett-timeline" not in entry[1]]
    assert ours == journals[0].heard


@pytest.mark.parametrize(
    "make",
    [
        SimpleProfiler,
        AdvancedProfiler,
        lambda **place: PyTorchProfiler(emit_nvtx=False, export_to_chrome=False, **place),
    ],
    ids=["simple", "advanced", "pytorch"],
)
def test_a_profiler_of_lightning_still_writes_its_summary(job, lab, tmp_path, make):
    profiler = make(dirpath=tmp_path, filename="profile")
    trainer = job.train(lab.Model(batches=5), profiler=profiler)
    assert trainer.profiler is profiler
    (path,) = tmp_path.glob("*profile*.txt")
    assert "training_step" in path.read_text() or "run_training_batch" in path.read_text()
    report = job.report()
    assert report.steps.new == 5
    assert report.stages["input_wait"] > 0


def test_the_default_profiler_is_given_back_after_a_fit_and_after_an_exception(job, lab):
    with job.process():
        trainer = job.trainer(lab.At(12, lab.crash), max_epochs=1, limit_val_batches=0)
        default = trainer.profiler
        assert type(default) is PassThroughProfiler
        trainer.fit(lab.Model())
        assert trainer.profiler is default
        trainer.fit_loop.max_epochs = 2
        with pytest.raises(lab.Crash):
            trainer.fit(lab.Model())
        assert trainer.profiler is default


class Spans:
    """Remembers what was measured."""

    def __init__(self, training_thread=True):
        self.on_training_thread = training_thread
        self.spans = []
        self.calls = []

    def begin_wait(self):
        self.calls.append("begin")

    def end_wait(self):
        self.calls.append("end")

    @contextmanager
    def measured(self, stage, name):
        self.spans.append((stage, name))
        yield

    def open(self, stage, name):
        self.spans.append((stage, name))
        return name

    def close(self, span):
        self.spans.append(("closed", span))

    def background(self, stage, name, start_ns):
        self.spans.append(("background", stage, name))


def test_a_wait_ends_though_the_users_profiler_raises():
    class Broken(Profiler):
        def start(self, action_name):
            pass

        def stop(self, action_name):
            raise RuntimeError

    spans = Spans()
    listening = ListeningProfiler(Broken(), spans)
    listening.start(LOADER_ACTION)
    with pytest.raises(RuntimeError):
        listening.stop(LOADER_ACTION)
    assert spans.calls == ["begin", "end"]


def test_an_epoch_that_asks_for_no_batch_leaves_no_wait_open():
    spans = Spans()
    with ListeningProfiler(PassThroughProfiler(), spans).profile(EPOCH_ACTION):
        pass
    assert spans.calls == ["begin", "end"]


def test_the_beginning_of_an_epoch_is_a_wait_until_the_first_batch_is_asked_for():
    spans = Spans()
    listening = ListeningProfiler(PassThroughProfiler(), spans)
    with listening.profile(EPOCH_ACTION):
        listening.start(f"[loop].{LOADER_ACTION}")
        listening.stop(f"[loop].{LOADER_ACTION}")
    assert spans.calls == ["begin", "end", "begin", "end"]


def test_stand_ins_can_be_copied():
    for stand_in in (
        ListeningProfiler(SimpleProfiler(), Spans()),
        MeasuredCheckpointIO(TorchCheckpointIO(), Spans()),
    ):
        assert type(copy.copy(stand_in).inner) is type(stand_in.inner)


# --- checkpoints ---


def test_the_strategy_has_its_own_checkpoint_io_back_afterwards(job, lab, tmp_path):
    with job.process():
        trainer = job.trainer(lab.At(12, lab.crash), max_epochs=1, limit_val_batches=0)
        own = trainer.strategy.checkpoint_io
        trainer.fit(lab.Model())
        assert trainer.strategy.checkpoint_io is own
        trainer.fit_loop.max_epochs = 2
        with pytest.raises(lab.Crash):
            trainer.fit(lab.Model())
        assert trainer.strategy.checkpoint_io is own


class SlowIO(TorchCheckpointIO):
    """Takes its time, and has something of its own."""

    mark = "mine"

    def __init__(self, seconds=0.2):
        super().__init__()
        self.seconds = seconds
        self.seen = []

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        time.sleep(self.seconds)
        self.seen.append(storage_options)
        super().save_checkpoint(checkpoint, path)

    def load_checkpoint(self, *args, **kwargs):
        time.sleep(self.seconds)
        return super().load_checkpoint(*args, **kwargs)

    def remove_checkpoint(self, path):
        time.sleep(self.seconds)
        super().remove_checkpoint(path)


def test_saves_and_loads_of_an_ordinary_job_are_measured(job, lab, tmp_path):
    keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=5, save_top_k=1)
    job.train(lab.Model(), keep, enable_checkpointing=True, plugins=[SlowIO()])
    report = job.report()
    # Two saves, one removal.
    assert report.stages["checkpoint_save"] >= 0.6
    (last,) = tmp_path.glob("*.ckpt")
    job.train(lab.Model(), ckpt_path=last, max_epochs=2, plugins=[SlowIO()])
    assert job.attempt().stages["checkpoint_restore"] >= 0.2
    assert job.report().owners["checkpoint"] >= 0.8


def test_collecting_the_state_is_part_of_a_save(job, lab, tmp_path):
    class Large(Callback):
        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            time.sleep(0.2)

    job.train(lab.Model(), Large(), lab.SaveEvery(tmp_path, 5))
    report = job.report()
    assert report.stages["checkpoint_save"] >= 0.4


def test_a_checkpoint_io_of_the_users_own_is_asked_as_ever(job, lab, tmp_path):
    own = SlowIO(0)
    with job.process():
        save = lab.At(
            3,
            lambda trainer: (
                trainer.save_checkpoint(tmp_path / "a.ckpt", storage_options={"x": 1}),
                seen.append(trainer.strategy.checkpoint_io.mark),
            ),
        )
        seen = []
        trainer = job.trainer(save, max_epochs=1, limit_val_batches=0, plugins=[own])
        trainer.fit(lab.Model())
    assert own.seen == [{"x": 1}]
    assert seen == ["mine"]


def test_an_asynchronous_checkpoint_io_still_saves_and_the_wait_for_it_is_a_save(job, lab, tmp_path):
    save = lab.SaveEvery(tmp_path, 10)
    job.train(lab.Model(), save, plugins=[AsyncCheckpointIO(SlowIO(0.3))])
    assert torch.load(save.last)["global_step"] == 10
    report = job.report()
    assert report.stages["checkpoint_save"] >= 0.2


def test_the_wait_for_an_asynchronous_save_after_an_exception_is_a_save_too(job, lab, tmp_path):
    save = lab.SaveEvery(tmp_path, 5)
    with pytest.raises(lab.Crash):
        job.train(lab.Model(), save, lab.At(6, lab.crash, when="start"), plugins=[AsyncCheckpointIO(SlowIO(0.3))])
    assert torch.load(save.last)["global_step"] == 5
    assert job.report().stages["checkpoint_save"] >= 0.2


def test_a_save_that_fails_is_closed_and_the_users_error(job, lab, tmp_path):
    class Full(TorchCheckpointIO):
        def save_checkpoint(self, *args, **kwargs):
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        job.train(lab.Model(), lab.SaveEvery(tmp_path, 5), plugins=[Full()])
    report = job.report()
    assert report.state == "failed"
    assert report.attempts[0].failure_class == "user"
    assert report.steps.new == 5


# --- progress ---


def test_the_trainers_count_includes_the_batch_that_callbacks_hear_has_ended(job, lab):
    counts = []
    for when in ("start", "end"):
        job_counts = lab.At(3, lambda trainer: counts.append(processed_batches(trainer)), when=when)
        job.train(lab.Model(), job_counts)
    assert counts == [2, 3]


def test_a_training_step_that_fetches_itself_is_told_from_one_that_is_given_a_batch(job, lab):
    class Fetching(lab.Model):
        def training_step(self, dataloader_iter):
            batch, _, _ = next(dataloader_iter)
            return super().training_step(batch, 0)

    class Named(lab.Model):
        def training_step(self, batch):
            return super().training_step(batch, 0)

    assert fetches_itself(Fetching())
    assert not fetches_itself(Named())
    seen = []
    rows = DataLoader(lab.Rows(10), batch_size=4)
    job.train(Fetching(), lab.At(3, lambda trainer: seen.append(len(fetched_batch(trainer)))), data=rows)
    assert seen == [2]


# --- compilation ---


@pytest.fixture
def cold():
    """Nothing was compiled before, and nothing that was compiled here stays."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def slow_backend(graph, inputs):
    """Compiles as slowly as one wishes."""
    time.sleep(0.2)
    return graph.forward


@pytest.fixture
def compiled(lab):
    """Makes a model whose layer is compiled."""

    class Compiled(lab.Model):
        def __init__(self, **options):
            super().__init__()
            self.compiled = torch.compile(self.layer, **options)

        def forward(self, x):
            return self.compiled(x)

    return Compiled


@pytest.mark.usefixtures("cold")
def test_a_compilation_inside_the_first_step_is_not_training(job, compiled):
    """B35 (axlearn PR #1066)."""
    job.train(compiled(backend=slow_backend))
    report = job.report()
    assert report.steps.new == 10
    assert report.stages["compilation"] >= 0.2
    assert report.owners["compiler"] == report.stages["compilation"]


@pytest.mark.usefixtures("cold")
def test_a_compilation_for_a_new_shape_is_counted_again(job, lab, compiled):
    # The last batch of the epoch is a short one.
    job.train(compiled(backend=slow_backend, dynamic=False), data=DataLoader(lab.Rows(10), batch_size=4))
    assert job.report().stages["compilation"] >= 0.4


@pytest.mark.usefixtures("cold")
def test_a_dynamo_reset_between_fits_does_not_make_us_deaf(job, compiled):
    with job.process():
        trainer = job.trainer(max_epochs=1, limit_val_batches=0)
        model = compiled(backend=slow_backend)
        trainer.fit(model)
        once = job.report().stages["compilation"]
        torch._dynamo.reset()
        trainer.fit_loop.max_epochs = 2
        trainer.fit(model)
    assert job.report().stages["compilation"] >= once + 0.2


@pytest.mark.usefixtures("cold")
def test_a_dynamo_reset_while_a_fit_is_set_up_does_not_make_us_deaf(job, compiled):
    class Resetting(compiled):
        def on_fit_start(self):
            torch._dynamo.reset()

    job.train(Resetting(backend=slow_backend))
    assert job.report().stages["compilation"] >= 0.2


@pytest.mark.usefixtures("cold")
def test_a_backward_that_is_compiled_when_it_first_runs_is_compilation(job, lab, compiled):
    """With fixed shapes torch compiles the backward lazily, in the first backward."""
    triggers = []

    def at_once(graph, inputs):
        return make_boxed_func(graph.forward)

    def slowly(graph, inputs):
        time.sleep(0.2)
        return make_boxed_func(graph.forward)

    listen = lab.At(1, lambda trainer: callback_handler.register_start_callback(triggers.append), when="start")
    backend = aot_autograd(fw_compiler=at_once, bw_compiler=slowly)
    job.train(compiled(backend=backend, dynamic=False), listen)
    assert [args.callback_trigger for args in triggers] == [CallbackTrigger.DYNAMO, CallbackTrigger.LAZY_BACKWARD]
    report = job.report()
    assert report.stages["compilation"] >= 0.2


class Watched(Spans):
    """Spans of a training whose main thread is another one."""

    def __init__(self):
        super().__init__(training_thread=False)


@pytest.mark.parametrize(
    ("trigger", "recorded"),
    [
        (CallbackTrigger.LAZY_BACKWARD, [(Stage.COMPILATION, "compile backward"), ("closed", "compile backward")]),
        (CallbackTrigger.DYNAMO, [("background", Stage.COMPILATION, "compile")]),
    ],
)
def test_on_another_thread_only_a_lazy_backward_blocks(trigger, recorded):
    """Autograd runs the backward of an accelerator on a thread of its own, and the training thread waits for it."""
    spans = Watched()
    watch = CompilationWatch(spans)
    watch.watch()
    watch.watch()
    try:
        with callback_handler.install_callbacks(trigger, "0/0"):
            pass
    finally:
        watch.stop()
        watch.stop()
    assert spans.spans == recorded


@pytest.mark.usefixtures("cold")
def test_a_compilation_on_another_thread_is_background(job, lab):
    def compile_beside(trainer):
        thread = threading.Thread(target=lambda: torch.compile(lambda x: x + 1, backend=slow_backend)(torch.ones(2)))
        thread.start()
        trainer.beside = thread

    job.train(lab.Model(), lab.At(3, compile_beside), lab.At(9, lambda trainer: trainer.beside.join()))
    report = job.report()
    assert report.background["compile_s"] >= 0.2
    assert report.stages["compilation"] == 0


@pytest.mark.usefixtures("cold")
def test_after_a_fit_nobody_listens_to_torch_any_more(job, lab):
    job.train(lab.Model())
    assert callback_handler.start_callbacks == []
    assert callback_handler.end_callbacks == []


@pytest.mark.usefixtures("cold")
def test_an_owner_that_cannot_be_chosen_for_a_compilation_harms_neither_it_nor_the_record(job, lab, compiled, warned):
    class Unsure(compiled):
        @hookimpl
        def ett_choose_stage_owner(self, span):
            if span.stage == "compilation":
                raise ValueError("who knows")

    model = Unsure(backend=slow_backend)
    job.train(model, lab.At(8, lambda trainer: time.sleep(0.3)))
    assert len(model.losses) == 10
    report = job.report()
    assert report.stages["compilation"] >= 0.2
    assert report.stages["training"] >= 0.3
    assert "a compilation could not be measured" in warned()


def test_an_owner_that_cannot_be_chosen_for_a_save_stops_the_run_and_names_the_module(job, lab, tmp_path):
    class Unsure(lab.Model):
        @hookimpl
        def ett_choose_stage_owner(self, span):
            raise ValueError("who knows")

    with pytest.raises(EttPluginError, match=r"Unsure.*who knows"):
        job.train(Unsure(), lab.SaveEvery(tmp_path, 5))
    assert job.report().state == "failed"
    assert job.report().steps.new == 5


# --- the callback as an object ---


def test_a_callback_can_be_copied_and_sent_to_another_process_while_it_measures(job, lab):
    copies = []

    def copy_it(trainer):
        ours = next(callback for callback in trainer.callbacks if callback.state_key == "ett-timeline")
        copies.extend([copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))])

    job.train(lab.Model(), lab.At(3, copy_it))
    assert len(copies) == 2
    for other in copies:
        assert other.state_dict() == {}
        assert other._job_dir == job.dir
