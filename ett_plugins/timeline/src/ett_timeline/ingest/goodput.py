"""Entries as ml-goodput-measurement's recorder logs them, one JSON object each.

An entry holds ``job_name``, one time in Unix seconds under a name that says of what, and for steps ``step_count``. An
entry exported from Cloud Logging holds it under ``jsonPayload``. The recorder of a restarted job goes on in the same
log: each ``job_start_time`` begins an attempt. Steps are told of when they begin, so that one has ended when the next
begins, and the last one's end is not known. Positions are counts of steps.

*Source* https://github.com/AI-Hypercomputer/ml-goodput-measurement, its recorder's entries as of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ett_hookspecs import Stage

from .events import Kind

JOB_NAME: Final = "job_name"
_STEP_TIME: Final = "step_start_time"
_STEP_COUNT: Final = "step_count"
_CUSTOM: Final = "custom_badput_event"
_CUSTOM_TYPE: Final = "custom_badput_event_type"
_BOUNDARIES: Final = {"job_start_time": Kind.STARTED, "job_end_time": Kind.ENDED, _STEP_TIME: Kind.STEP_BEGUN}
_SPANS: Final = {
    "tpu_init": ("TPU initialization", Stage.INITIALIZATION),
    "training_prep": ("training preparation", Stage.INITIALIZATION),
    "training_preparation": ("training preparation", Stage.INITIALIZATION),
    "data_loading": ("data loading", Stage.INPUT_WAIT),
}
_SPAN: Final = re.compile(r"(.+)_(start|end)_time")
_CUSTOM_STAGES: Final = (("eval", Stage.VALIDATION), ("compil", Stage.COMPILATION))


class Entry(NamedTuple):
    """What an entry says.

    Attributes:
        kind: What happened.
        time: When, as the entry has it.
        span: Name and stage for the start or end of a span.
        step: The number of a step that begins.
        note: What is odd about it, or None.
    """

    kind: Kind
    time: Any
    span: tuple[str, Stage] | None = None
    step: Any = None
    note: str | None = None


def payload_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The entry in a JSON object, or None if it is of no such recorder."""
    payload = row.get("jsonPayload", row)
    return payload if isinstance(payload, dict) and JOB_NAME in payload else None


def entry_of(payload: Mapping[str, Any]) -> Entry:
    """Read an entry.

    Raises:
        ValueError: It says nothing that is known here; the text says what it has.
    """
    for name, kind in _BOUNDARIES.items():
        if name in payload:
            return Entry(kind, payload[name], step=payload.get(_STEP_COUNT) if kind is Kind.STEP_BEGUN else None)
    for name, time in payload.items():
        if match := _SPAN.fullmatch(name):
            kind = Kind.SPAN_START if match[2] == "start" else Kind.SPAN_END
            if match[1] == _CUSTOM:
                return Entry(kind, time, _custom(payload.get(_CUSTOM_TYPE)))
            if match[1] in _SPANS:
                return Entry(kind, time, _SPANS[match[1]])
            return Entry(kind, time, (match[1], Stage.UNKNOWN), note=f"{name!r} is not known: its time is unknown")
    names = ", ".join(sorted(set(payload) - {JOB_NAME})) or "nothing"
    raise ValueError(f"an entry of an unknown kind: it has {names}")


def _custom(kind: Any) -> tuple[str, Stage]:
    """The stage of what a user named: what the name does not say is unknown."""
    name = str(kind) if kind else "custom event"
    return name, next((stage for word, stage in _CUSTOM_STAGES if word in name.lower()), Stage.UNKNOWN)
