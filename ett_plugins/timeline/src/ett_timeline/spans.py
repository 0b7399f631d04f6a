"""Spans that the timeline measures itself, and those that others tell it about."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ett_hookspecs import EttManager, Span, Stage, hookimpl
from ett_record import OpenSpan, Recorder

PLUGIN: Final = "ett-timeline"


class Spans:
    """Opens and closes blocking spans on the thread that trains, and records what others report.

    Args:
        recorder: The record of this rank.
        manager: Asked who owns a span.
    """

    def __init__(self, recorder: Recorder, manager: EttManager) -> None:
        self._recorder = recorder
        self._manager = manager
        self._thread = threading.get_ident()

    @property
    def on_training_thread(self) -> bool:
        """Whether the caller is the thread that trains."""
        return threading.get_ident() == self._thread

    def open(self, stage: Stage, name: str) -> OpenSpan:
        """Something begins that blocks training."""
        return self._recorder.open(stage, name, PLUGIN)

    def close(self, span: OpenSpan) -> None:
        """It is over."""
        try:
            span.owner = self._owner(
                Span(
                    name=span.name, stage=span.stage, start_ns=span.start_ns, end_ns=time.monotonic_ns(), plugin=PLUGIN
                )
            )
        finally:
            self._recorder.close_span(span)

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
        """Record a span that somebody measured, on any thread."""
        owner = self._owner(span)
        blocked = span.blocking and self.on_training_thread
        self._recorder.record(replace(span, owner=owner) if owner != span.owner else span, blocked=blocked)

    def _owner(self, span: Span) -> str | None:
        owner: str | None = self._manager.hook.ett_choose_stage_owner(span=span)
        return span.owner if owner is None else owner


class SpanObserver:
    """What is registered with a Trainer's manager in the callback's place."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    @hookimpl
    def ett_span_recorded(self, span: Span) -> None:
        """Record what others spent."""
        self._spans.report(span)
