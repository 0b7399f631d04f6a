"""Whatever happens to a job, its report holds together.

Histories are drawn at random and written to disk by the real recorder, log and state file. ``FakeJob.report`` checks
what is true of every report: attempts tile the job, the stages of every rank sum to its wall time to the nanosecond,
nothing is negative, what is not training has an owner, ETT% lies in 0-100, the JSON validates.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ett_hookspecs import Stage

SPAN_STAGES = ("validation", "compilation", "checkpoint_save", "checkpoint_restore", "publishing", "initialization")
MOVES = (
    "time", "time", "time", "begin wait", "end wait", "begin step", "begin step", "end step", "end step", "open",
    "open", "close", "close", "close any", "told", "background", "load", "begin fit", "end training", "end fit", "fail",
    "beat", "beat", "note",
)  # fmt: skip

relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


class Anyhow:
    """Calls a recorder in any order at all, sensible or not."""

    def __init__(self, rank, *, background: bool) -> None:
        self.rank = rank
        self.opened = []
        self.with_background = background

    def play(self, moves) -> None:
        for move, amount in moves:
            getattr(self, move.replace(" ", "_"))(amount)

    def time(self, amount):
        self.rank.now_ns += amount * 1_234_567

    def begin_wait(self, amount):
        self.rank.recorder.begin_wait()

    def end_wait(self, amount):
        self.rank.recorder.end_wait()

    def begin_step(self, amount):
        self.rank.recorder.begin_step()

    def end_step(self, amount):
        self.rank.recorder.end_step(self.rank.recorder.position + amount % 50)

    def open(self, amount):
        self.opened.append(self.rank.recorder.open(Stage(SPAN_STAGES[amount % 6]), "span", "test"))

    def close(self, amount):
        if self.opened:
            self.rank.recorder.close_span(self.opened.pop())

    def close_any(self, amount):
        if self.opened:
            self.rank.recorder.close_span(self.opened[amount % len(self.opened)])

    def background(self, amount):
        if self.with_background:
            self.rank.tell("checkpoint_save", -amount / 50, 0.0, blocked=False, name=f"work_{amount % 2}")

    def told(self, amount):
        self.rank.tell(SPAN_STAGES[amount % 6], -amount / 100, amount % 7 - amount / 100, blocked=True)

    def load(self, amount):
        self.rank.recorder.move_to(amount % 300)

    def begin_fit(self, amount):
        self.rank.recorder.begin_fit()

    def end_training(self, amount):
        self.rank.recorder.end_training()

    def end_fit(self, amount):
        self.rank.end_fit()

    def fail(self, amount):
        self.rank.end_fit("failed", ("user", "infrastructure")[amount % 2], "Some: error")

    def beat(self, amount):
        self.rank.beat()

    def note(self, amount):
        self.rank.recorder.note("something")


moves = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 1000)), max_size=30)


@st.composite
def attempts(draw):
    """What each launch is like, and what each of its ranks does."""
    launches = []
    for _ in range(draw(st.integers(1, 3))):
        world = draw(st.integers(1, 2))
        launches.append(
            {
                "how": {
                    "world": world,
                    "late": draw(st.sampled_from([0.0, 0.5])),
                    "imports": draw(st.sampled_from([0.0, 1.25])),
                    "boot": draw(st.sampled_from([None, None, "boot-1", "boot-2", ""])),
                    "clock_jump": draw(st.sampled_from([0.0, 0.0, -500.0, 500.0])),
                    "allocated": draw(st.sampled_from([None, None, -30.0, 1.0, 5.0, 400.0, -1e6])),
                    "predecessor": draw(st.sampled_from(["dead", "ended", "expired", None])),
                },
                "gap": draw(st.sampled_from([0.0, 3.0, 600.0, -0.5])),
                "ranks": [
                    (draw(moves), draw(st.sampled_from(["kill", "kill", "leave", "finish"])), draw(DAMAGE))
                    for _ in range(world)
                ],
            }
        )
    return launches


DAMAGE = st.sampled_from([None] * 8 + ["torn line", "no state", "no log", "damaged line", "torn state"])


def damage(rank, how: str | None) -> None:
    data = rank.log.read_bytes()
    if how == "torn line":
        rank.log.write_bytes(data + b'{"k":"steps","t0":12')
    elif how == "damaged line":
        lines = data.split(b"\n")
        index = 1 + len(lines) // 3
        if index < len(lines) - 1:
            lines[index] = lines[index][: len(lines[index]) // 2]
            rank.log.write_bytes(b"\n".join(lines))
    elif how == "no state":
        rank.state_path.unlink()
    elif how == "torn state":
        # Both copies of the current state.
        content = bytearray(rank.state_path.read_bytes())
        content[128:160] = b"\xff" * 32
        rank.state_path.write_bytes(content)
    elif how == "no log" and rank.world > 1 and not rank.log.name.endswith("00000.jsonl"):
        rank.log.unlink()


def write(job, launches, *, background: bool = True) -> None:
    at = 0.0
    for launch in launches:
        ranks = job.launch(at=max(0.0, at + launch["gap"]), **launch["how"])
        ranks = ranks if isinstance(ranks, list) else [ranks]
        for rank, (script, end, harm) in zip(ranks, launch["ranks"], strict=True):
            Anyhow(rank, background=background).play(script)
            if end == "leave":
                rank.leave()
            elif end == "finish":
                rank.recorder.finish()
            damage(rank, harm)
            at = max(at, rank.now_ns / 1e9 - 1000)


@given(attempts())
@settings(relaxed, max_examples=200)
def test_every_instant_of_every_rank_has_one_stage_whatever_happens(new_job, launches):
    job = new_job()
    write(job, launches)
    job.report()


@given(attempts())
@settings(relaxed, max_examples=60)
def test_background_work_changes_only_its_own_figures_whatever_happens(new_job, launches):
    reports = []
    for background in (True, False):
        job = new_job()
        write(job, launches, background=background)
        report = job.report().to_json()
        report.pop("background")
        report.pop("interference_s")
        # A damaged line may be another one now.
        report.pop("warnings")
        reports.append(report)
    if not any(harm == "damaged line" for launch in launches for _, _, harm in launch["ranks"]):
        assert reports[0] == reports[1]


# --- histories as a training loop makes them ---

MS = st.integers(0, 2500)


@st.composite
def spans(draw, depth: int = 2):
    """Nested work: (stage, before, inner spans, after)."""
    inner = draw(st.lists(spans(depth - 1), max_size=2)) if depth else []
    return draw(st.sampled_from(SPAN_STAGES[:5])), draw(MS), inner, draw(MS)


@st.composite
def steps(draw, *, overhead: bool):
    """What belongs to a step. Overhead is time of the loop before and after it."""
    quiet = st.just([])
    return {
        "load": draw(MS),
        "gap": draw(MS) if overhead else 0,
        "busy": draw(MS),
        "inside": draw(quiet | st.lists(spans(), max_size=2)),
        "told": draw(st.booleans()),
        "more": draw(MS),
        "samples": draw(st.integers(1, 30)),
        "after": draw(MS) if overhead else 0,
        "between": draw(quiet | st.lists(spans(), max_size=1)),
        "beat": draw(st.booleans()),
    }


@st.composite
def fits(draw, *, overhead: bool):
    """Two fits at most, with tear-down and what lies between them."""
    return [
        {
            "setup": draw(MS),
            "before": draw(st.lists(spans(1), max_size=1)),
            "steps": draw(st.lists(steps(overhead=overhead), min_size=1, max_size=6)),
            "teardown": draw(MS),
            "pause": draw(MS),
        }
        for _ in range(draw(st.integers(1, 2)))
    ]


class Loop:
    """Plays a training loop, and stops dead where it is told to."""

    class Killed(Exception):
        pass

    def __init__(self, rank, *, beats: bool = True, kill_after: int | None = None) -> None:
        self.rank = rank
        self.beats = beats
        self.left = kill_after

    def tick(self, milliseconds: int) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.rank.now_ns += milliseconds * 500_000
                self.rank.state.beat(self.rank.now_ns)
                raise self.Killed
        self.rank.now_ns += milliseconds * 1_000_000

    def span(self, span) -> None:
        stage, before, inner, after = span
        opened = self.rank.recorder.open(Stage(stage), "span", "test")
        self.tick(before)
        for each in inner:
            self.span(each)
        self.tick(after)
        self.rank.recorder.close_span(opened)

    def step(self, step) -> None:
        recorder = self.rank.recorder
        recorder.begin_wait()
        self.tick(step["load"])
        recorder.end_wait()
        self.tick(step["gap"])
        recorder.begin_step()
        self.tick(step["busy"])
        for span in step["inside"]:
            self.span(span)
        self.tick(step["more"])
        if step["told"]:
            self.rank.tell("compilation", -step["more"] / 2000, 0.0, blocked=True)
        recorder.end_step(recorder.position + step["samples"])
        self.tick(step["after"])
        for span in step["between"]:
            self.span(span)
        if self.beats and step["beat"]:
            self.rank.beat()

    def run(self, history) -> None:
        try:
            for fit in history:
                self.rank.recorder.begin_fit()
                self.tick(fit["setup"])
                for span in fit["before"]:
                    self.span(span)
                for step in fit["steps"]:
                    self.step(step)
                self.rank.recorder.end_training()
                self.tick(fit["teardown"])
                self.rank.end_fit()
                self.tick(fit["pause"])
            self.rank.recorder.finish()
        except self.Killed:
            pass


def resumed(job, samples: int, position: int):
    """A rank of a second attempt, after one that trained so many samples and was killed."""
    first = job.launch()
    first.step(1.0, samples=samples, load=None)
    first.beat()
    rank = job.launch(at=1.0)
    rank.recorder.move_to(min(samples, position))
    return rank


@given(fits(overhead=True))
@settings(relaxed, max_examples=100)
def test_the_live_totals_are_the_partition_of_the_finished_log(new_job, parts, history):
    job = new_job()
    rank = job.launch()
    Loop(rank).run(history)
    ((_, (partition,)),) = parts(job.read())
    assert {stage.value: elapsed for stage, elapsed in partition.stages.items()} == rank.recorder.totals
    job.report()


@given(fits(overhead=True), st.integers(0, 200), st.integers(0, 200))
@settings(relaxed, max_examples=100)
def test_on_a_resume_the_live_totals_differ_only_by_the_loop_around_the_mark(
    new_job, parts, history, samples, position
):
    """Live, the loop's own time before a step is charged before anyone knows on which side of the mark the step lies;
    afterwards it belongs to its step. So the loop's time around the steps at the mark may be moved between training and
    retraining. Everything else is equal."""
    job = new_job()
    rank = resumed(job, samples, position)
    Loop(rank).run(history)
    partition = parts(job.read())[-1][1][0]
    live = dict(rank.recorder.totals)
    found = {stage.value: elapsed for stage, elapsed in partition.stages.items()}
    every_step = [step for fit in history for step in fit["steps"]]
    overhead = sorted(step["gap"] + step["after"] for step in every_step)[-2:]
    assert found["training"] == pytest.approx(live["training"], abs=sum(overhead) * 1_000_000 + 2)
    assert found["training"] + found["retraining"] == live["training"] + live["retraining"]
    for stage in ("training", "retraining"):
        live.pop(stage), found.pop(stage)
    assert found.pop("downtime") == 0
    live.pop("downtime")
    assert found == live
    current = job.read().attempts[-1].ranks[0].current.totals
    assert (partition.steps_new, partition.steps_repeated) == (current.steps_new, current.steps_repeated)
    assert (partition.samples_new, partition.samples_repeated) == (current.samples_new, current.samples_repeated)


@given(fits(overhead=False), st.integers(0, 200), st.integers(0, 200), st.integers(0, 80))
@settings(relaxed, max_examples=150)
def test_after_a_kill_it_does_not_matter_how_much_of_the_log_had_been_written(
    new_job, parts, history, samples, position, moment
):
    """With the log up to the last heartbeat, and with nothing but the state file."""
    found = []
    for beats in (True, False):
        job = new_job()
        rank = resumed(job, samples, position)
        Loop(rank, beats=beats, kill_after=moment).run(history)
        partition = parts(job.read())[-1][1][0]
        counts = (partition.steps_new, partition.steps_repeated, partition.samples_new, partition.samples_repeated)
        found.append((dict(partition.stages), counts, partition.high_water, partition.position))
        job.report()
    flushed, unflushed = found
    assert flushed[1:3] == unflushed[1:3]
    for stage in Stage:
        # Splitting a step at the mark rounds to a nanosecond.
        assert flushed[0][stage] == pytest.approx(unflushed[0][stage], abs=2), stage
