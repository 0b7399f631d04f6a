"""Compilations, as torch's own callbacks report them: nothing in the model changes.

``torch._dynamo.callback`` is the only place that hears of every compilation, lazy backward ones included. It belongs to
torch's private names; ``tests/integration/test_probes.py`` pins what is used of it.
"""

from __future__ import annotations

import logging
import time

from torch._dynamo.callback import CallbackArgs, CallbackTrigger, callback_handler

from ett_hookspecs import Stage
from ett_record import OpenSpan
from ett_timeline.spans import Spans

log = logging.getLogger(__name__)


class CompilationWatch:
    """Turns compilations into spans.

    A compilation on the thread that trains blocks it, and so does a lazy compilation of a backward on whatever thread
    autograd runs it. Any other is background; where the training thread waits for it, that wait is told by who waits.
    """

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._open: OpenSpan | None = None
        self._background_since: int | None = None

    def watch(self) -> None:
        """Listen, from now on. Safe to call again: a dynamo reset makes torch forget its listeners."""
        if self._started not in callback_handler.start_callbacks:
            callback_handler.register_start_callback(self._started)
        if self._ended not in callback_handler.end_callbacks:
            callback_handler.register_end_callback(self._ended)

    def stop(self) -> None:
        """Listen no more."""
        if self._started in callback_handler.start_callbacks:
            callback_handler.remove_start_callback(self._started)
        if self._ended in callback_handler.end_callbacks:
            callback_handler.remove_end_callback(self._ended)

    def _started(self, args: CallbackArgs) -> None:
        # An exception here would be the compilation's.
        try:
            lazy_backward = args.callback_trigger is CallbackTrigger.LAZY_BACKWARD
            if self._spans.on_training_thread or lazy_backward:
                self._open = self._spans.open(Stage.COMPILATION, "compile backward" if lazy_backward else "compile")
            else:
                self._background_since = time.monotonic_ns()
        except Exception:
            log.warning("a compilation could not be measured", exc_info=True)

    def _ended(self, args: CallbackArgs) -> None:
        del args
        try:
            span, self._open = self._open, None
            since, self._background_since = self._background_since, None
            if span is not None:
                self._spans.close(span)
            elif since is not None:
                self._spans.background(Stage.COMPILATION, "compile", since)
        except Exception:
            log.warning("a compilation could not be measured", exc_info=True)
