"""The report of a job, as other programs read it: schema ``ett.report/1``.

``schemas/report-1.json`` beside this module is the same in JSON Schema; a test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any, Final

REPORT_SCHEMA: Final = "ett.report/1"


def report_json_schema() -> dict[str, Any]:
    """The JSON Schema that every report validates against."""
    text = resources.files(__package__).joinpath("schemas/report-1.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """A few durations, one per restart.

    Attributes:
        each: In order of time, seconds.
        mean: Seconds; None without any, like the ones below.
        p50: Median, seconds.
        p95: 95th percentile (nearest rank), seconds.
        max: Longest, seconds.
    """

    each: tuple[float, ...] = ()
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, each: tuple[float, ...]) -> Durations:
        """Summarize durations in seconds."""
        if not each:
            return cls()
        ordered = sorted(each)

        def nearest_rank(percent: int) -> float:
            return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]

        return cls(each=each, mean=sum(each) / len(each), p50=nearest_rank(50), p95=nearest_rank(95), max=ordered[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Training steps, on new data and on data trained before. A step across the high-water mark counts as new."""

    new: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCounts:
    """Samples over all ranks: trained first, trained again, and jumped over by a resume."""

    new: int = 0
    repeated: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """One launch.

    Attributes:
        number: From 1.
        start_unix: Where the attempt's share of the job begins: the end of the attempt before it, or the job's start.
            The gap between two attempts belongs to the later one.
        process_start_unix: When its first process started.
        end_unix: Its last sign of life.
        wall_s: `end_unix` less `start_unix`; the sum of `stages`.
        world_size: Number of ranks.
        end: How it ended, see :class:`~ett_hookspecs.AttemptEnd`.
        failure_class: ``infrastructure`` (counted in `failures`), ``user``, or None where nothing failed.
        resumed_from_samples: Position it started training at.
        reached_samples: Position it reached.
        steps: Its training steps.
        samples: Its samples.
        stages: Seconds per stage, mean over ranks.
        rank_seconds: Seconds per stage, summed over ranks.
    """

    number: int
    start_unix: float
    process_start_unix: float
    end_unix: float
    wall_s: float
    world_size: int
    end: str
    failure_class: str | None
    resumed_from_samples: int
    reached_samples: int
    steps: StepCounts
    samples: SampleCounts
    stages: Mapping[str, float]
    rank_seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A job over all its attempts. Seconds are means over ranks unless they say otherwise.

    Attributes:
        job_id: The job's identity.
        state: How the last attempt ended, or ``running``.
        wall_s: First allocation to last sign of life.
        ett_percent: 100 x training / all, in rank seconds; None for a job without any time.
        stages: Seconds per stage; they sum to `wall_s`.
        rank_seconds: The same summed over ranks.
        owners: Seconds that did not advance training, by who owns them.
        time_to_start_s: Allocation to the end of the first trained batch; None until there is one.
        time_to_recover_s: Per restart, end of the last new-data step to start of the first one after it.
        time_to_resume_s: The same to the first step of any kind.
        failures: Ends by infrastructure.
        steps: Training steps of rank zero.
        samples: Samples over all ranks.
        background: Seconds of work beside the partition, by kind.
        interference_s: Estimated slow-down of steps by background work.
        world_size: Ranks of the last attempt.
        sections: What plugins add, by plugin.
        attempts: Oldest first.
        warnings: What the record lacks or contradicts, a line each.
    """

    job_id: str
    state: str
    wall_s: float
    ett_percent: float | None
    stages: Mapping[str, float]
    rank_seconds: Mapping[str, float]
    owners: Mapping[str, float]
    time_to_start_s: float | None
    time_to_recover_s: Durations
    time_to_resume_s: Durations
    failures: int
    steps: StepCounts
    samples: SampleCounts
    background: Mapping[str, float]
    interference_s: float
    world_size: int
    sections: Mapping[str, Mapping[str, Any]]
    attempts: tuple[AttemptReport, ...]
    warnings: tuple[str, ...] = ()
    schema: str = field(default=REPORT_SCHEMA, init=False)

    def to_json(self) -> dict[str, Any]:
        """As JSON types, ``schema`` first."""
        data = asdict(self)
        return {"schema": data.pop("schema"), **data}
