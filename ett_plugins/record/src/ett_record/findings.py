"""What lies in a job's timeline directory, and what does not belong there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from .job import attempt_dir, rank_log, timeline_dir

_SHOWN: Final = 5


def strange_attempts(job_dir: Path, numbers: Sequence[int]) -> list[str]:
    """What the names of the attempts' directories say of attempts that are not there.

    Args:
        job_dir: The job's directory.
        numbers: The attempts that are there, in order, at least one.

    Returns:
        Warnings for the report.

    Raises:
        OSError: The timeline cannot be listed.
    """
    known = {attempt_dir(job_dir, number).name for number in numbers}
    names = {entry.name for entry in timeline_dir(job_dir).iterdir() if entry.name.startswith("attempt")}
    warnings = [f"timeline/{name} is no attempt's directory and was left out" for name in sorted(names - known)]
    there = set(numbers)
    missing = list(islice((number for number in range(1, numbers[-1]) if number not in there), _SHOWN + 1))
    if missing:
        which = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        warnings.append(f"no directory of attempt {which}: it was deleted, and its time counts as downtime")
    return warnings


def rank_logs(attempt: Path) -> tuple[list[tuple[int, Path]], list[str]]:
    """The logs of an attempt, by rank, and the names of what only looks like one.

    Raises:
        OSError: The directory cannot be listed.
    """
    logs: list[tuple[int, Path]] = []
    strange: list[str] = []
    for path in sorted(attempt.iterdir()):
        if path.name.startswith("rank-") and path.suffix == ".jsonl":
            match = re.fullmatch(r"rank-(\d{5,9})\.jsonl", path.name)
            if match and rank_log(attempt, int(match[1])) == path:
                logs.append((int(match[1]), path))
            else:
                strange.append(path.name)
    return logs, strange


def in_words(numbers: Sequence[int]) -> str:
    """A list that a sentence can hold: the first few, and how many more."""
    if len(numbers) == 1:
        return str(numbers[0])
    if len(numbers) <= _SHOWN:
        return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    return f"{', '.join(map(str, numbers[:_SHOWN]))} and {len(numbers) - _SHOWN:,} more"
