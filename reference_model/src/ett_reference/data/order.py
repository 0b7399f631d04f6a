"""Which samples come next, on each rank: the whole of a loader's position."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

ENDLESS_BATCHES: Final = 2**40
"""What an endless order says its length is: Lightning needs one to know that no batch has to be fetched ahead."""


class EndlessOrder(Sampler[list[int]]):
    """Batches of equal size without an end: pass after pass over the samples, each shuffled by itself.

    A pass leaves out what does not fill a batch on every rank, so that shapes never vary. Its order depends on the seed
    and the number of the pass alone, never on what was drawn before: a position says everything.

    Args:
        samples: How many there are.
        batch_size: Samples per batch and rank.
        rank: Which rank's batches.
        ranks: Among how many.
        seed: Orders with different seeds differ.
        shuffled: Whether to shuffle; otherwise in the order given.

    Raises:
        ValueError: There are fewer samples than one batch on every rank takes.
    """

    def __init__(
        self, samples: int, *, batch_size: int, rank: int = 0, ranks: int = 1, seed: int = 0, shuffled: bool = True
    ) -> None:
        self.samples = samples
        self.batch_size = batch_size
        self.rank = rank
        self.ranks = ranks
        self.seed = seed
        self.shuffled = shuffled
        if samples < batch_size * ranks:
            raise ValueError(
                f"{samples} samples cannot fill a batch of {batch_size} on each of {ranks} ranks: "
                f"take a smaller --batch-size, or more data"
            )

    @property
    def steps_per_pass(self) -> int:
        """Full batches that every rank gets out of one pass."""
        return self.samples // (self.batch_size * self.ranks)

    def __iter__(self) -> EndlessOrderIterator:
        return EndlessOrderIterator(self)

    def __len__(self) -> int:
        return ENDLESS_BATCHES

    def of_pass(self, number: int) -> npt.NDArray[np.int64]:
        """The order of the samples in one pass."""
        if not self.shuffled:
            return np.arange(self.samples)
        return np.random.default_rng((self.seed, number)).permutation(self.samples)


class EndlessOrderIterator(Iterator[list[int]]):
    """The batches of one rank from a position on. The position is the same on every rank."""

    def __init__(self, order: EndlessOrder) -> None:
        self._order = order
        self._steps = 0
        self._pass: tuple[int, npt.NDArray[np.int64]] | None = None

    def __next__(self) -> list[int]:
        order = self._order
        number, step = divmod(self._steps, order.steps_per_pass)
        if self._pass is None or self._pass[0] != number:
            self._pass = (number, order.of_pass(number))
        start = (step * order.ranks + order.rank) * order.batch_size
        self._steps += 1
        indices: list[int] = self._pass[1][start : start + order.batch_size].tolist()
        return indices

    def state_dict(self) -> dict[str, Any]:
        """The position: steps taken since the job began, and what gives the number its meaning."""
        order = self._order
        return {
            "steps": self._steps,
            "samples": self._steps * order.batch_size * order.ranks,
            "of": order.samples,
            "batch_size": order.batch_size,
            "ranks": order.ranks,
            "seed": order.seed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a position.

        Raises:
            ValueError: It is a position in another order.
        """
        own = self.state_dict()
        other = {key: state[key] for key in ("of", "batch_size", "ranks", "seed") if state[key] != own[key]}
        if other:
            raise ValueError(f"a position with {other} means nothing where these are { {k: own[k] for k in other} }")
        self._steps = int(state["steps"])


class OnePass(Sampler[list[int]]):
    """One pass in the order given, with as many batches on every rank: the last ranks may repeat their last samples.

    Args:
        samples: How many there are.
        batch_size: Samples per batch and rank; the last batch may hold fewer.
        rank: Which rank's batches.
        ranks: Among how many.
    """

    def __init__(self, samples: int, *, batch_size: int, rank: int = 0, ranks: int = 1) -> None:
        self._batch_size = batch_size
        own = list(range(rank, samples, ranks))
        self.own = len(own)
        """How many of the rank's samples are its own; what it yields beyond them are repetitions."""
        each = math.ceil(samples / ranks)
        self._indices = own + [samples - 1] * (each - len(own))

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self._indices), self._batch_size):
            yield self._indices[start : start + self._batch_size]

    def __len__(self) -> int:
        return math.ceil(len(self._indices) / self._batch_size)
