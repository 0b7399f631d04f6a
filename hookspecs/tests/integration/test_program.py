"""The program as a process: what it imports, and what happens when its reader or its user has enough of it."""

from __future__ import annotations

import json
import os
import shlex
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
            Command(name="forever", help="Go on for ever.", target="fake_many_cli:forever"),
            Command(name="say", help="Say something.", target="fake_many_cli:say")]
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

@click.command()
def say():
    "Say something."
    click.echo("a \\N{MIDDLE DOT} b \\N{FULL BLOCK}\\N{LEFT HALF BLOCK} \\N{SNOWMAN} \\udcff")
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
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("arguments", [["many"], ["plugins", "--json"], ["plugins"], ["--help"], ["--version"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(environment, arguments, unbuffered):
    environment |= {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PROGRAM, *arguments], env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "Error: the output cannot be written: No space left on device\n")


def test_without_standard_output_the_program_is_silent(environment):
    command = f"{shlex.join([*PROGRAM, 'plugins'])} >&-"
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_drawings_and_text_are_written_in_any_encoding(environment):
    environment |= {"PYTHONIOENCODING": "ascii"}
    for arguments, expected in ((["plugins"], b"many"), (["say"], b"a - b ## ? ?\n")):
        done = subprocess.run([*PROGRAM, *arguments], env=environment, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
        assert expected in done.stdout
        assert done.stdout.isascii()


def test_a_reader_that_goes_away_in_the_middle_is_no_error(environment):
    program = subprocess.Popen([*PROGRAM, "many"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout.readline() == b"line 0\n"
    program.stdout.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait(30) == 141


def test_ctrl_c_ends_the_program_with_130_and_no_traceback(environment):
    program = subprocess.Popen(
        [*PROGRAM, "forever"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs these tests in the background may ignore it, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no threads here)
    )
    assert program.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=30)
    assert program.returncode == 130
    assert err.strip() == b""
