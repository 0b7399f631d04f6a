"""Runs the program as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist


@dataclass(frozen=True)
class Run:
    """What a run of the program left behind."""

    code: int
    output: str
    job_dir: Path

    @property
    def result(self) -> dict[str, Any]:
        """``reference.json``."""
        content: dict[str, Any] = json.loads((self.job_dir / "reference.json").read_text())
        return content

    @property
    def report(self) -> dict[str, Any]:
        """``ett report --json``."""
        command = [Path(sys.executable).with_name("ett"), "report", self.job_dir, "--json"]
        content: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return content

    @property
    def checkpoints(self) -> list[str]:
        """Names of what is in the checkpoint folder, hidden ones too."""
        return sorted(path.name for path in (self.job_dir / "checkpoints").iterdir())


Train = Callable[..., Run]


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels compiled by one test are there for the next; nothing comes from outside the test run."""
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture
def train(compile_cache: Path, tmp_path: Path) -> Train:
    """Runs ``ett-reference train`` to its end; a run that hangs is ended with everything it started."""

    def run(*arguments: object, job: str = "job", code: int | None = 0) -> Run:
        job_dir = tmp_path / job
        command = [sys.executable, "-m", "ett_reference", "train", "--job-dir", str(job_dir), *map(str, arguments)]
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("TORCHELASTIC", "ETT_"))},
            "TORCHINDUCTOR_CACHE_DIR": str(compile_cache),
        }
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=200)
            except BaseException:
                # torchrun ends its ranks when it is asked to.
                process.terminate()
                print(process.communicate()[0])
                raise
        if code is not None:
            assert process.returncode == code, output
        return Run(process.returncode, output, job_dir)

    return run


@pytest.fixture
def one_rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as the only rank of a launch."""
    for name, value in {
        "RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "TORCHELASTIC_RUN_ID": "test",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
