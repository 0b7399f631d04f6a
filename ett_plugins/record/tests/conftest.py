"""A job driven by hand: the real recorder, log and state file, a clock that only moves when it is told to."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from ett_hookspecs import Report, Span, Stage, report_json_schema
from ett_record import JobRecord, Recorder, build_report, read_job
from ett_record.clock import NS, ClockAnchor, boot_id, process_start_ticks
from ett_record.frame import AttemptFrame, place_attempts
from ett_record.intervals import Grid, job_life
from ett_record.job import attempt_dir, rank_log, rank_state
from ett_record.lines import Header
from ett_record.partition import RankPartition, partition_attempt
from ett_record.recording import high_water_mark
from ett_record.state import StateFile
from ett_record.writer import LogWriter

BOOTED_UNIX = 1_700_000_000
"""Wall time at which the fake monotonic clock reads 0."""
ZERO_S = 1_000
"""Where the axis of the tests begins on the fake monotonic clock: ``at=0``."""
NOBODY = 2**22 + 7
"""A process id beyond the kernel's largest."""


def ns(seconds: float) -> int:
    return round(seconds * NS)


class FakeRank:
    """One process of an attempt. Seconds in, and the clock stands still between calls."""

    def __init__(self, job_dir: Path, header: Header, *, started_ns: int, ready_ns: int, writer=os.write) -> None:
        directory = attempt_dir(job_dir, header.attempt)
        self.log = rank_log(directory, header.rank)
        self.state_path = rank_state(directory, header.rank)
        self.now_ns = ready_ns
        self.world = header.world
        self.state = StateFile(self.state_path, header)
        self.writer = LogWriter(self.log, header, write=writer)
        self.recorder = Recorder(
            self.writer,
            self.state,
            ClockAnchor(header.wall, header.mono),
            process_start_ns=started_ns,
            high_water=high_water_mark(job_dir),
            clock=lambda: self.now_ns,
            heartbeat=False,
        )

    def wait_for(self, seconds: float) -> None:
        """Time goes by."""
        self.now_ns += ns(seconds)

    def load(self, seconds: float) -> None:
        """The loader takes its time for a batch."""
        self.recorder.begin_wait()
        self.wait_for(seconds)
        self.recorder.end_wait()

    def step(self, seconds: float = 1.0, samples: int = 10, *, load: float | None = 0.0) -> None:
        """Train a batch of so many samples over all ranks, after a wait for the loader unless `load` is None."""
        if load is not None:
            self.load(load)
        self.recorder.begin_step()
        self.wait_for(seconds)
        self.recorder.end_step(self.recorder.position + samples)

    def train(self, steps: int, seconds: float = 1.0, samples: int = 10) -> None:
        """Train so many batches, none of which is waited for."""
        for _ in range(steps):
            self.step(seconds, samples)

    @contextmanager
    def span(self, stage: str, name: str = "span", plugin: str = "test", owner: str | None = None) -> Iterator[None]:
        """Something blocks."""
        span = self.recorder.open(Stage(stage), name, plugin)
        yield
        span.owner = owner
        self.recorder.close_span(span)

    def tell(self, stage: str, start: float, end: float, *, blocked: bool, name: str = "told", owner=None) -> None:
        """Somebody tells of a span afterwards; seconds are relative to now."""
        start_ns, end_ns = self.now_ns + ns(start), self.now_ns + ns(end)
        span = Span(name=name, stage=Stage(stage), start_ns=start_ns, end_ns=end_ns, plugin="test", owner=owner)
        self.recorder.record(span, blocked=blocked)

    def beat(self) -> None:
        """What the heartbeat thread does every second."""
        self.state.beat(self.now_ns)
        self.recorder.flush()

    def end_fit(self, end: str = "finished", failure_class: str | None = None, error: str | None = None) -> None:
        self.recorder.end_fit(self.recorder.outcome(end, failure_class, error))

    def close(self) -> None:
        """Let go of the files, for tests that make thousands."""
        self.state.close()
        self.writer.close()

    def leave(self, end: str = "finished", failure_class: str | None = None, error: str | None = None) -> None:
        """The training loop is over, and the process ends in order."""
        self.recorder.end_training()
        self.end_fit(end, failure_class, error)
        self.recorder.finish()


class FakeJob:
    """A job directory, and the launches that write to it."""

    def __init__(self, home: Path) -> None:
        self.dir = home
        self.attempts = 0
        self.ranks: list[FakeRank] = []

    def close(self) -> None:
        for rank in self.ranks:
            rank.close()
        self.ranks.clear()

    def launch(
        self,
        at: float = 0.0,
        *,
        imports: float = 0.0,
        allocated: float | None = None,
        boot: str | None = None,
        host: str | None = None,
        clock_jump: float = 0.0,
        predecessor: str | None = "dead",
        alive: bool = False,
        world: int = 1,
        ranks: list[int] | None = None,
        late: float = 0.0,
        join: bool = False,
        writer=os.write,
    ) -> FakeRank | list[FakeRank]:
        """Start an attempt.

        Args:
            at: When its processes start, seconds on the axis of the test.
            imports: Until the recorder is opened.
            allocated: When its hardware was allocated, seconds on the same axis.
            boot: Its boot, the real one unless it is named.
            clock_jump: How far the wall clock has moved by itself.
            alive: It is this very process, so that it runs.
            ranks: Those that can write; all of them unless named.
            late: Each rank starts so much later than the one before it.
            join: These are more ranks of the attempt launched last.
        """
        if not join:
            self.attempts += 1
            attempt_dir(self.dir, self.attempts).mkdir(parents=True)
        result = []
        for rank in range(world) if ranks is None else ranks:
            started = ns(ZERO_S + at + late * rank)
            ready = started + ns(imports)
            wall = ready + ns(BOOTED_UNIX + clock_jump)
            header = Header(
                job="job-1",
                attempt=self.attempts,
                rank=rank,
                world=world,
                host=socket.gethostname() if host is None else host,
                pid=os.getpid() if alive else NOBODY,
                started_ticks=process_start_ticks(os.getpid()) if alive else 1,
                boot=boot_id() if boot is None else boot,
                run=None,
                wall=wall,
                mono=ready,
                process_start=started,
                allocated=None if allocated is None else ns(BOOTED_UNIX + ZERO_S + allocated),
                predecessor=predecessor if self.attempts > 1 else None,
                versions={},
            )
            result.append(FakeRank(self.dir, header, started_ns=started, ready_ns=ready, writer=writer))
        self.ranks += result
        return result[0] if ranks is None and world == 1 else result

    def run(
        self,
        steps: int = 1,
        seconds: float = 1.0,
        samples: int = 10,
        *,
        resume: int | None = None,
        end: str = "killed",
        **launch,
    ) -> FakeRank | list[FakeRank]:
        """An attempt from its launch to its end.

        Args:
            steps: How many it trains.
            seconds: Of each step.
            samples: Of each step, over all ranks.
            resume: The position it goes on from, unless it begins at zero.
            end: How it ends.
            launch: As for :meth:`launch`.
        """
        launched = self.launch(**launch)
        for rank in launched if isinstance(launched, list) else [launched]:
            if resume is not None:
                rank.recorder.move_to(resume)
            rank.train(steps, seconds, samples)
            rank.beat() if end == "killed" else rank.leave(end)
        return launched

    def read(self, *, now: float = 1e6) -> JobRecord:
        """What is on disk, seen from `now` on the axis."""
        return read_job(self.dir, now_unix=BOOTED_UNIX + ZERO_S + now)

    def report(self, *, now: float = 1e6) -> Report:
        """The report, after checking that it holds together."""
        record = self.read(now=now)
        report = build_report(record)
        check_whole(record, report)
        return report


def partitions(job: JobRecord) -> list[tuple[AttemptFrame, list[RankPartition]]]:
    """Every attempt's frame with the partition of each of its ranks, in whole nanoseconds."""
    result = []
    reached = 0
    for index, (attempt, frame) in enumerate(zip(job.attempts, place_attempts(job.attempts, []), strict=True)):
        ranks = partition_attempt(attempt, frame, high_water=reached, first=not index)
        reached = max(rank.high_water for rank in ranks)
        result.append((frame, ranks))
    return result


def check_nanoseconds(job: JobRecord) -> None:
    """What is true of every job's partition, whatever happened."""
    before = None
    for frame, ranks in partitions(job):
        assert before is None or frame.start == before, "attempts tile the job"
        before = frame.end
        assert frame.start <= frame.scheduled <= frame.process_start <= frame.end
        for rank in ranks:
            assert sum(rank.stages.values()) == frame.end - frame.start, "every instant has exactly one stage"
            assert min(rank.stages.values()) >= 0
            assert sum(rank.owners.values()) + rank.stages[Stage.TRAINING] == frame.end - frame.start
            assert min(rank.owners.values(), default=0) >= 0
            for count in (rank.steps_new, rank.steps_repeated, rank.samples_new, rank.samples_repeated):
                assert count >= 0
            assert rank.samples_skipped >= 0


def check_life(job: JobRecord, buckets: int = 7) -> None:
    """The partition laid out in time is the partition, whatever happened."""
    for life, (frame, ranks) in zip(job_life(job, buckets=buckets), partitions(job), strict=True):
        lengths = [b - a for a, b in pairwise(Grid(frame.start, frame.end, buckets).edges)]
        for rank, partition in zip(life.ranks, ranks, strict=True):
            found = {stage: sum(amounts) for stage, amounts in rank.stages.items()}
            assert found == {stage: amount for stage, amount in partition.stages.items() if amount}
            assert all(amount >= 0 for amounts in rank.stages.values() for amount in amounts)
            owners: Counter[str] = Counter()
            for (_, owner), amount in rank.owners.items():
                owners[owner] += amount
            assert owners == Counter(partition.owners)
            filled = [sum(amounts[bucket] for amounts in rank.stages.values()) for bucket in range(buckets)]
            # Where several stages share a stretch, each of them is rounded at the edges.
            assert filled == pytest.approx(lengths, abs=len(found) + 2)


def check_whole(job: JobRecord, report: Report) -> None:
    """What is true of every report, whatever happened."""
    check_nanoseconds(job)
    check_life(job)
    for attempt in report.attempts:
        assert sum(attempt.stages.values()) == pytest.approx(attempt.wall_s, abs=1e-6)
        assert sum(attempt.rank_seconds.values()) == pytest.approx(attempt.wall_s * attempt.world_size, abs=1e-6)
    assert sum(report.stages.values()) == pytest.approx(report.wall_s, abs=1e-5)
    assert sum(a.wall_s for a in report.attempts) == pytest.approx(report.wall_s, abs=1e-5)
    assert sum(report.owners.values()) + report.stages["training"] == pytest.approx(report.wall_s, abs=1e-5)
    assert report.ett_percent is None or 0 <= report.ett_percent <= 100
    assert report.interference_s >= 0
    for _, percent in report.sections["timeline"]["rolling"]:
        assert 0 <= percent <= 100
    for durations in (report.time_to_recover_s, report.time_to_resume_s):
        assert all(seconds >= 0 for seconds in durations.each)
    jsonschema.validate(json.loads(json.dumps(report.to_json())), report_json_schema())


@pytest.fixture
def job(tmp_path: Path) -> Iterator[FakeJob]:
    """A new job."""
    job = FakeJob(tmp_path / "job")
    yield job
    job.close()


@pytest.fixture(scope="session")
def new_job() -> Iterator[Callable[[], FakeJob]]:
    """Makes new jobs, one after the other, for tests that need many: in memory where there is a place for it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as home:
        jobs: list[FakeJob] = []

        def new() -> FakeJob:
            for job in jobs:
                job.close()
            jobs.append(FakeJob(Path(home) / f"job-{len(jobs)}"))
            return jobs[-1]

        yield new
        jobs[-1].close()


@pytest.fixture
def survive():
    """Reads and reports a directory, whose times may be nonsense by now, and checks the partition."""

    def check(job: FakeJob) -> Report:
        record = job.read()
        check_nanoseconds(record)
        report = build_report(record)
        jsonschema.validate(json.loads(json.dumps(report.to_json())), report_json_schema())
        return report

    return check


@pytest.fixture(scope="session")
def parts():
    """:func:`partitions`, for tests that want whole nanoseconds."""
    return partitions


@pytest.fixture(scope="session", name="check_life")
def _check_life():
    """:func:`check_life`, for tests that choose the buckets."""
    return check_life


@pytest.fixture
def stages():
    """Checks the stages of a report or an attempt: those named have these seconds, all others none."""

    def check(report, **expected: float) -> None:
        found = {stage: round(seconds, 6) for stage, seconds in report.stages.items() if seconds}
        assert found == {stage: pytest.approx(seconds, abs=1e-6) for stage, seconds in expected.items()}

    return check
