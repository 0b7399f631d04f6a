"""What a job is asked to do, and what of it may never change while it goes on."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .errors import ReferenceModelError
from .presets import PRESETS, Preset

OPTIONS_FILE: Final = "options.json"
RESULT_FILE: Final = "reference.json"
CHECKPOINTS: Final = "checkpoints"
PUBLISHED: Final = "published"

FIXED: Final = ("data", "preset", "batch_size", "ranks", "seed", "compiled", "workers")
"""With another value of one of these, a checkpoint would continue another training, or could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All that the command line says about a training.

    Attributes:
        job_dir: Where everything of the job is kept.
        data: ``movielens``, ``criteo`` or ``synthetic``.
        data_dir: Where its files are.
        preset: Name of a preset.
        max_samples: Over all ranks and restarts; None for the data set's own default.
        ranks: Processes.
        batch_size: Samples per rank and step.
        seed: Of weights, order and synthetic data.
        save_every: Steps between checkpoints.
        keep_last: Checkpoints kept.
        plugins: Which parts of ETT take part.
        kill_at: Samples after which the process kills itself, one for each start.
        compiled: Whether the dense part is compiled.
        published: Whether the model is published at the end.
        workers: Processes per rank that load data.
    """

    job_dir: Path
    data: str = "movielens"
    data_dir: Path | None = None
    preset: str = "small"
    max_samples: int | None = None
    ranks: int = 1
    batch_size: int | None = None
    seed: int = 1
    save_every: int = 200
    keep_last: int = 2
    plugins: tuple[str, ...] = ()
    kill_at: tuple[int, ...] = ()
    compiled: bool = True
    published: bool = True
    workers: int = 0

    @property
    def sizes(self) -> Preset:
        """The preset itself."""
        return PRESETS[self.preset]

    @property
    def samples_per_batch(self) -> int:
        """Per rank."""
        return self.batch_size or self.sizes.batch_size

    @property
    def samples_per_step(self) -> int:
        """Over all ranks."""
        return self.samples_per_batch * self.ranks

    @property
    def threads(self) -> int:
        """Per rank; the same at every start, since how a sum is split over threads decides its last bits."""
        return self.sizes.threads or max(1, (os.cpu_count() or 1) // self.ranks)


def check_same_job(options: Options) -> None:
    """Look whether a job directory belongs to a training with these options; a new one does.

    Raises:
        ReferenceModelError: It belongs to another, or cannot be used.
    """
    path = options.job_dir / OPTIONS_FILE
    try:
        known = json.loads(path.read_bytes())
        if not isinstance(known, dict):
            raise ValueError("it is not a JSON object")
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise ReferenceModelError(f"{path} cannot be read ({error}): take another --job-dir, or remove it") from error
    asked = _fixed(options)
    other = [f"{key} {known[key]}, not {asked[key]}" for key in FIXED if key in known and known[key] != asked[key]]
    if other:
        raise ReferenceModelError(
            f"the job in {options.job_dir} was started with {'; '.join(other)}: "
            f"give the same, or take another --job-dir"
        )


def remember_job(options: Options) -> None:
    """Note what a job was started with.

    Raises:
        ReferenceModelError: Its directory cannot be written.
    """
    try:
        options.job_dir.mkdir(parents=True, exist_ok=True)
        if not (options.job_dir / OPTIONS_FILE).exists():
            write_json(options.job_dir / OPTIONS_FILE, _fixed(options))
    except OSError as error:
        raise ReferenceModelError(
            f"the job directory {options.job_dir} cannot be written ({error.strerror}): take another --job-dir"
        ) from error


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file that is there as a whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(content, indent=2) + "\n")
    partial.replace(path)


def _fixed(options: Options) -> dict[str, Any]:
    return {**{key: asdict(options)[key] for key in FIXED}, "batch_size": options.samples_per_batch}
