"""What the program refuses, and how it says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from ett_reference import ReferenceModelError, cli
from ett_reference.job import Options, check_same_job, remember_job


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What would have been launched."""
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    seen: list[Sequence[str]] = []

    def launch(arguments: Sequence[str], **how: int) -> None:
        seen.append([f"{key}={value}" for key, value in how.items()])

    monkeypatch.setattr(cli, "launch", launch)
    return seen


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--with", "snapshot"], "'snapshot' is not available in this version"),
        (["--with", "timeline,wandb"], "'wandb' is not available in this version"),
        (["--with", "nonsense"], "'nonsense' is not a part of ETT"),
        (["--with", "timeline", "--baseline"], "exclude each other"),
        (["--kill-at", "5,x"], "not a list of sample counts"),
        (["--kill-at", "50,20"], "positive and ascending"),
        (["--kill-at", "20,20"], "positive and ascending"),
        (["--kill-at", "-5"], "positive and ascending"),
        (["--kill-at", "1,,2"], "not a list of sample counts"),
        (["--kill-at", ""], "not a list of sample counts"),
        (["--kill-at", "100,200", "--max-samples", "200"], "--kill-at 200 would never come"),
        (["--job-dir", ""], "it is empty: give a directory"),
        (["--ranks", "0"], "--ranks"),
        (["--preset", "huge"], "--preset"),
        (["--save-every", "0"], "--save-every"),
        (["--data", "netflix"], "--data"),
    ],
)
def test_wrong_usage_is_told_with_exit_code_2(
    tmp_path: Path, launches: list[Sequence[str]], arguments: list[str], says: str
) -> None:
    result = CliRunner().invoke(cli.program, ["train", "--job-dir", str(tmp_path / "job"), *arguments])
    assert result.exit_code == 2
    assert says in result.output
    assert not (tmp_path / "job").exists()
    assert launches == []


def test_it_launches_itself_with_a_restart_for_each_kill(tmp_path: Path, launches: list[Sequence[str]]) -> None:
    arguments = ["train", "--job-dir", str(tmp_path), "--kill-at", "100,200", "--ranks", "2"]
    result = CliRunner().invoke(cli.program, arguments)
    assert result.exit_code == 0
    assert launches == [["ranks=2", "restarts=2", "threads=1"]]


def test_help_teaches() -> None:
    text = " ".join(CliRunner().invoke(cli.program, ["train", "--help"]).output.split())
    for word in ("--job-dir", "MovieLens", "SIGKILL", "ett report", "many tables", "resume"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data-dir", "{empty}"], "is not MovieLens-100k: looked for u.data"),
        (["--data", "criteo", "--data-dir", "{empty}"], "holds no Criteo-format data"),
        (["--data", "criteo"], "point --data-dir"),
        (["--data-dir", "{damaged}"], "cannot be read as MovieLens-100k"),
    ],
)
def test_bad_data_is_one_line_and_exit_code_2_before_anything_starts(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in ("u.data", "u.user", "u.item"):
        (damaged / name).write_bytes(b"\x00\xff garbage\n")
    command = [sys.executable, "-m", "ett_reference", "train", "--job-dir", str(tmp_path / "job")]
    result = subprocess.run(
        [*command, *(argument.format(empty=empty, damaged=damaged) for argument in arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "job").exists()


def test_checking_a_command_line_loads_neither_torch_nor_lightning() -> None:
    script = (
        "import sys; from ett_reference.cli import program; from ett_reference.data.sources import check_data; "
        "check_data('movielens', None); print('torch' in sys.modules or 'lightning' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_missing_packages_are_told_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ReferenceModelError, match="pip install --no-deps torchrec"):
        cli.check_needs()


def test_a_job_goes_on_only_as_what_it_was_started_as(tmp_path: Path) -> None:
    started = Options(job_dir=tmp_path / "job", seed=1)
    check_same_job(started)
    remember_job(started)
    check_same_job(Options(job_dir=tmp_path / "job", seed=1, max_samples=9, batch_size=32, plugins=("timeline",)))
    with pytest.raises(ReferenceModelError, match="was started with seed 1, not 2"):
        check_same_job(Options(job_dir=tmp_path / "job", seed=2))
    with pytest.raises(ReferenceModelError, match="workers 0, not 2"):
        check_same_job(Options(job_dir=tmp_path / "job", workers=2))
    with pytest.raises(ReferenceModelError, match="ranks 1, not 2"):
        check_same_job(Options(job_dir=tmp_path / "job", ranks=2))


def test_a_job_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReferenceModelError, match=r"cannot be written.*another --job-dir"):
        remember_job(Options(job_dir=tmp_path / "file" / "job"))
    for content in ("{torn", "[]", ""):
        (tmp_path / "options.json").write_text(content)
        with pytest.raises(ReferenceModelError, match="cannot be read"):
            check_same_job(Options(job_dir=tmp_path))
