"""The files of a job directory are those that docs/formats.md lists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs/formats.md").read_text(encoding="utf-8")
JOB = """
import sys
from pathlib import Path
from ett_record import open_recording
from ett_record.sections import write_section

job_dir = Path(sys.argv[1])
open_recording(job_dir)
write_section(job_dir, "<plugin>", {})
print(*(path.name for path in job_dir.rglob("*") if path.is_file()))
"""


def test_a_job_directory_holds_the_files_that_are_listed(tmp_path: Path) -> None:
    (tree,) = re.findall(r"^```text\nJOB_DIR/\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"── (\S+[^/\s])(?:\s|$)", tree))
    done = subprocess.run([sys.executable, "-c", JOB, tmp_path], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == listed
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == listed - {"writer.json"}
