"""The callback that is added to a Trainer before anybody can say whether it is needed."""

from __future__ import annotations

import logging
from typing import Any, Final

import lightning.pytorch as pl
from typing_extensions import override

from ett_timeline import EffectiveTrainingTime

from .presence import first_to_tell, missing

log = logging.getLogger(__name__)

DISTRIBUTION: Final = "ett-autoload"


class AutoloadedTrainingTime(EffectiveTrainingTime):
    """An :class:`~ett_timeline.EffectiveTrainingTime` that gives way to one of the user's own.

    Lightning asks for it in the constructor of the Trainer, and does not say who else is there; the user's may also
    come later. So it decides in ``setup``, when all callbacks are known: where there is another it leaves the Trainer,
    and so it does where not all ranks are measured.

    Until then its ``state_key`` is its own, because two callbacks with state and one key make the Trainer raise. From
    then on it is that of the callback it stands for: checkpoints are the same, whoever measured.

    *Runs on* every rank.
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_taken_over = False

    @property
    @override
    def state_key(self) -> str:
        # Nobody's, were this installed twice: state is neither saved nor loaded before setup.
        return super().state_key if self._has_taken_over else f"{DISTRIBUTION}-{id(self):x}"

    @override
    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        # A list of its own, since Lightning is going through the old one; its type does not declare it.
        untyped: Any = trainer
        others = [callback for callback in untyped.callbacks if callback is not self]
        if any(isinstance(callback, EffectiveTrainingTime) for callback in others):
            untyped.callbacks = others
            return
        if not _all_ranks_measure(trainer.world_size):
            untyped.callbacks = others
            return
        self._has_taken_over = True
        super().setup(trainer, pl_module, stage)


def _all_ranks_measure(world_size: int) -> bool:
    """Whether nobody will be waited for in vain; if not, that was said once."""
    try:
        if not (absent := missing(world_size)):
            return True
        if first_to_tell():
            log.warning(
                "%s: this job trains unmeasured: %d of %d ranks have no ETT_JOB_DIR, or no %s; give all the same",
                DISTRIBUTION, absent, world_size, DISTRIBUTION,
            )  # fmt: skip
    except RuntimeError as error:
        log.warning("%s: this job trains unmeasured: torchrun's store does not answer (%s)", DISTRIBUTION, error)
    return False
