"""The timeline of a training job: how it is written, read and accounted for. Knows neither Lightning nor torch."""

from __future__ import annotations

from .accounting import Layer, own_times
from .ledger import OpenSpan
from .lines import LARGEST
from .reader import JobRecord, read_job
from .recorder import Recorder
from .recording import Recording, open_recording
from .report import build_report, report_of
from .sections import write_section

__all__ = [
    "LARGEST",
    "JobRecord",
    "Layer",
    "OpenSpan",
    "Recorder",
    "Recording",
    "build_report",
    "open_recording",
    "own_times",
    "read_job",
    "report_of",
    "write_section",
]
