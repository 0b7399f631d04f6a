from __future__ import annotations

import gc
import threading
import weakref
from types import SimpleNamespace

import pytest

from ett_hookspecs import EttManager, Span, Stage, hookimpl, run_of, timed_span
from ett_hookspecs.attach import Attachable
from ett_hookspecs.testing import recording_manager


class Trainer:
    """What a Trainer shows of itself to us."""

    def __init__(self, *callbacks, module=None, datamodule=None, rank=0, world_size=1):
        self.callbacks = list(callbacks)
        self.lightning_module = module
        self.datamodule = datamodule
        self.global_rank = rank
        self.world_size = world_size
        self.distributed_sampler_kwargs = {"num_replicas": world_size, "rank": rank}


class Ears:
    def __init__(self):
        self.heard = []

    @hookimpl
    def ett_span_recorded(self, span):
        self.heard.append(span.name)


class Listener:
    def __init__(self):
        self.ears = Ears()
        self.runs = []

    def ett_attach(self, run):
        self.runs.append(run)
        run.manager.register(self.ears)


class Speaker:
    """Measured something before there was a Trainer."""

    def ett_attach(self, run):
        span = Span(name="fetched", stage=Stage.COMPILATION, start_ns=0, end_ns=1, plugin="speaker")
        run.manager.hook.ett_span_recorded(span=span)


class Naming:
    def __init__(self, job_dir):
        self.job_dir = job_dir

    def ett_attach(self, run):
        run.context.name_job_dir(self.job_dir, by=f"Naming({self.job_dir})")


class Counter:
    def __init__(self, answer):
        self.answer = answer

    @hookimpl
    def ett_choose_batch_samples(self):
        return self.answer


def samples(trainer):
    return run_of(trainer).manager.hook.ett_choose_batch_samples()


@pytest.mark.parametrize("listener_first", [True, False])
def test_the_order_of_callbacks_does_not_matter(listener_first):
    listener = Listener()
    callbacks = [listener, Speaker()] if listener_first else [Speaker(), listener]
    run_of(Trainer(*callbacks))
    assert listener.ears.heard == ["fetched"]


def test_each_callback_is_attached_once_and_all_share_one_run():
    one, two = Listener(), Listener()
    trainer = Trainer(one, SimpleNamespace(), two)
    assert run_of(trainer) is run_of(trainer)
    assert one.runs == two.runs == [run_of(trainer)]


def test_a_callback_that_is_added_later_is_attached_at_the_next_call():
    trainer = Trainer()
    run = run_of(trainer)
    late = Listener()
    trainer.callbacks.append(late)
    assert run_of(trainer) is run
    assert late.runs == [run]


def test_two_trainers_have_nothing_in_common_even_with_the_same_callback():
    listener = Listener()
    first, second = Trainer(listener), Trainer(listener)
    assert run_of(first) is not run_of(second)
    assert run_of(first).manager is not run_of(second).manager
    assert len(listener.runs) == 2


def test_rank_and_world_size_are_the_trainers():
    run = run_of(Trainer(rank=1, world_size=2))
    assert (run.context.rank, run.context.world_size, run.context.position.replicas) == (1, 2, 2)
    assert run.manager.rank == 1


def test_a_test_may_give_its_own_manager():
    manager = recording_manager()
    trainer = Trainer(Speaker())
    assert run_of(trainer, manager=manager).manager is manager
    assert [call["span"].name for call in manager.told("ett_span_recorded")] == ["fetched"]


@pytest.mark.parametrize("order", [1, -1])
def test_two_callbacks_with_different_job_directories_are_an_error(tmp_path, order):
    trainer = Trainer(*[Naming(tmp_path / "a"), Naming(tmp_path / "b")][::order])
    with pytest.raises(ValueError, match="give all callbacks of a Trainer the same one"):
        run_of(trainer)


def test_after_an_error_the_next_call_starts_over(tmp_path):
    one, two, listener = Naming(tmp_path / "a"), Naming(tmp_path / "b"), Listener()
    trainer = Trainer(listener, one, two)
    with pytest.raises(ValueError, match="job directory"):
        run_of(trainer)
    two.job_dir = one.job_dir
    run = run_of(trainer)
    assert len(listener.runs) == 2
    assert listener.runs[1] is run is not listener.runs[0]
    assert run.context.job_dir == tmp_path / "a"


def test_module_and_data_module_answer_and_the_module_wins():
    data, module = Counter("data"), Counter("module")
    assert samples(Trainer(datamodule=data)) == "data"
    assert samples(Trainer(datamodule=data, module=module)) == "module"


def test_a_module_answers_already_while_callbacks_are_attached():
    class Asking:
        def ett_attach(self, run):
            self.answer = run.manager.hook.ett_choose_batch_samples()

    asking, module = Asking(), Counter("module")
    run_of(Trainer(asking, module=module))
    assert asking.answer == "module"


def test_a_module_hears_what_callbacks_say_while_they_are_attached():
    module = Ears()
    run_of(Trainer(Speaker(), module=module))
    assert module.heard == ["fetched"]


@pytest.mark.parametrize("role", ["lightning_module", "datamodule"])
def test_a_module_that_the_trainer_let_go_of_answers_no_more(role):
    first, second = Counter("first"), Counter("second")
    trainer = Trainer()
    setattr(trainer, role, first)
    assert samples(trainer) == "first"
    setattr(trainer, role, second)
    assert samples(trainer) == "second"
    setattr(trainer, role, None)
    assert samples(trainer) is None
    setattr(trainer, role, first)
    assert samples(trainer) == "first"


def test_a_trainer_that_is_gone_takes_its_run_along():
    module, listener = Counter(1), Listener()
    trainer = Trainer(listener, module=module)
    run = run_of(trainer)
    gone = [weakref.ref(each) for each in (trainer, run, run.manager, module, listener)]
    listener.runs.clear()
    del trainer, run, module, listener
    gc.collect()
    assert [each() for each in gone] == [None] * 5


def test_a_callback_is_what_can_be_attached():
    assert isinstance(Listener(), Attachable)
    assert not isinstance(SimpleNamespace(), Attachable)


def test_a_timed_span_is_reported_with_its_details():
    manager = recording_manager()
    trainer = Trainer()
    run_of(trainer, manager=manager)
    with timed_span(trainer, stage=Stage.PUBLISHING, name="export", plugin="ett-publish", owner="me", tables=26):
        pass
    (call,) = manager.told("ett_span_recorded")
    span = call["span"]
    assert (span.name, span.stage, span.plugin, span.owner) == ("export", Stage.PUBLISHING, "ett-publish", "me")
    assert span.end_ns >= span.start_ns
    assert dict(span.details) == {"tables": 26}
    assert span.blocking


def test_a_timed_span_is_reported_even_if_the_block_raises():
    manager = recording_manager()
    trainer = Trainer()
    run_of(trainer, manager=manager)
    with pytest.raises(RuntimeError), timed_span(trainer, stage=Stage.PUBLISHING, name="export", plugin="x"):
        raise RuntimeError
    assert len(manager.told("ett_span_recorded")) == 1


def test_a_timed_span_in_another_thread_attaches_nobody():
    listener = Listener()
    trainer = Trainer()
    run_of(trainer, manager=EttManager())
    trainer.callbacks.append(listener)

    def work():
        with timed_span(trainer, stage=Stage.PUBLISHING, name="export", plugin="x"):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert listener.runs == []


def test_a_timed_span_on_the_way_out_of_a_failed_attachment_hides_no_error(tmp_path):
    trainer = Trainer(Naming(tmp_path / "a"), Naming(tmp_path / "b"))
    with pytest.raises(ValueError, match="job directory"):
        run_of(trainer)
    with timed_span(trainer, stage=Stage.SHUTDOWN, name="clean up", plugin="x"):
        pass
