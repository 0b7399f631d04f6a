from __future__ import annotations

import dataclasses
import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_hookspecs import (
    REPORT_SCHEMA,
    AttemptEnd,
    AttemptReport,
    Durations,
    Report,
    SampleCounts,
    Stage,
    StepCounts,
    report_json_schema,
)

SCHEMA = report_json_schema()
DEFS = SCHEMA["$defs"]

ATTEMPT = AttemptReport(
    number=1,
    start_unix=1.0,
    process_start_unix=2.0,
    end_unix=11.0,
    wall_s=10.0,
    world_size=2,
    end=AttemptEnd.KILLED,
    failure_class="infrastructure",
    resumed_from_samples=0,
    reached_samples=640,
    steps=StepCounts(new=10),
    samples=SampleCounts(new=640),
    stages={Stage.TRAINING: 9.0, Stage.SCHEDULING: 1.0},
    rank_seconds={Stage.TRAINING: 18.0, Stage.SCHEDULING: 2.0},
)

REPORT = Report(
    job_id="job1",
    state=AttemptEnd.KILLED,
    wall_s=10.0,
    ett_percent=90.0,
    stages={Stage.TRAINING: 9.0, Stage.SCHEDULING: 1.0},
    rank_seconds={Stage.TRAINING: 18.0, Stage.SCHEDULING: 2.0},
    owners={"scheduler": 1.0},
    time_to_start_s=1.5,
    time_to_recover_s=Durations.of((3.0, 1.0)),
    time_to_resume_s=Durations(),
    failures=1,
    steps=StepCounts(new=10),
    samples=SampleCounts(new=640),
    background={"snapshot_write_s": 0.5},
    interference_s=0.1,
    world_size=2,
    sections={"publish": {"time_to_published_s": 4.0}},
    attempts=(ATTEMPT,),
    warnings=("rank 1 left no file",),
)


def validate(report):
    """As another program would: through JSON text."""
    jsonschema.validate(json.loads(json.dumps(report.to_json())), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == REPORT_SCHEMA == SCHEMA["properties"]["schema"]["const"]


def test_a_report_validates_and_says_first_which_schema_it_follows():
    validate(REPORT)
    assert next(iter(REPORT.to_json().items())) == ("schema", "ett.report/1")


def test_a_report_of_a_job_without_any_time_validates():
    validate(
        dataclasses.replace(
            REPORT,
            ett_percent=None,
            time_to_start_s=None,
            stages={},
            attempts=(),
            warnings=(),
            wall_s=0.0,
            world_size=0,
        )
    )


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        (SCHEMA, Report),
        (DEFS["attempt"], AttemptReport),
        (DEFS["durations"], Durations),
        (DEFS["steps"], StepCounts),
        (DEFS["samples"], SampleCounts),
    ],
)
def test_schema_and_dataclass_have_the_same_fields_and_all_are_required(described, kind):
    fields = {field.name for field in dataclasses.fields(kind)}
    assert set(described["properties"]) == fields
    assert set(described["required"]) == fields
    assert described["additionalProperties"] is False


def test_schema_and_enums_know_the_same_words():
    assert DEFS["end"]["enum"] == [end.value for end in AttemptEnd]
    assert DEFS["stage_seconds"]["propertyNames"]["enum"] == [stage.value for stage in Stage]


@pytest.mark.parametrize(
    "change",
    [
        {"wall_s": -1.0},
        {"ett_percent": 100.5},
        {"state": "paused"},
        {"stages": {"lunch": 1.0}},
        {"background": {"snapshot_write": 1.0}},
        {"failures": 0.5},
        {"job_id": ""},
    ],
)
def test_what_makes_no_sense_does_not_validate(change):
    with pytest.raises(jsonschema.ValidationError):
        validate(dataclasses.replace(REPORT, **change))


def test_no_durations_have_no_mean():
    assert Durations.of(()) == Durations()
    assert Durations().mean is None


@given(st.lists(st.floats(min_value=0, max_value=1e9), min_size=1).map(tuple))
def test_durations_are_kept_in_order_of_time_and_summarized_by_what_was_measured(each):
    durations = Durations.of(each)
    assert durations.each == each
    assert durations.max == max(each)
    assert min(each) <= durations.p50 <= durations.p95 <= durations.max
    assert {durations.p50, durations.p95} <= set(each)
    assert sum(value <= durations.p50 for value in each) >= len(each) / 2
    assert sum(value <= durations.p95 for value in each) >= len(each) * 0.95


def test_percentiles_are_nearest_ranks():
    durations = Durations.of(tuple(float(value) for value in range(1, 21)))
    assert (durations.p50, durations.p95, durations.max) == (10.0, 19.0, 20.0)
