"""A training that knows nothing of being measured: it resumes from last.ckpt beside it, if there is one."""

import argparse
import os
import signal
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader


class Model(BoringModel):
    def on_train_batch_start(self, batch, batch_idx):
        if batch_idx == arguments.kill_at and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
            os.kill(os.getpid(), signal.SIGKILL)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 400), batch_size=4)


parser = argparse.ArgumentParser()
parser.add_argument("--home", type=Path, required=True)
parser.add_argument("--max-steps", type=int, default=6)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--kill-at", type=int)
arguments = parser.parse_args()

torch.set_num_threads(1)
trainer = Trainer(
    accelerator="cpu",
    devices=arguments.devices,
    strategy="ddp" if arguments.devices > 1 else "auto",
    max_steps=arguments.max_steps,
    limit_val_batches=0,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint(arguments.home, save_last=True, save_top_k=0, every_n_train_steps=3)],
)
last = arguments.home / "last.ckpt"
trainer.fit(Model(), ckpt_path=last if last.exists() else None)
