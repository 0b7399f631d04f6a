"""Real processes, real signals, real disks that are full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = """
import logging, os, sys, time
from pathlib import Path
from ett_hookspecs import Span, Stage
from ett_record import open_recording
logging.basicConfig(format="%(levelname)s %(message)s")
"""


@pytest.fixture
def start(tmp_path: Path):
    """Starts a Python process with the recorder imported; what still runs at the end of the test is killed."""
    processes = []
    undisturbed = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TORCHELASTIC", "SLURM", "ETT_"))
    }  # fmt: skip

    def start(script: str, *arguments: object, stdout=subprocess.PIPE, **environ: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HARNESS + script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env={**undisturbed, **environ},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def small_disk(tmp_path: Path):
    """Mounts a file system of a few pages."""
    mounted = []

    def mount(kilobytes: int) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no mount program")
        if done.returncode:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def fill():
    """Fills a file system but for a few kilobytes; answers with what to delete to have space again."""

    def fill(place: Path, *, but_kilobytes: int = 0) -> Path:
        ballast = place / "ballast"
        stat = os.statvfs(place)
        size = stat.f_bavail * stat.f_frsize - but_kilobytes * 1024
        descriptor = os.open(ballast, os.O_CREAT | os.O_WRONLY)
        try:
            if size > 0:
                os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
        return ballast

    return fill
