"""What crosses a hook: closed sets of words and frozen dataclasses, without behaviour."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from .report import Report


class Stage(StrEnum):
    """What a rank's main thread was doing. Every instant of a job belongs to exactly one.

    Only :attr:`TRAINING` is effective. :attr:`UNKNOWN` is what no record explains; it never makes sums fit.
    """

    SCHEDULING = "scheduling"
    """Allocation to process start."""
    INITIALIZATION = "initialization"
    """Process start to the first batch of a fit: imports, process groups, model build, sharding plan."""
    INPUT_WAIT = "input_wait"
    """The main thread waits for the data loader."""
    COMPILATION = "compilation"
    """PyTorch 2 compiles or compiles again."""
    TRAINING = "training"
    """Steps on data positions that no earlier attempt had trained."""
    RETRAINING = "retraining"
    """Steps on data positions already trained once."""
    CHECKPOINT_SAVE = "checkpoint_save"
    """Training blocked by a save."""
    CHECKPOINT_RESTORE = "checkpoint_restore"
    """Training blocked by a load."""
    VALIDATION = "validation"
    """Validate, test and predict."""
    PUBLISHING = "publishing"
    """A model for serving is built while the accelerators are held."""
    SHUTDOWN = "shutdown"
    """Last batch to the end of the process."""
    DOWNTIME = "downtime"
    """No process: an attempt's last sign of life to the next process start."""
    UNKNOWN = "unknown"
    """No record explains it: a lost rank file, an ingested log without an end."""


DEFAULT_OWNERS: Final[Mapping[Stage, str]] = MappingProxyType(
    {
        Stage.SCHEDULING: "scheduler",
        Stage.INITIALIZATION: "trainer",
        Stage.INPUT_WAIT: "data",
        Stage.COMPILATION: "compiler",
        Stage.RETRAINING: "checkpoint",
        Stage.CHECKPOINT_SAVE: "checkpoint",
        Stage.CHECKPOINT_RESTORE: "checkpoint",
        Stage.VALIDATION: "trainer",
        Stage.PUBLISHING: "publisher",
        Stage.SHUTDOWN: "publisher",
        Stage.DOWNTIME: "scheduler",
        Stage.UNKNOWN: "unknown",
    }
)
"""Who owns a lost second of each stage, unless ``ett_choose_stage_owner`` says otherwise. Training is not lost."""


class AttemptEnd(StrEnum):
    """How an attempt, and so a job, ended."""

    FINISHED = "finished"
    FAILED = "failed"
    """An exception of user code, or of the stack below it, reached the Trainer."""
    INTERRUPTED = "interrupted"
    """Ctrl-C, or ``sys.exit(0)`` in the middle of a fit."""
    PREEMPTED = "preempted"
    """A termination signal, answered in order."""
    KILLED = "killed"
    """No end was recorded and the process is gone: SIGKILL, out of memory, a crash of the interpreter."""
    LOST = "lost"
    """No end was recorded and nobody can say whether the process is gone: its host stopped answering."""
    RUNNING = "running"


def _no_details() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Time that somebody spent, measured by the one who spent it.

    Attributes:
        name: What was done, in words that a report can print; for background work also the key under
            ``background`` (``snapshot_write`` becomes ``snapshot_write_s``).
        stage: The stage it belongs to.
        start_ns: ``time.monotonic_ns()`` of the reporting process at the start.
        end_ns: The same at the end, not before `start_ns`.
        plugin: The distribution that reports it.
        blocking: Whether the main thread could do nothing else meanwhile. A blocking span reported from another
            thread than the main one is recorded as background: what counts is where the main thread waits, which the
            main thread reports itself.
        owner: Who owns the time, where it is not the stage's default owner.
        details: Small values worth keeping, JSON types only.
    """

    name: str
    stage: Stage
    start_ns: int
    end_ns: int
    plugin: str
    blocking: bool = True
    owner: str | None = None
    details: Mapping[str, Any] = field(default_factory=_no_details)

    def __post_init__(self) -> None:
        if self.end_ns < self.start_ns:
            raise ValueError(f"span {self.name!r} ends {self.start_ns - self.end_ns} ns before it starts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One launch of a job, as one rank sees it.

    Attributes:
        job_id: The job's identity, kept in its directory over all attempts.
        job_dir: The job's directory.
        number: 1 for the first launch.
        rank: Global rank of this process.
        world_size: Number of ranks.
        resumed_from_samples: Position the attempt starts at: samples over all ranks since the job began.
        high_water_samples: Position up to which earlier attempts had trained. What lies below is retraining.
    """

    job_id: str
    job_dir: Path
    number: int
    rank: int
    world_size: int
    resumed_from_samples: int
    high_water_samples: int


BatchSamples = Callable[[Any], int]
"""How many samples this rank's batch holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand of the ``ett`` program.

    Attributes:
        name: The word after ``ett``.
        help: One line for ``ett --help``.
        target: ``module:attribute`` of a ``click.Command``, imported only when the command is used.
    """

    name: str
    help: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture of a job's report, for whoever publishes pictures: the HTML page, Weights & Biases.

    Attributes:
        name: Its key, unlike all others': lower-case letters, digits, ``-`` and ``_``.
        title: What it shows, in a few words.
        description: One sentence that teaches how to read it.
        draw: From a report to a ``plotly.graph_objects.Figure``, or None where the report has nothing for it. plotly is
            imported only when it is called.
    """

    name: str
    title: str
    description: str
    draw: Callable[[Report], Any]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise ValueError(f"the figure's name {self.name!r} is not made of lower-case letters, digits, - and _")
