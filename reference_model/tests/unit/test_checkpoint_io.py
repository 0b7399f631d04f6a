"""Checkpoints are there as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ett_reference import ReferenceModelError
from ett_reference.checkpoint_io import MANIFEST, ShardedCheckpointIO, checkpoint_name, complete_checkpoints

IO = ShardedCheckpointIO()


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / checkpoint_name(7)
    IO.save_checkpoint({"w": torch.arange(3), "loops": {"step": 7}}, path)
    loaded = IO.load_checkpoint(path)
    assert loaded["w"].tolist() == [0, 1, 2]
    assert loaded["loops"] == {"step": 7}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_checkpoint_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / checkpoint_name(7)
    IO.save_checkpoint({"n": 1}, path)
    IO.save_checkpoint({"n": 2}, path)
    assert IO.load_checkpoint(path) == {"n": 2}
    assert complete_checkpoints(tmp_path) == [path]


def test_a_save_that_fails_raises_and_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    IO.save_checkpoint({"n": 1}, tmp_path / checkpoint_name(1))

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        IO.save_checkpoint({"n": 2}, tmp_path / checkpoint_name(2))
    assert complete_checkpoints(tmp_path) == [tmp_path / checkpoint_name(1)]


def test_a_killed_save_never_becomes_the_newest(tmp_path: Path) -> None:
    script = f"""
import os, signal, torch
from pathlib import Path
from ett_reference.checkpoint_io import ShardedCheckpointIO, checkpoint_name
io = ShardedCheckpointIO()
io.save_checkpoint({{"n": 1}}, Path({str(tmp_path)!r}) / checkpoint_name(1))
save = torch.save
def killed(state, file):
    save(state, file)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
torch.save = killed
io.save_checkpoint({{"n": 2}}, Path({str(tmp_path)!r}) / checkpoint_name(2))
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert complete_checkpoints(tmp_path) == [tmp_path / checkpoint_name(1)]
    IO.save_checkpoint({"n": 3}, tmp_path / checkpoint_name(2))
    assert IO.load_checkpoint(tmp_path / checkpoint_name(2)) == {"n": 3}


@pytest.mark.parametrize("damage", ["empty", "missing", "no manifest", "torn manifest"])
def test_a_damaged_checkpoint_is_passed_over_and_asked_for_by_name_an_error(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        IO.save_checkpoint({"n": step}, tmp_path / checkpoint_name(step))
    newest = tmp_path / checkpoint_name(2)
    if damage == "empty":
        os.truncate(newest / "rank-00000.pt", 0)
    elif damage == "missing":
        (newest / "rank-00000.pt").unlink()
    elif damage == "no manifest":
        (newest / MANIFEST).unlink()
    else:
        (newest / MANIFEST).write_text('{"ranks": 1, "fi')
    assert complete_checkpoints(tmp_path) == [tmp_path / checkpoint_name(1)]
    with pytest.raises(ReferenceModelError, match="cannot be used"):
        IO.load_checkpoint(newest)


def test_a_checkpoint_of_another_number_of_ranks_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / checkpoint_name(1)
    IO.save_checkpoint({"n": 1}, path)
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, "ranks": 2}))
    with pytest.raises(ReferenceModelError, match="--ranks 2"):
        IO.load_checkpoint(path)


def test_removing_takes_all_of_one_and_nothing_else(tmp_path: Path) -> None:
    for step in (1, 2):
        IO.save_checkpoint({"n": step}, tmp_path / checkpoint_name(step))
    IO.remove_checkpoint(tmp_path / checkpoint_name(1))
    IO.remove_checkpoint(tmp_path / checkpoint_name(1))
    assert [entry.name for entry in tmp_path.iterdir()] == [checkpoint_name(2)]


def test_steps_are_compared_as_numbers_and_other_folders_ignored(tmp_path: Path) -> None:
    for step in (10_000_000_000, 9):
        IO.save_checkpoint({"n": step}, tmp_path / checkpoint_name(step))
    (tmp_path / "step-x").mkdir()
    assert [path.name for path in complete_checkpoints(tmp_path)] == ["step-000000009", "step-10000000000"]
    assert complete_checkpoints(tmp_path / "nowhere") == []
