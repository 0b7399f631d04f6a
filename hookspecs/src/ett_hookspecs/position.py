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

    __slots__ = ("_batch_samples", "_in_batch", "_processed_before", "_samples", "replicas")

    def __init__(self, samples: int = 0, *, replicas: int = 1) -> None:
        self.replicas = replicas
        self._samples = samples
        self._batch_samples = 0
        self._processed_before = 0
        self._in_batch = False

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
        self.drop_batch()

    def start_batch(self, samples: int, processed: int) -> None:
        """A batch is about to be trained.

        Args:
            samples: Its size on this rank.
            processed: Batches the Trainer had processed before it.
        """
        self._batch_samples = samples * self.replicas
        self._processed_before = processed
        self._in_batch = True

    def resize_batch(self, samples: int) -> None:
        """The batch in flight turned out to hold so many samples on this rank: the step fetched it itself."""
        self._batch_samples = samples * self.replicas

    def end_batch(self) -> int:
        """The batch was trained.

        Returns:
            The position after it.
        """
        self._samples += self._batch_samples
        self.drop_batch()
        return self._samples

    def drop_batch(self) -> None:
        """The batch in flight, if any, will not be trained."""
        self._batch_samples = 0
        self._in_batch = False

    def was_trained(self, processed: int) -> bool:
        """Whether the batch in flight was trained, though nobody has said so yet.

        Args:
            processed: Batches the Trainer has processed by now.
        """
        return self._in_batch and processed > self._processed_before

    def at(self, processed: int) -> int:
        """The position when the Trainer has processed this many batches.

        Args:
            processed: The Trainer's count, which may already include the batch in flight.
        """
        return self._samples + (self._batch_samples if self.was_trained(processed) else 0)

    @property
    def in_batch(self) -> bool:
        """Whether a batch is in flight."""
        return self._in_batch

    @property
    def samples(self) -> int:
        """The position after the last batch that was ended."""
        return self._samples
