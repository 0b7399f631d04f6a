"""Spans that the timeline measures itself, and those that others tell it about."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from ett_hookspecs import EttManager, Span, Stage, hookimpl
from ett_record import OpenSpan, Recorder

log = logging.getLogger(__name__)

PLUGIN: Final = "ett-timeline"


class Spans:
    """Opens and closes blocking spans on the thread that trains, and records what others report.

    Each is called from the middle of a training, and never raises for the record's sake.

    Args:
        recorder: The record of this rank.
        manager: Asked who owns a span.
        give_up: Called with what went wrong; nothing is recorded afterwards.
    """

    def __init__(self, recorder: Recorder, manager: EttManager, give_up: Callable[[Exception], None]) -> None:
        self._recorder: Recorder | None = recorder
        self._manager = manager
        self._give_up = give_up
        self._thread = threading.get_ident()
        self._owner_refused = self._stage_refused = False

    @property
    def on_training_thread(self) -> bool:
        """Whether the caller is the thread that trains."""
        return threading.get_ident() == self._thread

    def begin_wait(self) -> None:
        """The training loop asks the loader for a batch. Paid for every batch, like :meth:`end_wait`."""
        if self._recorder is not None:
            try:
                self._recorder.begin_wait()
            except Exception as error:  # noqa: BLE001  (measuring never harms a training)
                self._fail(error)

    def end_wait(self) -> None:
        """The loader has answered."""
        if self._recorder is not None:
            try:
                self._recorder.end_wait()
            except Exception as error:  # noqa: BLE001  (measuring never harms a training)
                self._fail(error)

    def open(self, stage: Stage, name: str) -> OpenSpan | None:
        """Something begins that blocks training."""
        if self._recorder is None:
            return None
        try:
            return self._recorder.open(stage, name, PLUGIN)
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self._fail(error)
            return None

    def close(self, span: OpenSpan | None) -> None:
        """It is over."""
        if span is None:
            return
        try:
            span.owner = self._owner(
                Span(
                    name=span.name, stage=span.stage, start_ns=span.start_ns, end_ns=time.monotonic_ns(), plugin=PLUGIN
                )
            )
        finally:
            if self._recorder is not None:
                try:
                    self._recorder.close_span(span)
                except Exception as error:  # noqa: BLE001  (measuring never harms a training)
                    self._fail(error)

    @contextmanager
    def measured(self, stage: Stage, name: str) -> Iterator[None]:
        """Something blocks training for the length of a block; on another thread it is background."""
        if not self.on_training_thread:
            start = time.monotonic_ns()
            try:
                yield
            finally:
                self.background(stage, name, start)
            return
        span = self.open(stage, name)
        try:
            yield
        finally:
            self.close(span)

    def background(self, stage: Stage, name: str, start_ns: int) -> None:
        """Something went on beside training from `start_ns` until now."""
        span = Span(
            name=name.replace(" ", "_"), stage=stage, start_ns=start_ns, end_ns=time.monotonic_ns(), plugin=PLUGIN,
            blocking=False,
        )  # fmt: skip
        self.report(span)

    def report(self, span: Span) -> None:
        """Record a span that somebody measured, on any thread; one of no known stage is left out, with one warning."""
        stage: Any = span.stage
        if not isinstance(stage, Stage):
            if not self._stage_refused:
                self._stage_refused = True
                log.warning("%s reported a span of the stage %.40r, which is none: it was left out", span.plugin, stage)
            return
        owner = self._owner(span)
        blocked = span.blocking and self.on_training_thread
        if self._recorder is not None:
            try:
                self._recorder.record(replace(span, owner=owner) if owner != span.owner else span, blocked=blocked)
            except Exception as error:  # noqa: BLE001  (measuring never harms a training)
                self._fail(error)

    def stop(self) -> None:
        """Record nothing more."""
        self._recorder = None

    def _fail(self, error: Exception) -> None:
        self.stop()
        self._give_up(error)

    def _owner(self, span: Span) -> str | None:
        owner: Any = self._manager.hook.ett_choose_stage_owner(span=span)
        if isinstance(owner, str) and owner:
            return owner
        if owner is not None and not self._owner_refused:
            self._owner_refused = True
            log.warning(
                "ett_choose_stage_owner answered %.60r for %s, which names nobody: the default owner stands; answer "
                "with text or None", owner, span.stage.value,
            )  # fmt: skip
        return span.owner


class SpanObserver:
    """What is registered with a Trainer's manager in the callback's place."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    @hookimpl
    def ett_span_recorded(self, span: Span) -> None:
        """Record what others spent."""
        self._spans.report(span)
