"""From what a job left on disk to its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from ett_hookspecs import AttemptEnd, AttemptReport, Durations, Report, SampleCounts, Stage, StepCounts

from .clock import NS
from .findings import in_words
from .frame import AttemptFrame, place_attempts
from .interference import interference_ns
from .job import process_is_gone
from .partition import RankPartition, partition_attempt
from .reader import AttemptRecord, JobRecord, RankRecord, read_job
from .rolling import rolling_percent
from .state import STAGES

ROLLING_WINDOW_S: Final = 600.0
"""Length of the rolling window, seconds."""

_LONG_GAP_NS: Final = 60 * NS
_SEVEREST_FIRST: Final = (
    AttemptEnd.RUNNING,
    AttemptEnd.KILLED,
    AttemptEnd.LOST,
    AttemptEnd.FAILED,
    AttemptEnd.INTERRUPTED,
    AttemptEnd.PREEMPTED,
    AttemptEnd.FINISHED,
)


def report_of(job_dir: Path, *, now_unix: float | None = None) -> Report:
    """Read a job's directory and account for it.

    Args:
        job_dir: What the callback was given; the job may be running.
        now_unix: The current time in Unix seconds.

    Raises:
        EttError: There is nothing to report on; the text says why.
    """
    return build_report(read_job(job_dir, now_unix=now_unix))


def build_report(job: JobRecord) -> Report:
    """Account for a job."""
    warnings = list(job.warnings)
    frames = place_attempts(job.attempts, warnings)
    attempts: list[_Attempt] = []
    for index, (record, frame) in enumerate(zip(job.attempts, frames, strict=True)):
        follower = job.attempts[index + 1] if index + 1 < len(job.attempts) else None
        reached = attempts[-1].high_water if attempts else 0
        attempts.append(_Attempt.of(record, frame, follower, high_water=reached, first=not index))
    warnings += _notes(job.attempts)
    warnings += _gaps(attempts)

    reports = tuple(attempt.report() for attempt in attempts)
    rank_seconds = _total(a.rank_seconds for a in reports)
    all_ranks = sum(rank_seconds.values())
    recover, resume = _recoveries(attempts)
    return Report(
        job_id=job.job_id,
        state=reports[-1].end,
        wall_s=(frames[-1].end - frames[0].start) / NS,
        ett_percent=min(100.0, 100 * rank_seconds[Stage.TRAINING] / all_ranks) if all_ranks else None,
        stages=_total(a.stages for a in reports),
        rank_seconds=rank_seconds,
        owners=_total(a.owners() for a in attempts),
        time_to_start_s=_time_to_start(attempts, frames[0].start),
        time_to_recover_s=recover,
        time_to_resume_s=resume,
        failures=sum(a.failure_class == "infrastructure" for a in reports),
        steps=StepCounts(new=sum(a.steps.new for a in reports), repeated=sum(a.steps.repeated for a in reports)),
        samples=SampleCounts(
            new=sum(a.samples.new for a in reports),
            repeated=sum(a.samples.repeated for a in reports),
            skipped=sum(a.samples.skipped for a in reports),
        ),
        background=_total(a.background() for a in attempts),
        interference_s=sum(a.interference_s() for a in attempts),
        world_size=reports[-1].world_size,
        sections={**job.sections, "timeline": _rolling(attempts)},
        attempts=reports,
        warnings=tuple(warnings),
    )


@dataclass(slots=True)
class _Attempt:
    """An attempt with the partitions of its ranks."""

    record: AttemptRecord
    frame: AttemptFrame
    ranks: list[RankPartition]
    end: AttemptEnd
    failure_class: str | None
    high_water: int

    @classmethod
    def of(
        cls, record: AttemptRecord, frame: AttemptFrame, follower: AttemptRecord | None, *, high_water: int, first: bool
    ) -> _Attempt:
        ranks = partition_attempt(record, frame, high_water=high_water, first=first)
        end, failure_class = _end(record, follower)
        return cls(record, frame, ranks, end, failure_class, max(rank.high_water for rank in ranks))

    @property
    def furthest(self) -> RankPartition:
        """The rank that trained most: ranks move in lockstep, but a kill may stop one a step earlier."""
        return max(self.ranks, key=lambda rank: rank.samples_new + rank.samples_repeated)

    def moments(self, name: str) -> list[int]:
        """A moment of each rank's steps on the job's axis, for the ranks that have it."""
        return [
            moment + self.frame.offsets[rank]
            for rank, record in self.record.ranks.items()
            if record.current is not None and (moment := getattr(record.current, name))
        ]

    def logged_first_ends(self) -> list[int]:
        """Where the first line of steps of each rank ends that left no state file, on the job's axis."""
        firsts = (
            next((end for _, end, steps, _, _ in self.ranks[rank].stretches if steps), None)
            for rank, record in self.record.ranks.items()
            if record.current is None
        )
        return [end for end in firsts if end is not None]

    def mean(self, nanoseconds: int) -> float:
        """From a sum over ranks to seconds of one rank."""
        return nanoseconds / NS / len(self.ranks)

    def rank_ns(self) -> Mapping[Stage, int]:
        return {stage: sum(rank.stages[stage] for rank in self.ranks) for stage in STAGES}

    def owners(self) -> Mapping[str, float]:
        return {owner: self.mean(ns) for owner, ns in _sum(rank.owners for rank in self.ranks).items()}

    def background(self) -> Mapping[str, float]:
        return {f"{name}_s": self.mean(ns) for name, ns in _sum(rank.background for rank in self.ranks).items()}

    def interference_s(self) -> float:
        return self.mean(sum(interference_ns(rank.stretches, rank.work) for rank in self.ranks))

    def report(self) -> AttemptReport:
        furthest = self.furthest
        resumed_from = max(_resumed_from(record) for record in self.record.ranks.values())
        trained = furthest.steps_new + furthest.steps_repeated
        stages = self.rank_ns()
        return AttemptReport(
            number=self.record.number,
            start_unix=self.frame.start / NS,
            process_start_unix=self.frame.process_start / NS,
            end_unix=self.frame.end / NS,
            wall_s=(self.frame.end - self.frame.start) / NS,
            world_size=len(self.ranks),
            end=self.end.value,
            failure_class=self.failure_class,
            resumed_from_samples=resumed_from,
            reached_samples=furthest.position if trained else resumed_from,
            steps=StepCounts(new=furthest.steps_new, repeated=furthest.steps_repeated),
            samples=SampleCounts(
                new=furthest.samples_new, repeated=furthest.samples_repeated, skipped=furthest.samples_skipped
            ),
            stages={stage.value: self.mean(ns) for stage, ns in stages.items()},
            rank_seconds={stage.value: ns / NS for stage, ns in stages.items()},
        )


def _end(record: AttemptRecord, follower: AttemptRecord | None) -> tuple[AttemptEnd, str | None]:
    """How an attempt ended: the severest end of its ranks."""
    ends = [(_rank_end(rank, follower), rank.outcome) for rank in record.ranks.values()]
    end = min((end for end, _ in ends), key=_SEVEREST_FIRST.index)
    if end in (AttemptEnd.KILLED, AttemptEnd.LOST):
        return end, "infrastructure"
    if end is not AttemptEnd.FAILED:
        return end, None
    # Where one rank's own exception took the others' connections down, the exception is the cause.
    classes = {outcome.failure_class for rank_end, outcome in ends if rank_end is end and outcome}
    return end, "infrastructure" if classes == {"infrastructure"} else "user"


def _rank_end(rank: RankRecord, follower: AttemptRecord | None) -> AttemptEnd:
    if rank.running:
        return AttemptEnd.RUNNING
    if rank.ended:
        return AttemptEnd(rank.outcome.end) if rank.outcome else AttemptEnd.INTERRUPTED
    header = rank.header
    if process_is_gone(header.host, header.boot, header.pid, header.started_ticks):
        return AttemptEnd.KILLED
    known = follower and {other.header.predecessor for other in follower.ranks.values()} - {None, "expired"}
    return AttemptEnd.KILLED if known else AttemptEnd.LOST


def _resumed_from(record: RankRecord) -> int:
    """The position a rank started training at."""
    first_step = record.current.first_start if record.current else 0
    before = [line.p for line in record.positions if not first_step or line.t <= first_step]
    if before:
        return before[-1]
    if record.positions or record.current is None:
        return record.steps.p0[0] if record.steps else 0
    totals = record.current.totals
    return max(0, totals.position - totals.samples_new - totals.samples_repeated)


def _time_to_start(attempts: Sequence[_Attempt], start: int) -> float | None:
    """Start of the job to the end of its first step."""
    for attempt in attempts:
        ends = attempt.moments("first_end") + attempt.logged_first_ends()
        if ends:
            return max(0, min(ends) - start) / NS
    return None


def _recoveries(attempts: Sequence[_Attempt]) -> tuple[Durations, Durations]:
    """Per restart: the end of the last new-data step to the first new one after it, and to the first of any kind."""
    recover: list[float] = []
    resume: list[float] = []
    last_new: int | None = None
    for attempt in attempts:
        if last_new is not None:
            if steps := attempt.moments("first_start"):
                resume.append(max(0, min(steps) - last_new) / NS)
            if new := attempt.moments("new_start"):
                recover.append(max(0, min(new) - last_new) / NS)
        last_new = max(attempt.moments("new_end"), default=last_new)
    return Durations.of(tuple(recover)), Durations.of(tuple(resume))


def _rolling(attempts: Sequence[_Attempt]) -> Mapping[str, object]:
    frames = [(attempt.frame.start, attempt.frame.end, len(attempt.ranks)) for attempt in attempts]
    stretches = (rank.stretches for attempt in attempts for rank in attempt.ranks)
    points = rolling_percent(frames, stretches, int(ROLLING_WINDOW_S * NS))
    return {
        "rolling_window_s": ROLLING_WINDOW_S,
        "rolling_ett_percent": points[-1][1] if points else None,
        "rolling": points,
    }


def _notes(attempts: Sequence[AttemptRecord]) -> list[str]:
    """What the ranks of the attempts noted; what several of them noted, once."""
    numbers: dict[str, list[int]] = {}
    for attempt in attempts:
        for note in Counter(note for rank in attempt.ranks.values() for note in rank.notes):
            numbers.setdefault(note, []).append(attempt.number)
    return [f"attempt{'s' * (len(which) > 1)} {in_words(which)}: {note}" for note, which in numbers.items()]


def _gaps(attempts: Sequence[_Attempt]) -> list[str]:
    """Where somebody went on with a job that had finished: nobody failed, and the time in between is downtime still."""
    return [
        f"attempt {after.record.number} began {gap / NS:,.0f} s after attempt {before.record.number} had finished; the "
        f"gap counts as downtime"
        for before, after in pairwise(attempts)
        if before.end is AttemptEnd.FINISHED and (gap := after.frame.scheduled - after.frame.start) > _LONG_GAP_NS
    ]


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _total(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total
