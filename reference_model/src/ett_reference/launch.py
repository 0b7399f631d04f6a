"""Starts a training under torchrun, which starts it again when it is killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def launched() -> bool:
    """Whether this process is one that torchrun started."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def ranks_launched() -> int:
    """How many ranks torchrun started, whatever the command line says."""
    return int(os.environ["WORLD_SIZE"])


def launch(arguments: Sequence[str], *, ranks: int, restarts: int, threads: int) -> NoReturn:
    """Become torchrun, with ``python -m ett_reference`` and these arguments on so many ranks.

    This process is replaced, so that signals and the exit code are torchrun's own.

    Args:
        arguments: Of the program.
        ranks: Processes.
        restarts: How often they may be started again.
        threads: Per process.
    """
    command = [
        sys.executable, "-m", "ett_reference.elastic", "--standalone",
        "--nproc-per-node", str(ranks), "--max-restarts", str(restarts),
        "-m", "ett_reference", *arguments,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, environment)  # noqa: S606  (our own program)
