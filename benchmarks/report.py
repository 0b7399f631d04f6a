"""What a report of a million steps costs, in a fresh process: seconds from its start to the report, and peak memory.

Two logs, written by the real recorder with a clock that is set by hand: steps of 5 ms, of which a line holds about a
second, and steps of a second, of which each has a line of its own, the most that a job of so many steps can have.

    python benchmarks/report.py            a table
    python benchmarks/report.py --json     one object: for each log steps, lines, seconds, peak_rss_mb; seconds and
                                           peak_rss_mb are medians, with min and max beside them
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.progress import Progress

from ett_record import Recorder
from ett_record.clock import NS, ClockAnchor
from ett_record.job import attempt_dir, rank_log, rank_state
from ett_record.lines import Header
from ett_record.state import StateFile
from ett_record.writer import LogWriter

MEASURED = """
import json, resource, sys, time
from pathlib import Path
begin = time.perf_counter()
baseline = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from ett_record import report_of
report = report_of(Path(sys.argv[1]))
print(json.dumps({
    "seconds": time.perf_counter() - begin,
    "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "baseline_rss_mb": baseline / 1024,
    "steps": report.steps.new,
    "training_s": report.stages["training"],
}))
"""


def write_log(job_dir: Path, steps: int, step_ns: int) -> int:
    """Record steps of a length.

    Returns:
        Lines written.
    """
    now = 1000 * NS
    directory = attempt_dir(job_dir, 1)
    directory.mkdir(parents=True)
    header = Header(
        job="benchmark", attempt=1, rank=0, world=1, host="benchmark", pid=1, boot="benchmark", wall=1_700_000_000 * NS,
        mono=now, process_start=now, versions={},
    )  # fmt: skip
    recorder = Recorder(
        LogWriter(rank_log(directory, 0), header),
        StateFile(rank_state(directory, 0), header),
        ClockAnchor(header.wall, header.mono),
        process_start_ns=now,
        clock=lambda: now,
        heartbeat=False,
    )
    for step in range(steps):
        recorder.begin_wait()
        now += 1000 + step % 977
        recorder.end_wait()
        recorder.begin_step()
        now += step_ns + step % 1009
        recorder.end_step(64 * (step + 1))
        if not step % 20_000:
            recorder.flush()
    recorder.end_training()
    recorder.end_fit(recorder.outcome("finished"))
    recorder.finish()
    with rank_log(directory, 0).open("rb") as log:
        return sum(1 for _ in log)


def measure(job_dir: Path, repeats: int, steps: int, lines: int) -> dict[str, Any]:
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, str(job_dir)], check=True, capture_output=True, text=True
        )
        runs.append(json.loads(done.stdout))
    if any(run["steps"] != steps for run in runs):
        raise SystemExit(f"the report counts {runs[0]['steps']} steps, not {steps}")
    result: dict[str, Any] = {"steps": steps, "lines": lines}
    for name in ("seconds", "peak_rss_mb", "baseline_rss_mb"):
        values = [run[name] for run in runs]
        result[name] = statistics.median(values)
        result[f"{name}_min"], result[f"{name}_max"] = min(values), max(values)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of each log (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="reports of each log (default %(default)s)")
    arguments = parser.parse_args()

    results = {}
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as home,
        Progress(transient=True, disable=arguments.json) as progress,
    ):
        task = progress.add_task("writing and reading logs", total=2)
        for name, step_ns in (("steps_of_5_ms", 5_000_000), ("a_line_a_step", NS)):
            job_dir = Path(home) / name
            lines = write_log(job_dir, arguments.steps, step_ns)
            results[name] = measure(job_dir, arguments.repeats, arguments.steps, lines)
            progress.advance(task)
    if arguments.json:
        print(json.dumps(results))
        return
    for name, result in results.items():
        print(
            f"{name:15} {result['steps']:9,} steps {result['lines']:9,} lines   {result['seconds']:6.2f} s   "
            f"{result['peak_rss_mb']:6.0f} MB (interpreter {result['baseline_rss_mb']:.0f} MB)"
        )


if __name__ == "__main__":
    main()
