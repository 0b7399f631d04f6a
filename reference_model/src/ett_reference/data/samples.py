"""What every data set is to the rest of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ett_reference.batch import Batch
from ett_reference.schema import Schema


class Samples(Protocol):
    """Samples that can be asked for by number, in any process, always with the same answer."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Some of them, in the order of the numbers; ``torch.utils.data`` calls this for a whole batch at once."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set, split in the order of time.

    Attributes:
        schema: Its features.
        train: What is trained.
        held_out: By name, what is never trained and only evaluated; the latest samples.
        shuffled: Whether `train` is shuffled anew for each pass; a stream is not.
        default_samples: How many samples a training takes where the command line does not say.
    """

    schema: Schema
    train: Samples
    held_out: dict[str, Samples]
    shuffled: bool
    default_samples: int
