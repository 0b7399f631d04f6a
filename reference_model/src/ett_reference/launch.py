"""Starts a training under torchrun, which starts it again when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def launched() -> bool:
    """Whether this process is one that torchrun started."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(arguments: Sequence[str], *, ranks: int, restarts: int, threads: int) -> int:
    """Run ``python -m ett_reference`` with these arguments on so many ranks, restarted so many times.

    Args:
        arguments: Of the program.
        ranks: Processes.
        restarts: How often they may be started again.
        threads: Per process.

    Returns:
        The launcher's exit code.
    """
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", str(ranks), "--max-restarts", str(restarts),
        "-m", "ett_reference", *arguments,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603  (our own program)
