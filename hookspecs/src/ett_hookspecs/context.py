"""What every ETT callback of one Trainer shares, without knowing Lightning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from .position import SamplePosition

JOB_DIR_VARIABLE: Final = "ETT_JOB_DIR"
"""Environment variable that names the job directory where no callback does."""


class RunContext:
    """The facts of one run: which job, which attempt, which rank, and where in the data.

    There is one per Trainer; callbacks get it when they are attached. Whoever learns a fact sets it for the others.

    Attributes:
        rank: Global rank of this process.
        world_size: Number of ranks.
        position: The sample position that timeline, snapshot and recovery share.
        job_id: The job's identity; None until its directory was claimed.
        attempt: This launch's number, from 1; None until the job's directory was claimed.
    """

    def __init__(self, *, rank: int = 0, world_size: int = 1, replicas: int | None = None) -> None:
        self.rank = rank
        self.world_size = world_size
        self.position = SamplePosition(replicas=world_size if replicas is None else replicas)
        self.job_id: str | None = None
        self.attempt: int | None = None
        from_environment = os.environ.get(JOB_DIR_VARIABLE)
        # Made absolute once: a training may change its working directory.
        self._from_environment = Path(from_environment).absolute() if from_environment else None
        self._named: tuple[Path, str] | None = None

    @property
    def job_dir(self) -> Path | None:
        """The job's directory, absolute: what a callback named, else ``ETT_JOB_DIR``, else None."""
        return self._from_environment if self._named is None else self._named[0]

    def name_job_dir(self, job_dir: str | os.PathLike[str], by: str) -> None:
        """A callback names the job's directory.

        Args:
            job_dir: Local or shared POSIX path.
            by: The callback's name, for the error.

        Raises:
            ValueError: Another callback of the same Trainer named another one.
        """
        path = Path(job_dir).absolute()
        # Links and dots resolved: what counts is the directory, not how it is spelt.
        if self._named is not None and self._named[0].resolve() != path.resolve():
            known, namer = self._named
            raise ValueError(
                f"{namer} says the job directory is {known} and {by} says {path}: give all callbacks of a Trainer the "
                f"same one, or only one of them any"
            )
        self._named = (path, by)
