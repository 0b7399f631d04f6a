"""What plugins add to a job's report: one small JSON file each, ``JOB_DIR/sections/<plugin>.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import read_json, write_json


def write_section(job_dir: Path, plugin: str, values: Mapping[str, Any]) -> None:
    """Leave a section for the report, in the place of the plugin's last one.

    Args:
        job_dir: The job's directory.
        plugin: Key under ``sections``.
        values: JSON types.

    Raises:
        OSError: It cannot be written; the section before it stays.
        ValueError: A number is NaN or infinite.

    *Runs on* rank zero.
    """
    home = job_dir / "sections"
    home.mkdir(parents=True, exist_ok=True)
    write_json(home / f"{plugin}.json", values)


def read_sections(job_dir: Path, warnings: list[str]) -> dict[str, Mapping[str, Any]]:
    """The sections of a job, by plugin.

    Args:
        job_dir: The job's directory.
        warnings: Gets a line for every section that cannot be read.
    """
    sections: dict[str, Mapping[str, Any]] = {}
    try:
        entries = (job_dir / "sections").iterdir()
        paths = sorted(path for path in entries if path.suffix == ".json" and not path.name.startswith("."))
    except FileNotFoundError:
        return sections
    except OSError as error:
        warnings.append(f"the sections of plugins cannot be listed: {error}")
        return sections
    for path in paths:
        try:
            values = read_json(path)
            if not isinstance(values, dict):
                raise ValueError("it is not a JSON object")
            sections[path.stem] = values
        except (OSError, ValueError) as error:
            warnings.append(f"sections/{path.name} cannot be used and was left out: {error}")
    return sections
