"""The hooks. Each docstring says where the hook fires, what its arguments are, and whether the first answer wins.

Observers (``ett_<noun>_<participle>``) are told something and return nothing; one that raises is logged and disabled
for the rest of the run, and training goes on. Participants (``ett_register_<things>``, ``ett_choose_<thing>``) answer;
one that raises stops the run with :class:`~ett_hookspecs.EttPluginError`. No hook fires once a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from .markers import hookspec
from .types import Attempt, BatchSamples, Command, Figure, Span


@hookspec
def ett_attempt_started(attempt: Attempt) -> None:
    """Observer: an attempt is being recorded and knows the position it starts at.

    Args:
        attempt: Number, rank, and where it resumes.

    *Runs on* every rank, on the main thread, once per process: after checkpoints are restored, before the first batch
    of the first fit, validate, test or predict. Fired by ``ett-timeline``.
    """


@hookspec
def ett_span_recorded(span: Span) -> None:
    """Observer: somebody spent time, on any thread.

    Args:
        span: What was done, from when to when, for which stage. Report blocking work from the main thread.

    *Runs on* the rank and the thread that spent the time, when it is over. Fired by any plugin, most easily with
    :func:`ett_hookspecs.timed_span`.
    """


@hookspec
def ett_register_commands() -> Sequence[Command]:  # type: ignore[empty-body]
    """Participant: subcommands for the ``ett`` program. All answers count.

    Returns:
        The commands. A name offered twice is refused, naming both plugins.

    *Runs on* the process of the ``ett`` program, at its start.
    """


@hookspec
def ett_register_figures() -> Sequence[Figure]:  # type: ignore[empty-body]
    """Participant: pictures of a job's report. All answers count.

    Returns:
        The figures. A name offered twice is refused, naming both plugins.

    *Runs on* any process that publishes figures, when it does: the ``ett`` program, or a training that reports to a
    service. Asked through :func:`ett_hookspecs.offered_figures`.
    """


@hookspec(firstresult=True)
def ett_choose_batch_samples() -> BatchSamples | None:
    """Participant: how to count the samples in a batch. The first answer that is not None wins.

    Without an answer, the leading dimension of the batch's first tensor counts.

    Returns:
        A function from this rank's batch, as ``on_train_batch_start`` sees it, to its number of samples.

    *Runs on* every rank, on the main thread, once before the first batch of each fit.
    """


@hookspec(firstresult=True)
def ett_choose_stage_owner(span: Span) -> str | None:
    """Participant: who owns the time of a span. The first answer that is not None wins.

    Without an answer, the span's own `owner`, else the stage's default in
    :data:`~ett_hookspecs.types.DEFAULT_OWNERS`.

    Args:
        span: The span about to be recorded; never a training step.

    Returns:
        The owner's name.

    *Runs on* the rank and thread that recorded the span.
    """
