"""What the README tells a stranger to do works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ett_record import report_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODEL = """
import os, signal, sys
from lightning.pytorch.demos.boring_classes import BoringModel

class Killed(BoringModel):
    def on_train_batch_start(self, batch, batch_idx):
        if self.global_step == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)

model = Killed()
"""


def test_the_snippet_measures_a_job_that_is_killed_and_started_again(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    program = MODEL + snippet
    for killed_at in (150, -1):
        subprocess.run([sys.executable, "-c", program, str(killed_at)], cwd=tmp_path, capture_output=True, check=False)
    report = report_of(tmp_path / "runs/job1")
    assert [attempt.end for attempt in report.attempts] == ["killed", "finished"]
    assert (report.steps.new, report.steps.repeated) == (1000, 50)
    assert report.attempts[1].resumed_from_samples == 100


def test_each_path_it_names_is_there() -> None:
    named = re.findall(r"\]\(([^):]+)\)", README) + re.findall(r"(?<= )\./(\S+)", README)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []
