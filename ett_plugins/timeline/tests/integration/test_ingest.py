"""What a real job recorded, told as events, comes to the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ett_hookspecs import Stage
from ett_record import read_job, report_of
from ett_record.reader import RankRecord
from ett_timeline.ingest.command import ingest

EVENTS = {Stage.CHECKPOINT_SAVE: "save", Stage.CHECKPOINT_RESTORE: "restore", Stage.COMPILATION: "compile"}


def exported(job_dir: Path) -> str:
    """The events of a recorded job, as JSON lines in no order."""
    job = read_job(job_dir)
    rows = [
        {"job": job.job_id, "attempt": attempt.number, "rank": rank, "event": event, "time": time, "position": position}
        for attempt in job.attempts
        for rank, record in attempt.ranks.items()
        for event, time, position in told(record)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def told(record: RankRecord) -> Iterator[tuple[str, float, int | None]]:
    """The events of one rank: what happened, when, and the position where there is one."""

    def wall(when: float) -> float:
        return (when + record.header.wall - record.header.mono) / 1e9

    yield "started", wall(record.header.process_start), None
    yield "first_batch", wall(record.steps.t0[0]), None
    begun = record.steps.t0[0]
    for t0, t1, n, _, p0, p1, _ in record.steps:
        assert t0 == begun
        begun = t1
        for step in range(1, n + 1):
            yield "step", wall(t0 + (t1 - t0) * step / n), p0 + (p1 - p0) * step // n
    for span in record.spans:
        if Stage(span.stage) in EVENTS:
            yield f"{EVENTS[Stage(span.stage)]}_start", wall(span.t0), None
            yield f"{EVENTS[Stage(span.stage)]}_end", wall(span.t1), None
    assert record.outcome is not None
    yield "failed" if record.outcome.end == "failed" else "ended", wall(record.life), None


def test_a_recorded_job_told_as_events_trains_and_repeats_the_same(job, lab, tmp_path):
    saves = lab.SaveEvery(tmp_path / "saved", 4)
    with pytest.raises(lab.Crash):
        job.train(lab.Model(), saves, lab.At(7, lab.crash))
    job.train(lab.Model(), ckpt_path=saves.last)
    recorded = job.report()
    events = tmp_path / "events.jsonl"
    events.write_text(exported(job.dir))

    done = CliRunner().invoke(ingest, [str(events), "--out", str(tmp_path / "theirs")])
    assert done.exit_code == 0, done.output
    ingested = report_of(tmp_path / "theirs")
    assert ingested.job_id == recorded.job_id
    assert ingested.samples == recorded.samples
    assert ingested.steps == recorded.steps
    assert [a.resumed_from_samples for a in ingested.attempts] == [a.resumed_from_samples for a in recorded.attempts]
    # No event tells of a wait for the loader: it is part of the step.
    waits = recorded.stages[Stage.INPUT_WAIT]
    assert ingested.wall_s == pytest.approx(recorded.wall_s, abs=1e-3)
    for stage in (Stage.TRAINING, Stage.RETRAINING, Stage.CHECKPOINT_SAVE, Stage.CHECKPOINT_RESTORE):
        extra = ingested.stages[stage] - recorded.stages[stage]
        assert -1e-3 <= extra <= waits + 1e-3, (stage, recorded.stages, ingested.stages)
