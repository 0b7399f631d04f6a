"""Where a job is in its data: samples over all ranks and epochs since it began."""

from __future__ import annotations


class SamplePosition:
    """The one position that everything in a job shares.

    It follows the Trainer's own count of processed batches, so that it is right at any moment of a step, whoever asks
    first: the samples of the batch in flight count as soon as the Trainer says that the batch was processed.

    Ranks move in lockstep: a batch of ``n`` samples on this rank moves the position by ``n x replicas``.

    Attributes:
        replicas: Number of ranks that get different data.
    """

    __slots__ = ("_batch_samples", "_processed_before", "_samples", "replicas")

    def __init__(self, samples: int = 0, *, replicas: int = 1) -> None:
        self.replicas = replicas
        self._samples = samples
        self._batch_samples = 0
        self._processed_before = 0

    def move_to(self, samples: int) -> None:
        """Start from another position: a checkpoint was loaded, or training begins anew.

        Args:
            samples: Samples over all ranks.

        Raises:
            ValueError: `samples` is negative.
        """
        if samples < 0:
            raise ValueError(f"a position counts samples from 0, not {samples}")
        self._samples = samples
        self._batch_samples = 0

    def start_batch(self, samples: int, processed: int) -> None:
        """A batch is about to be trained.

        Args:
            samples: Its size on this rank.
            processed: Batches the Trainer had processed before it.
        """
        self._batch_samples = samples * self.replicas
        self._processed_before = processed

    def end_batch(self) -> int:
        """The batch was trained.

        Returns:
            The position after it.
        """
        self._samples += self._batch_samples
        self._batch_samples = 0
        return self._samples

    def at(self, processed: int) -> int:
        """The position when the Trainer has processed this many batches.

        Args:
            processed: The Trainer's count, which may already include the batch in flight.
        """
        return self._samples + (self._batch_samples if processed > self._processed_before else 0)

    @property
    def samples(self) -> int:
        """The position after the last batch that was ended."""
        return self._samples
