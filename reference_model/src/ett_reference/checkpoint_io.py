"""Checkpoints as directories with a file per rank, visible only when all of them are complete."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from lightning.fabric.plugins import CheckpointIO
from typing_extensions import override

from .errors import ReferenceModelError
from .shards import take_apart

MANIFEST: Final = "manifest.json"
NAME: Final = re.compile(r"step-(\d+)")


class ShardedCheckpointIO(CheckpointIO):
    """Writes and reads what each rank holds of a checkpoint, synchronously.

    A checkpoint is a directory: ``rank-00000.pt`` and so on, and a manifest. It is written under another name and
    renamed when every rank has written and synced its part, so that one that is there is complete.

    *Runs on* every rank together.
    """

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Write a checkpoint; one that is there under the same name is replaced.

        Raises:
            OSError: Some rank could not write; every rank raises.
        """
        final = Path(path)
        partial = final.with_name(f".{final.name}.partial")
        with _together("making room for a checkpoint"):
            if _rank() == 0:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
        with _together("writing a checkpoint"):
            _write(partial / _file(_rank()), lambda file: torch.save(take_apart(checkpoint), file))
        with _together("completing a checkpoint"):
            if _rank() == 0:
                files = {_file(rank): (partial / _file(rank)).stat().st_size for rank in range(_ranks())}
                _write(
                    partial / MANIFEST,
                    lambda file: file.write(json.dumps({"ranks": _ranks(), "files": files}).encode()),
                )
                _sync(partial)
                replaced = final.with_name(f".{final.name}.replaced")
                if final.exists():
                    final.rename(replaced)
                partial.rename(final)
                _sync(final.parent)
                shutil.rmtree(replaced, ignore_errors=True)

    @override
    def load_checkpoint(
        self, path: str | Path, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """This rank's part of a checkpoint.

        Raises:
            ReferenceModelError: It is not complete, or was written by another number of ranks.
        """
        folder = Path(path)
        problem = _problem(folder)
        if problem:
            raise ReferenceModelError(f"the checkpoint {folder} cannot be used: {problem}")
        written_by = json.loads((folder / MANIFEST).read_bytes())["ranks"]
        if written_by != _ranks():
            raise ReferenceModelError(
                f"the checkpoint {folder} was written by {written_by} ranks and cannot be resumed by {_ranks()}: "
                f"start with --ranks {written_by}, or with a new --job-dir"
            )
        # Progress, callbacks and random states are more than weights; the file is one that this program wrote.
        loaded: dict[str, Any] = torch.load(folder / _file(_rank()), map_location="cpu", weights_only=False)
        return loaded

    @override
    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a checkpoint; half of one is never left under its name.

        *Runs on* rank 0.
        """
        folder = Path(path)
        doomed = folder.with_name(f".{folder.name}.removed")
        with contextlib.suppress(FileNotFoundError):
            folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def complete_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in folder.iterdir():
            name = NAME.fullmatch(path.name)
            if name and not _problem(path):
                found.append((int(name[1]), path))
    return [path for _, path in sorted(found)]


def checkpoint_name(step: int) -> str:
    """What a checkpoint is called."""
    return f"step-{step:09d}"


def _problem(folder: Path) -> str | None:
    try:
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        for name, size in files.items():
            if (folder / name).stat().st_size != size:
                return f"{name} has another size than was written"
    except (OSError, ValueError, KeyError, AttributeError) as error:
        return f"it is not complete ({error})"
    return None


def _file(rank: int) -> str:
    return f"rank-{rank:05d}.pt"


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _ranks() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _write(path: Path, write: Any) -> None:
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _together(doing: str) -> Iterator[None]:
    """Wait for every rank, and fail on every rank where one failed: the others would wait for it forever."""
    error: OSError | None = None
    try:
        yield
    except OSError as caught:
        error = caught
    if _ranks() > 1:
        errors: list[Any] = [None] * _ranks()
        dist.all_gather_object(errors, str(error) if error else None)
        failed = {rank: text for rank, text in enumerate(errors) if text}
        if failed and error is None:
            raise OSError(f"{doing} failed on other ranks: {failed}")
    if error is not None:
        raise error
