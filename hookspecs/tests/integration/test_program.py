"""The program as a process: what it imports, and what happens when its reader or its user has enough of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ett_hookspecs.testing import fake_distribution

PLUGIN = """
from ett_hookspecs import Command, hookimpl

@hookimpl
def ett_register_commands():
    return [Command(name="many", help="Print many lines.", target="fake_many_cli:many"),
            Command(name="forever", help="Go on for ever.", target="fake_many_cli:forever")]
"""
COMMANDS = """
import time
import click

@click.command()
def many():
    "Print many lines."
    for number in range(100_000):
        click.echo(f"line {number}")

@click.command()
def forever():
    "Go on for ever."
    click.echo("ready")
    while True:
        time.sleep(0.01)
"""


@pytest.fixture
def environment(tmp_path):
    fake_distribution(
        tmp_path, "fake-many", plugins={"many": "fake_many"}, modules={"fake_many": PLUGIN, "fake_many_cli": COMMANDS}
    )
    return {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}


PROGRAM = [sys.executable, "-c", "from ett_hookspecs.cli import main; main()"]


def test_the_program_starts_without_torch_or_lightning(environment):
    look = (
        "import json, sys\n"
        "from ett_hookspecs.cli import run\n"
        "run(['--help']); run(['plugins', '--json'])\n"
        "print(json.dumps([name for name in ('torch', 'lightning', 'numpy', 'rich', 'pytest') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_installed_script_is_the_program(environment):
    script = Path(sys.executable).with_name("ett")
    done = subprocess.run([script, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ett ")


@pytest.mark.parametrize("arguments", [["many"], ["plugins", "--json"], ["plugins"], ["--help"]])
def test_a_reader_that_goes_away_is_no_error(environment, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, *arguments], env=environment, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode in {1, 141}


def test_a_reader_that_goes_away_in_the_middle_is_no_error(environment):
    program = subprocess.Popen([*PROGRAM, "many"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.readline() == b"line 0\n"
    program.stdout.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait(30) == 141


def test_ctrl_c_ends_the_program_with_130_and_no_traceback(environment):
    program = subprocess.Popen([*PROGRAM, "forever"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=30)
    assert program.returncode == 130
    assert err.strip() == b""
