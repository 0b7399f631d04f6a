from __future__ import annotations

import contextlib
import threading

import pytest

from ett_hookspecs import EttManager, Span, Stage, hookimpl
from ett_hookspecs.deliveries import Deliveries


def span(name):
    return Span(name=name, stage=Stage.TRAINING, start_ns=0, end_ns=1, plugin="test")


class Listening:
    def __init__(self) -> None:
        self.heard = []

    @hookimpl
    def ett_span_recorded(self, span):
        self.heard.append(span.name)


class Interrupting(Listening):
    @hookimpl
    def ett_span_recorded(self, span):
        super().ett_span_recorded(span)
        raise KeyboardInterrupt


@pytest.fixture
def manager():
    return EttManager()


def tell(manager, *names):
    for name in names:
        manager.hook.ett_span_recorded(span=span(name))


def test_one_who_comes_late_hears_everything_in_order_and_once(manager):
    early, late = Listening(), Listening()
    manager.register(early)
    with manager.deliver_later():
        tell(manager, "a", "b")
        assert early.heard == []
        manager.register(late)
        tell(manager, "c")
    tell(manager, "d")
    assert early.heard == late.heard == ["a", "b", "c", "d"]


def test_only_the_outermost_block_delivers(manager):
    listening = Listening()
    manager.register(listening)
    with manager.deliver_later():
        with manager.deliver_later():
            tell(manager, "a")
        assert listening.heard == []
    assert listening.heard == ["a"]


def test_participants_are_asked_at_once(manager):
    class Answering:
        @hookimpl
        def ett_choose_batch_samples(self):
            return len

    manager.register(Answering())
    with manager.deliver_later():
        assert manager.hook.ett_choose_batch_samples() is len


def test_what_a_participant_tells_observers_inside_the_block_waits_too(manager):
    class Telling:
        @hookimpl
        def ett_choose_batch_samples(self):
            tell(manager, "from within")
            return len

    listening = Listening()
    manager.register(listening)
    manager.register(Telling())
    with manager.deliver_later():
        assert manager.hook.ett_choose_batch_samples() is len
        assert listening.heard == []
    assert listening.heard == ["from within"]


def test_what_other_threads_tell_waits_too(manager):
    listening = Listening()
    manager.register(listening)
    with manager.deliver_later():
        thread = threading.Thread(target=tell, args=(manager, "from a thread"))
        thread.start()
        thread.join()
        assert listening.heard == []
    assert listening.heard == ["from a thread"]


def test_what_another_thread_tells_during_the_delivery_does_not_overtake(manager):
    class Slow(Listening):
        @hookimpl
        def ett_span_recorded(self, span):
            if span.name == "a":
                thread = threading.Thread(target=tell, args=(manager, "last"))
                thread.start()
                thread.join()
            super().ett_span_recorded(span)

    slow = Slow()
    manager.register(slow)
    with manager.deliver_later():
        tell(manager, "a", "b")
    assert slow.heard == ["a", "b", "last"]


def test_what_an_observer_tells_in_turn_is_delivered_between(manager):
    class Chatty(Listening):
        @hookimpl
        def ett_span_recorded(self, span):
            super().ett_span_recorded(span)
            if span.name == "a":
                tell(manager, "a, too")

    chatty = Chatty()
    manager.register(chatty)
    with manager.deliver_later():
        tell(manager, "a", "b")
    assert chatty.heard == ["a", "a, too", "b"]


def test_an_observer_may_open_a_block_of_its_own(manager):
    class Opening(Listening):
        @hookimpl
        def ett_span_recorded(self, span):
            super().ett_span_recorded(span)
            if span.name == "a":
                with manager.deliver_later():
                    tell(manager, "inner")

    opening = Opening()
    manager.register(opening)
    with manager.deliver_later():
        tell(manager, "a", "b")
    tell(manager, "c")
    assert sorted(opening.heard[:3]) == ["a", "b", "inner"]
    assert opening.heard[3:] == ["c"]


def test_what_was_told_is_delivered_even_when_the_block_raises(manager):
    listening = Listening()
    manager.register(listening)
    with contextlib.suppress(ValueError), manager.deliver_later():
        tell(manager, "a")
        raise ValueError
    tell(manager, "b")
    assert listening.heard == ["a", "b"]


def test_ctrl_c_during_the_delivery_passes_and_loses_nothing(manager):
    listening, interrupting = Listening(), Interrupting()
    manager.register(interrupting)
    manager.register(listening)
    with pytest.raises(KeyboardInterrupt), manager.deliver_later():
        tell(manager, "a", "b")
    assert listening.heard == ["a", "b"]


def test_an_observer_that_raises_during_the_delivery_is_logged_and_the_rest_delivered(manager, caplog):
    class Failing:
        @hookimpl
        def ett_span_recorded(self, span):
            raise RuntimeError

    listening = Listening()
    manager.register(listening)
    manager.register(Failing())
    with manager.deliver_later():
        tell(manager, "a", "b")
    assert listening.heard == ["a", "b"]
    assert len(caplog.records) == 1


def test_nothing_is_lost_doubled_or_overtaken_between_threads_that_tell_and_blocks_that_open(manager):
    listening = Listening()
    manager.register(listening)
    start = threading.Barrier(4)

    def teller(number):
        start.wait()
        for count in range(200):
            tell(manager, f"{number}:{count}")

    def opener():
        start.wait()
        for _ in range(200):
            with manager.deliver_later():
                pass

    threads = [threading.Thread(target=teller, args=(number,)) for number in range(2)]
    threads += [threading.Thread(target=opener) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with manager.deliver_later():
        pass
    for number in range(2):
        mine = [name for name in listening.heard if name.startswith(f"{number}:")]
        assert mine == [f"{number}:{count}" for count in range(200)]


def test_a_call_on_its_way_is_not_held_back_by_a_block_that_opens_meanwhile():
    opened = contextlib.ExitStack()
    held_back = []

    def call(hook_name, arguments):
        opened.enter_context(deliveries.later())
        deliveries.begin(hook_name, arguments, observer=True)
        held_back.append(deliveries.held_back)
        deliveries.end()

    deliveries = Deliveries(call)
    with deliveries.later():
        deliveries.begin("ett_span_recorded", {}, observer=True)
        assert deliveries.held_back
        deliveries.end()
    opened.close()
    assert held_back == [False]


def test_tracing_by_pluggy_itself_still_works(manager):
    listening, traced = Listening(), []
    manager.register(listening)
    undo = manager.add_hookcall_monitoring(lambda name, *_: traced.append(name), lambda *_: None)
    tell(manager, "a")
    undo()
    tell(manager, "b")
    assert listening.heard == ["a", "b"]
    assert traced == ["ett_span_recorded"]
