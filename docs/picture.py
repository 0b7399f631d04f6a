"""Draws the picture of a report: ``python docs/picture.py runs/demo docs/report.svg``."""

import io
import sys
from pathlib import Path

from rich.console import Console

from ett_record import report_of
from ett_timeline.terminal import page

job_dir, picture = Path(sys.argv[1]), Path(sys.argv[2])
console = Console(
    file=io.StringIO(), record=True, width=90, highlight=False, force_terminal=True, color_system="truecolor"
)
console.print(page(report_of(job_dir), console))
console.save_svg(str(picture), title=f"ett report {job_dir}")
