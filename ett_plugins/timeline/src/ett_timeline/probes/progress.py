"""Where a Trainer and its training loop are: what it has processed, and what a step fetched itself."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerStatus
from lightning.pytorch.utilities import CombinedLoader
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature


def processed_batches(trainer: Trainer) -> int:
    """Training batches that the Trainer has processed since the job began, restarts included.

    It counts a batch after its optimizer step and before ``on_train_batch_end``, so that a callback that saves there
    saves a count with the batch in it.
    """
    # Annotated with a base class that lacks the field.
    total: Any = trainer.fit_loop.epoch_loop.batch_progress.total
    return int(total.processed)


def is_running(trainer: Trainer) -> bool:
    """Whether a Trainer is in a fit, validate, test or predict."""
    return trainer.state.status == TrainerStatus.RUNNING


def begins_an_epoch_anew(trainer: Trainer) -> bool:
    """Whether training goes on in the middle of an epoch whose data a loader can only give from the beginning."""
    trained: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    if not 0 < trained.ready < trainer.num_training_batches:
        return False
    loaders = CombinedLoader(trainer.train_dataloader).flattened
    return not all(hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict") for loader in loaders)


def fetches_itself(module: LightningModule) -> bool:
    """Whether a module's ``training_step(dataloader_iter)`` asks the loader itself, so that no hook sees its batch."""
    return is_param_in_hook_signature(module.training_step, "dataloader_iter", explicit=True)


def fetched_batch(trainer: Trainer) -> Any:
    """The last batch that such a step has fetched."""
    # Nothing public holds it before on_train_batch_end, where another callback may save first.
    fetcher: Any = trainer.fit_loop._data_fetcher  # noqa: SLF001
    return fetcher._batch  # noqa: SLF001
