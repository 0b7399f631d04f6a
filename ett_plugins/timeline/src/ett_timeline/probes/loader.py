"""Waits for the data loader and saves, as Lightning tells its profiler.

The Trainer's profiler is the public place that hears when the training loop asks its loader for a batch, and when it
saves. The user's own profiler goes on hearing everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

from lightning.pytorch.profilers import PassThroughProfiler, Profiler

from ett_hookspecs import Stage
from ett_timeline.spans import Spans

LOADER_ACTION: Final = "train_dataloader_next"
"""What Lightning calls the wait for a training batch, behind the loop's name."""
EPOCH_ACTION: Final = "run_training_epoch"
"""What Lightning calls an epoch's batches. Until the first is asked for, the loader makes its iterator, and workers."""
SAVE_ACTION: Final = "save_checkpoint"
"""What Lightning calls a save: collecting the state, writing it, and waiting for the other ranks."""


class ListeningProfiler:
    """Stands before the user's profiler and listens.

    Everything it does not need is the user's profiler's own.
    """

    def __init__(self, inner: Profiler, spans: Spans) -> None:
        self.inner = inner
        # Lightning profiles some thirty actions a step, and its default profiler does nothing about them: one block
        # that does nothing, used over and over, is all that this takes, and pays for the measuring.
        self._idle = nullcontext() if type(inner) is PassThroughProfiler else None
        self._spans = spans
        self._loader_begins = False

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            # A copy in the making has none yet.
            raise AttributeError(name)
        return getattr(self.inner, name)

    def start(self, action_name: str) -> None:
        """An action begins."""
        self.inner.start(action_name)
        if action_name.endswith(LOADER_ACTION):
            self._end_beginning()
            self._spans.begin_wait()

    def stop(self, action_name: str) -> None:
        """An action is over."""
        if action_name.endswith(LOADER_ACTION):
            self._spans.end_wait()
        self.inner.stop(action_name)

    def profile(self, action_name: str) -> AbstractContextManager[Any]:
        """An action for the length of a block."""
        if action_name == EPOCH_ACTION:
            return self._epoch(action_name)
        if action_name != SAVE_ACTION:
            return self._idle or self.inner.profile(action_name)
        stack = ExitStack()
        stack.enter_context(self._spans.measured(Stage.CHECKPOINT_SAVE, "save checkpoint"))
        stack.enter_context(self.inner.profile(action_name))
        return stack

    @contextmanager
    def _epoch(self, action_name: str) -> Iterator[None]:
        with self.inner.profile(action_name):
            self._spans.begin_wait()
            self._loader_begins = True
            try:
                yield
            finally:
                self._end_beginning()

    def _end_beginning(self) -> None:
        if self._loader_begins:
            self._loader_begins = False
            self._spans.end_wait()


def listen(trainer: Any, spans: Spans) -> None:
    """Put a listener before the Trainer's profiler."""
    if isinstance(trainer.profiler, ListeningProfiler):
        return
    # A listener is a profiler in all that matters to the Trainer, and must not be one by class: the base class would
    # answer in the place of the user's own.
    trainer.profiler = ListeningProfiler(trainer.profiler, spans)


def stop_listening(trainer: Any) -> None:
    """Give the Trainer its own profiler back."""
    if isinstance(trainer.profiler, ListeningProfiler):
        trainer.profiler = trainer.profiler.inner
