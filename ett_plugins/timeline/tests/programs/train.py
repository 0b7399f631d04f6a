"""A small training that can be killed, restarted, stopped and spread over ranks.

It resumes from the newest of its checkpoints, and writes down what it has trained before and after the measuring
callback hears of it, so that a test knows what the record must say whenever the process dies.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from ett_timeline import EffectiveTrainingTime


class Rows(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.arange(32, dtype=torch.float32).add(index).sin()


class Model(BoringModel):
    def __init__(self, arguments):
        super().__init__()
        self.arguments = arguments

    def training_step(self, batch, batch_idx):
        time.sleep(self.arguments.step_s)
        return super().training_step(batch, batch_idx)

    def train_dataloader(self):
        return StatefulDataLoader(Rows(self.arguments.rows), batch_size=self.arguments.batch_size)


class Journal(Callback):
    """Appends the number of batches processed to a file, past every buffer of this process."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        os.write(self.file, f"{trainer.fit_loop.epoch_loop.batch_progress.total.processed}\n".encode())


class Saves(Callback):
    """Keeps checkpoints, each named after its batches and whole."""

    def __init__(self, folder, every):
        self.folder = folder
        self.every = every

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        batches = trainer.fit_loop.epoch_loop.batch_progress.total.processed
        if batches % self.every == 0:
            partial = self.folder / "partial"
            trainer.save_checkpoint(partial)
            if trainer.is_global_zero:
                partial.replace(self.folder / f"{batches:06d}.ckpt")


class Events(Callback):
    """What happens to the training, at the start of a batch of this process."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.batches = 0

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.batches += 1
        arguments = self.arguments
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if first and (self.batches, trainer.global_rank) == (arguments.kill_at, arguments.kill_rank):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.batches == arguments.wait_at:
            print("waiting", flush=True)
            sys.stdin.readline()
        if self.batches == arguments.fill_at:
            place = arguments.job_dir.parent / "ballast"
            with contextlib.suppress(OSError), place.open("wb", buffering=0) as ballast:
                while ballast.write(b"x" * 4096):
                    pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", type=Path)
    parser.add_argument("--knowing-rank", type=int, help="the only one that is told the job directory")
    parser.add_argument("--unmeasured", action="store_true")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--kill-rank", type=int, default=0)
    parser.add_argument("--wait-at", type=int)
    parser.add_argument("--fill-at", type=int)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    seed_everything(7, verbose=False)
    arguments.home.mkdir(parents=True, exist_ok=True)
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    told = arguments.knowing_rank is None or int(rank) == arguments.knowing_rank
    checkpoints = sorted(arguments.home.glob("*.ckpt"))
    trainer = Trainer(
        accelerator="cpu",
        devices=arguments.ranks,
        strategy="ddp" if arguments.ranks > 1 else "auto",
        max_epochs=-1,
        max_steps=arguments.max_steps,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            Events(arguments),
            Journal(arguments.home / f"trained-{rank}"),
            *([] if arguments.unmeasured else [EffectiveTrainingTime(arguments.job_dir if told else None)]),
            Journal(arguments.home / f"counted-{rank}"),
            Saves(arguments.home, arguments.every),
        ],
    )
    model = Model(arguments)
    trainer.fit(model, ckpt_path=checkpoints[-1] if checkpoints else None)
    if trainer.is_global_zero:
        digest = hashlib.sha256(
            b"".join(weight.detach().numpy().tobytes() for weight in model.parameters())
        ).hexdigest()
        print(json.dumps({"weights": digest, "steps": trainer.global_step, "resumed": len(checkpoints)}), flush=True)


if __name__ == "__main__":
    main()
