"""A small training that can be stopped and started again: ``python train.py JOB_DIR MAX_STEPS``."""

import sys
from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from ett_timeline import EffectiveTrainingTime

job_dir, max_steps = Path(sys.argv[1]), int(sys.argv[2])
checkpoint = job_dir / "last.ckpt"

trainer = Trainer(
    accelerator="cpu",
    max_steps=max_steps,
    default_root_dir=job_dir,
    logger=False,
    callbacks=[EffectiveTrainingTime(job_dir)],
)
trainer.fit(BoringModel(), ckpt_path=checkpoint if checkpoint.exists() else None)
trainer.save_checkpoint(checkpoint)
