"""The callback that measures a job: glue between Lightning's hooks and the recorder."""

from __future__ import annotations

import os
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from typing_extensions import override

from ett_hookspecs import AttemptEnd, Run, run_of

from .measurement import Measurement
from .spans import PLUGIN


class EffectiveTrainingTime(Callback):
    """Measures where a job's wall time goes, over all its restarts: ``ett report JOB_DIR`` says it.

    Every instant of every rank belongs to one stage. Steps on data that no earlier attempt had trained are
    ``training``; everything else is lost and has an owner. Nothing in the model, the loader or the loop changes, and
    whatever goes wrong with the measuring is one warning, never an end of the training.

    Args:
        job_dir: The job's directory, a local or shared POSIX path; the same at every restart. Without one, the
            environment variable ``ETT_JOB_DIR``; without that too, the job trains unmeasured, with one warning.

    Raises:
        ValueError: `job_dir` is empty or a URL. In ``setup``: another ETT callback names another directory.

    *Runs on* every rank. It writes ``JOB_DIR/timeline`` from a thread of its own, about once a second.

    Example:
        >>> from ett_timeline import EffectiveTrainingTime
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(callbacks=[EffectiveTrainingTime("runs/job1")], logger=False)
    """

    def __init__(self, job_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        if job_dir is not None:
            text = os.fspath(job_dir)
            if not text:
                raise ValueError("job_dir is empty: give a directory, or leave it out and set ETT_JOB_DIR")
            if "://" in text:
                raise ValueError(
                    f"job_dir must be a local or shared POSIX path, not {text}: the timeline is written in place"
                )
        self._job_dir = job_dir
        self._measure: Measurement | None = None

    @property
    @override
    def state_key(self) -> str:
        return PLUGIN

    def ett_attach(self, run: Run) -> None:
        """Name the job directory; called once per Trainer by the first ETT callback's ``setup``."""
        if self._job_dir is not None:
            run.context.name_job_dir(self._job_dir, type(self).__name__)

    @override
    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        run = run_of(trainer)
        if self._measure is None or self._measure.run is not run:
            self._measure = Measurement(run, trainer)
        self._measure.begin(trainer)

    @override
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._measure is not None:
            self._measure.begin_training(trainer)

    @override
    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._measure is not None:
            self._measure.begin_step(trainer, batch)

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._measure is not None:
            self._measure.end_step(trainer)

    @override
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._measure is not None:
            # A module may end it in on_train_batch_start: that batch was processed, and nothing said so.
            self._measure.end_step(trainer)

    @override
    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._measure is not None:
            self._measure.end_training()

    @override
    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin_evaluation("sanity check" if trainer.sanity_checking else "validate")

    @override
    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._end_evaluation()

    @override
    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin_evaluation("test")

    @override
    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._end_evaluation()

    @override
    def on_predict_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin_evaluation("predict")

    @override
    def on_predict_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._end_evaluation()

    @override
    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self._measure is not None:
            self._measure.end(trainer, AttemptEnd.FINISHED)

    @override
    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        # Lightning calls no teardown after this.
        if self._measure is not None:
            self._measure.fail(trainer, exception)

    @override
    def state_dict(self) -> dict[str, Any]:
        """The job's id and the sample position, as of the batches that the Trainer says it has processed."""
        return {} if self._measure is None else self._measure.state()

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on at the checkpoint's position; another job's checkpoint begins at 0."""
        if self._measure is not None:
            self._measure.load(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the callback, in this process or a spawned one, measures anew."""
        return {**self.__dict__, "_measure": None}

    def _begin_evaluation(self, name: str) -> None:
        if self._measure is not None:
            self._measure.begin_evaluation(name)

    def _end_evaluation(self) -> None:
        if self._measure is not None:
            self._measure.end_evaluation()
