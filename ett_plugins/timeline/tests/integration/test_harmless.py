"""Measuring changes nothing in a training, whatever goes wrong with it."""

from __future__ import annotations

import pytest
import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from torch.utils.data import DataLoader

from ett_hookspecs import EttPluginError, Span, Stage, hookimpl, run_of, timed_span
from ett_record import Recorder, recording, report_of
from ett_timeline import EffectiveTrainingTime, counting, measurement

FAILING = [
    "begin_wait",
    "end_wait",
    "begin_step",
    "end_step",
    "open",
    "close_span",
    "end_training",
    "begin_fit",
    "end_fit",
]


@pytest.fixture
def dropout(lab):
    """A model whose losses depend on the random state, and on everything that touches it."""

    class Dropout(lab.Model):
        def __init__(self):
            super().__init__(batches=12)
            self.layer = torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))

        def train_dataloader(self):
            return DataLoader(lab.Rows(48), batch_size=4, shuffle=True)

    return Dropout


@pytest.fixture
def train(dropout, lab, tmp_path):
    """Trains with these callbacks, saves, validates; returns losses and weights."""

    def train(*callbacks, **options):
        seed_everything(7, verbose=False)
        model = dropout()
        save = lab.SaveEvery(tmp_path, 4)
        trainer = Trainer(
            callbacks=[save, *callbacks],
            **{**lab.quiet, "max_epochs": 2, "limit_val_batches": 2, "val_check_interval": 5, **options},
        )
        trainer.fit(model)
        return model.losses, [weight.detach().clone() for weight in model.parameters()]

    return train


def same(one, other):
    return one[0] == other[0] and all(map(torch.equal, one[1], other[1]))


def test_losses_and_weights_are_bitwise_those_of_a_run_without_us(job, train):
    unmeasured = train()
    assert same(train(), unmeasured)
    with job.process():
        assert same(train(job.callback()), unmeasured)
    assert job.report().steps.new == 24


@pytest.mark.parametrize("method", FAILING)
def test_a_recorder_that_raises_ends_the_measuring_with_one_warning_and_nothing_else(
    job, train, warned, monkeypatch, method
):
    unmeasured = train()

    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    with job.process():
        monkeypatch.setattr(Recorder, method, broken)
        assert same(train(job.callback()), unmeasured)
        monkeypatch.undo()
    assert len(warned()) == 1
    assert "training goes on, and is not measured from here on" in warned()[0]


@pytest.mark.parametrize("method", ["open", "close_span"])
def test_a_recorder_that_raises_in_a_save_does_not_harm_the_save(job, lab, tmp_path, warned, monkeypatch, method):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    save = lab.SaveEvery(tmp_path, 5)
    with job.process():
        trainer = job.trainer(save, max_epochs=1, limit_val_batches=0)
        monkeypatch.setattr(Recorder, method, broken)
        trainer.fit(lab.Model())
        monkeypatch.undo()
    assert save.last.name == "10.ckpt"
    assert torch.load(save.last)["global_step"] == 10
    assert len(warned()) == 1


@pytest.mark.parametrize("method", ["record", "open"])
def test_a_recorder_that_raises_at_a_plugins_span_does_not_harm_the_plugin(job, lab, warned, monkeypatch, method):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    with job.process():
        trainer = job.trainer(Observer(), max_epochs=1, limit_val_batches=0)
        monkeypatch.setattr(Recorder, method, broken)
        trainer.fit(lab.Model())
        monkeypatch.undo()
    assert len(warned()) == 1


def test_a_report_says_where_the_measuring_failed(job, train, monkeypatch):
    calls = []
    end_step = Recorder.end_step

    def broken(self, position):
        calls.append(position)
        if len(calls) == 5:
            raise RuntimeError("broken")
        end_step(self, position)

    monkeypatch.setattr(Recorder, "end_step", broken)
    with job.process():
        train(job.callback())
    report = report_of(job.dir)
    assert report.steps.new == 4
    assert any("the measuring failed here" in warning for warning in report.warnings)
    assert job.imprecision_ns() <= 1_000_000


def test_a_record_that_cannot_be_opened_is_one_warning(job, train, warned, monkeypatch):
    unmeasured = train()

    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    monkeypatch.setattr(measurement, "open_recording", broken)
    with job.process():
        assert same(train(job.callback()), unmeasured)
    assert len(warned()) == 1


def test_whatever_goes_wrong_with_the_claim_rank_zero_answers_the_other_ranks(job, train, warned, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    monkeypatch.setattr(recording, "claim", broken)
    answers = []
    opened = recording.open_recording(job.dir, share=lambda opening: answers.append(opening) or opening)
    assert opened is None
    assert "this job trains unmeasured" in answers[0]
    assert warned() == answers


def test_without_a_directory_a_job_trains_unmeasured_with_one_warning(job, train, warned):
    unmeasured = train()
    assert same(train(EffectiveTrainingTime()), unmeasured)
    (warning,) = warned()
    assert warning.startswith("ett-timeline has no job directory: this job trains unmeasured")


def test_a_directory_that_cannot_be_made_is_one_warning(job, train, warned, tmp_path):
    unmeasured = train()
    (tmp_path / "file").touch()
    assert same(train(EffectiveTrainingTime(tmp_path / "file" / "job")), unmeasured)
    (warning,) = warned()
    assert "cannot hold a timeline" in warning
    assert "this job trains unmeasured" in warning


def test_two_callbacks_that_name_two_directories_are_refused(job, lab, tmp_path):
    class Other(EffectiveTrainingTime):
        state_key = "other"

    trainer = job.trainer(Other(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match="elsewhere") as raised:
        trainer.fit(lab.Model())
    assert str(job.dir) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "elsewhere").exists()
    assert not job.dir.exists()


class Observer(Callback):
    """A plugin of somebody else's: hears of attempts and spans, and reports one of its own."""

    class Ears:
        def __init__(self):
            self.attempts = []
            self.spans = []

        @hookimpl
        def ett_attempt_started(self, attempt):
            self.attempts.append(attempt)

        @hookimpl
        def ett_span_recorded(self, span):
            self.spans.append(span.name)

    def __init__(self):
        self.ears = self.Ears()

    @property
    def state_key(self):
        return "observer"

    def ett_attach(self, run):
        run.manager.register(self.ears)

    def setup(self, trainer, pl_module, stage):
        run_of(trainer)
        with timed_span(trainer, stage=Stage.PUBLISHING, name="prepare", plugin="observer"):
            pass

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 2:
            with timed_span(trainer, stage=Stage.PUBLISHING, name="publish", plugin="observer", owner="me"):
                sum(range(300_000))


@pytest.mark.parametrize("before", [True, False], ids=["before ours", "after ours"])
def test_another_plugin_hears_of_the_attempt_and_its_spans_are_recorded(job, lab, tmp_path, before):
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 5))
    observer = Observer()
    with job.process():
        trainer = job.trainer(
            *([observer] if before else []), after=() if before else (observer,), max_epochs=2, limit_val_batches=0
        )
        trainer.fit(lab.Model(), ckpt_path=tmp_path / "5.ckpt")
    (attempt,) = observer.ears.attempts
    report = job.report()
    assert (attempt.number, attempt.job_id, attempt.job_dir) == (2, report.job_id, job.dir)
    assert (attempt.rank, attempt.world_size) == (0, 1)
    assert (attempt.resumed_from_samples, attempt.high_water_samples) == (20, 40)
    assert observer.ears.spans[:2] == ["prepare", "publish"]
    assert report.stages["publishing"] > 0
    assert report.owners["me"] > 0


def test_an_attempt_is_announced_once_however_many_fits_it_has(job, lab):
    observer = Observer()
    with job.process():
        trainer = job.trainer(observer, max_epochs=1, limit_val_batches=1)
        model = lab.Model()
        trainer.fit(model)
        trainer.fit_loop.max_epochs = 2
        trainer.fit(model)
    assert len(observer.ears.attempts) == 1


def test_an_observer_that_raises_is_told_nothing_more_and_harms_nothing(job, lab):
    class Broken(Observer):
        class Ears:
            @hookimpl
            def ett_attempt_started(self, attempt):
                raise RuntimeError("broken")

    job.train(lab.Model(), Broken())
    assert job.report().steps.new == 10


def test_a_module_that_cannot_say_how_to_count_its_batches_stops_the_run(job, lab):
    class Broken(lab.Model):
        @hookimpl
        def ett_choose_batch_samples(self):
            raise RuntimeError("no idea")

    with pytest.raises(EttPluginError, match="no idea"):
        job.train(Broken())
    assert job.report().state == "failed"


def test_a_count_that_raises_in_a_step_harms_nothing(job, lab, warned):
    class Broken(lab.Model):
        @hookimpl
        def ett_choose_batch_samples(self):
            return lambda batch: batch["no such key"]

    job.train(Broken())
    assert job.report().samples.new == 40
    assert len(warned()) == 1


def test_a_trainer_that_is_gone_leaves_nothing_of_itself_behind(job, lab):
    import gc
    import weakref

    with job.process():
        trainer = job.trainer(max_epochs=1, limit_val_batches=0)
        trainer.fit(lab.Model())
        gone = weakref.ref(trainer)
        del trainer
        gc.collect()
        assert gone() is None


def test_a_failure_is_one_line(job, train, caplog, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("broken\nin two lines")

    monkeypatch.setattr(Recorder, "begin_step", broken)
    with job.process():
        train(job.callback())
    (warning,) = (record for record in caplog.records if record.levelname == "WARNING" and "ett_" in record.name)
    assert warning.getMessage() == (
        "ett-timeline failed (RuntimeError: broken in two lines): training goes on, and is not measured from here on"
    )
    assert warning.exc_info is None


def test_a_count_of_batches_that_fails_in_a_save_does_not_harm_the_save(job, lab, tmp_path, warned, monkeypatch):
    def broken(*args):
        raise RuntimeError("broken")

    monkeypatch.setattr(counting.BatchCount, "was_trained", broken)
    job.train(lab.Model(), lab.SaveEvery(tmp_path, 5))
    assert (tmp_path / "10.ckpt").exists()
    assert len(warned()) == 1


def test_counting_that_fails_ends_once_and_for_all(job, lab, warned, monkeypatch):
    calls = []

    def broken(trainer):
        calls.append(trainer)
        raise RuntimeError("broken")

    monkeypatch.setattr(counting, "processed_batches", broken)
    job.train(lab.Model())
    assert len(warned()) == 1
    assert len(calls) == 2
    assert job.report().state == "finished"


@pytest.mark.parametrize("answer", [3, "", b"team", ["team"]])
def test_an_owner_that_is_no_name_is_one_warning_and_the_default_stands(job, lab, tmp_path, warned, answer):
    class Odd(lab.Model):
        @hookimpl
        def ett_choose_stage_owner(self, span):
            return answer

    job.train(Odd(), lab.SaveEvery(tmp_path, 2))
    (warning,) = warned()
    assert "ett_choose_stage_owner answered" in warning
    report = job.report()
    assert report.owners["checkpoint"] == report.stages["checkpoint_save"] > 0


@pytest.mark.parametrize("answer", [-1, 2**40, 10**30])
def test_an_absurd_count_is_one_warning_and_the_first_tensor_counts(job, lab, warned, answer):
    class Odd(lab.Model):
        @hookimpl
        def ett_choose_batch_samples(self):
            return lambda batch: answer

    job.train(Odd())
    assert len(warned()) == 1
    assert job.report().samples.new == 40


@pytest.mark.parametrize("run", ["fit", "validate"])
def test_a_trainer_inside_anothers_fit_does_not_disturb_its_record(job, lab, warned, run):
    def another(trainer):
        inner = job.trainer(max_epochs=1, limit_val_batches=1)
        getattr(inner, run)(lab.Model(batches=3))

    with job.process():
        outer = job.trainer(lab.At(5, another), max_epochs=1, limit_val_batches=0)
        outer.fit(lab.Model())
    report = job.report()
    assert (report.steps.new, report.samples.new, report.samples.repeated) == (10, 40, 0)
    assert report.state == "finished"
    (warning,) = warned()
    assert "inside another one's fit" in warning


def test_a_trainer_after_one_that_failed_in_every_clean_up_is_measured(job, lab):
    class Clumsy(Callback):
        def on_exception(self, trainer, pl_module, exception):
            raise ValueError("clumsy")

    with job.process():
        with pytest.raises(ValueError, match="clumsy"):
            job.trainer(Clumsy(), lab.At(3, lab.crash), max_epochs=1).fit(lab.Model())
        job.trainer(max_epochs=1, limit_val_batches=0).fit(lab.Model())
    assert job.report().samples.new == 40


def test_an_exception_that_cannot_say_what_it_is_stays_the_users_exception(job, lab):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class After(Callback):
        heard = None

        def on_exception(self, trainer, pl_module, exception):
            self.heard = exception

    def fail(trainer):
        raise Mute

    after = After()
    with job.process():
        trainer = job.trainer(lab.At(5, fail), after=(after,), max_epochs=1, limit_val_batches=0)
        profiler = trainer.profiler
        with pytest.raises(Mute) as raised:
            trainer.fit(lab.Model())
    assert after.heard is raised.value
    assert trainer.profiler is profiler
    attempt = job.attempt()
    assert (attempt.end, attempt.failure_class) == ("failed", "user")


def test_a_span_of_no_known_stage_is_one_warning_and_costs_nothing_else(job, lab, warned):
    class Odd(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            span = Span(name="odd", stage="lunch", start_ns=1, end_ns=2, plugin="somebody's")
            run_of(trainer).manager.hook.ett_span_recorded(span=span)

    job.train(lab.Model(), Odd())
    (warning,) = warned()
    assert warning.startswith("somebody's reported a span of the stage 'lunch'")
    assert job.report().steps.new == 10
