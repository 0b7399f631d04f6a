"""The contract between the parts of ETT: hooks, the types that cross them, the manager, and the ``ett`` program."""

from __future__ import annotations

from .attach import Attachable, Run, run_of, timed_span
from .context import JOB_DIR_VARIABLE, RunContext
from .errors import EttError, EttPluginError
from .figures import offered_figures
from .manager import EttManager, create_manager
from .markers import CONTRACT_VERSION, hookimpl, hookspec
from .position import SamplePosition
from .report import (
    REPORT_SCHEMA,
    AttemptReport,
    Durations,
    Report,
    SampleCounts,
    StepCounts,
    report_json_schema,
)
from .types import DEFAULT_OWNERS, Attempt, AttemptEnd, BatchSamples, Command, Figure, Span, Stage

__all__ = [
    "CONTRACT_VERSION",
    "DEFAULT_OWNERS",
    "JOB_DIR_VARIABLE",
    "REPORT_SCHEMA",
    "Attachable",
    "Attempt",
    "AttemptEnd",
    "AttemptReport",
    "BatchSamples",
    "Command",
    "Durations",
    "EttError",
    "EttManager",
    "EttPluginError",
    "Figure",
    "Report",
    "Run",
    "RunContext",
    "SampleCounts",
    "SamplePosition",
    "Span",
    "Stage",
    "StepCounts",
    "create_manager",
    "hookimpl",
    "hookspec",
    "offered_figures",
    "report_json_schema",
    "run_of",
    "timed_span",
]
