"""Follows the batches that a Trainer trains, and so the job's sample position, whether a record is kept or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ett_hookspecs import EttManager, SamplePosition

from .probes.batches import LeadingDimension, guarded
from .probes.progress import fetched_batch, fetches_itself, processed_batches


class BatchCount:
    """Moves the sample position with every batch of one Trainer.

    Args:
        position: What the Trainer's ETT callbacks share.

    Attributes:
        fetches_itself: The step asks the loader for its batch, so that its size is known when the step is over.
    """

    def __init__(self, position: SamplePosition) -> None:
        self._position = position
        self._samples: Callable[[Any], int] | None = None
        self.fetches_itself = False

    def begin_training(self, trainer: Any, manager: EttManager) -> None:
        """The first batch is next.

        Raises:
            EttPluginError: A participant that should say how many samples a batch holds has raised.
        """
        answer = manager.hook.ett_choose_batch_samples()
        self._samples = LeadingDimension(trainer.train_dataloader) if answer is None else guarded(answer)
        self.fetches_itself = fetches_itself(trainer.lightning_module)

    def begin_batch(self, trainer: Any, batch: Any) -> bool:
        """A batch is about to be trained.

        Returns:
            Whether it will be counted.
        """
        if self._samples is None:
            return False
        self._position.start_batch(0 if self.fetches_itself else self._samples(batch), processed_batches(trainer))
        return True

    def end_batch(self, trainer: Any) -> bool:
        """The batch was trained.

        Returns:
            Whether it was counted: False where it was ended before, or none was begun.
        """
        if not self._position.in_batch:
            return False
        if self.fetches_itself and self._samples is not None:
            self._position.resize_batch(self._samples(fetched_batch(trainer)))
        self._position.end_batch()
        return True

    def was_trained(self, trainer: Any) -> bool:
        """Whether the batch in flight was trained, though nobody has said so yet."""
        return self._samples is not None and self._position.was_trained(processed_batches(trainer))

    def stop(self) -> None:
        """Count no more."""
        self._samples = None
        self._position.drop_batch()
