"""The manager and the context of a Trainer, and the callbacks, module and data module attached to it."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from .context import RunContext
from .manager import EttManager, create_manager
from .types import Span, Stage


@runtime_checkable
class Attachable(Protocol):
    """A callback of ours: it is told once per Trainer what it shares with the others."""

    def ett_attach(self, run: Run) -> None:
        """Take part in a run.

        Register observers with ``run.manager``, name the job directory on ``run.context``, and deliver what was
        measured before the Trainer existed. Nobody has been told anything yet that this callback would miss.

        Whoever needs the run later, in ``on_exception`` or from another thread, keeps it.
        """


@dataclass(eq=False)
class Run:
    """What belongs to one Trainer.

    It refers neither to the Trainer nor to anything attached, so that all of them can die.

    Attributes:
        manager: Hooks of this Trainer.
        context: Job, attempt, rank, position.
    """

    manager: EttManager
    context: RunContext
    _callbacks: list[weakref.ref[Any]] = field(default_factory=list)
    _participants: dict[str, weakref.ref[Any]] = field(default_factory=dict)
    _failed: bool = False

    @property
    def failed(self) -> bool:
        """Whether a callback could not be attached."""
        return self._failed

    def attach(self, trainer: Any) -> None:
        """Attach what is new on a Trainer, and let go of a module or data module that it has replaced.

        What observers are told meanwhile is delivered when everybody is there.
        """
        try:
            with self.manager.deliver_later():
                # First, since a callback may ask a hook that the module answers.
                for role in ("datamodule", "lightning_module"):
                    self._let_participate(role, getattr(trainer, role, None))
                for callback in list(trainer.callbacks):
                    if isinstance(callback, Attachable) and not self.has(callback):
                        self._callbacks.append(weakref.ref(callback))
                        callback.ett_attach(self)
        except Exception:
            self._failed = True
            raise

    def has(self, callback: object) -> bool:
        """Whether this very callback was attached."""
        return any(known() is callback for known in self._callbacks)

    def _let_participate(self, role: str, participant: object | None) -> None:
        known = self._participants[role]() if role in self._participants else None
        if participant is known:
            return
        if known is not None:
            self.manager.unregister_participant(known)
        self._participants.pop(role, None)
        if participant is not None:
            self.manager.register_participant(participant)
            self._participants[role] = weakref.ref(participant)


_RUNS: weakref.WeakKeyDictionary[Any, Run] = weakref.WeakKeyDictionary()


def run_of(trainer: Any, *, manager: EttManager | None = None) -> Run:
    """The run of a Trainer; the first call makes it and attaches every ETT callback of the Trainer.

    Call it from a callback's ``setup``, when ranks are known; later calls attach what came since. After an error the
    next call starts over.

    Args:
        trainer: A ``lightning.pytorch.Trainer``.
        manager: For tests: the manager to use instead of one with all installed plugins.

    Raises:
        EttPluginError: A plugin cannot be loaded.
        ValueError: Two callbacks name different job directories.

    *Runs on* the main thread of every rank.
    """
    run = _RUNS.get(trainer)
    if run is None or run.failed:
        sampler = getattr(trainer, "distributed_sampler_kwargs", None) or {}
        context = RunContext(
            rank=trainer.global_rank,
            world_size=trainer.world_size,
            replicas=sampler.get("num_replicas", trainer.world_size),
        )
        run = Run(manager=manager or create_manager(), context=context)
        run.manager.rank = context.rank
        _RUNS[trainer] = run
    run.attach(trainer)
    return run


@contextlib.contextmanager
def timed_span(
    trainer: Any, *, stage: Stage, name: str, plugin: str, owner: str | None = None, **details: Any
) -> Iterator[None]:
    """Report the time a block takes as a blocking span, whether it raises or not.

    Args:
        trainer: The Trainer whose observers are told.
        stage: The stage the time belongs to.
        name: What is done.
        plugin: The distribution that does it.
        owner: Who owns the time, where it is not the stage's default owner.
        **details: Small values worth keeping, JSON types only.

    *Runs on* the thread that does the work; from another thread than the main one it is recorded as background.
    """
    start_ns = time.monotonic_ns()
    try:
        yield
    finally:
        span = Span(
            name=name,
            stage=stage,
            start_ns=start_ns,
            end_ns=time.monotonic_ns(),
            plugin=plugin,
            owner=owner,
            details=MappingProxyType(details),
        )
        # Attaching is for the main thread at setup; a span may end in any thread, and on the way out of an error.
        run = _RUNS.get(trainer) or run_of(trainer)
        run.manager.hook.ett_span_recorded(span=span)
