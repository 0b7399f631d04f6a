"""A log of a million steps is reported correctly; ``-s`` shows what it took."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

STEPS = 1_000_000

REPORT = """
import json, resource, sys, time
from pathlib import Path
begin = time.perf_counter()
from ett_record import report_of
report = report_of(Path(sys.argv[1]))
took = time.perf_counter() - begin
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": took, "peak_rss_mb": memory, "report": report.to_json()}))
"""


@pytest.mark.parametrize(
    ("line_steps", "line_ns"), [(200, 1_000_000_000), (1, 1_000_000_000)], ids=["steps of 5 ms", "a line for each step"]
)
def test_a_million_steps(job, tmp_path, line_steps, line_ns):
    rank = job.launch()
    now = rank.now_ns
    with rank.log.open("a") as log:
        log.write(f'{{"k":"phase","t":{now},"phase":"training"}}\n')
        for first in range(0, STEPS, line_steps):
            log.write(
                f'{{"k":"steps","t0":{now},"t1":{now + line_ns},"n":{line_steps},"wait":{first % 977 + 1},'
                f'"p0":{first * 8},"p1":{(first + line_steps) * 8}}}\n'
            )
            now += line_ns
        log.write(f'{{"k":"outcome","t":{now},"end":"finished"}}\n{{"k":"end","t":{now}}}\n')
    rank.state_path.unlink()
    done = subprocess.run([sys.executable, "-c", REPORT, str(job.dir)], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    report = result["report"]
    print(f"{STEPS // line_steps:,} lines: {result['seconds']:.2f} s, {result['peak_rss_mb']:.0f} MB")
    waited = sum(first % 977 + 1 for first in range(0, STEPS, line_steps)) / 1e9
    assert report["steps"] == {"new": STEPS, "repeated": 0}
    assert report["samples"] == {"new": 8 * STEPS, "repeated": 0, "skipped": 0}
    assert report["stages"]["input_wait"] == pytest.approx(waited)
    assert report["stages"]["training"] == pytest.approx(STEPS // line_steps * line_ns / 1e9 - waited)
    assert report["wall_s"] == pytest.approx(STEPS // line_steps * line_ns / 1e9)
    assert report["state"] == "finished"
