"""What a data set offers the model: its features and how many values each can take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """A categorical feature; each sample holds any number of its values.

    Attributes:
        name: Its name, a valid part of a parameter's name.
        rows: Ids run from 0 to `rows` - 1.
    """

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Schema:
    """Every sample of a data set.

    Attributes:
        features: Categorical features, in the order of a batch's values.
        dense: Number of dense features, float32.
    """

    features: tuple[Feature, ...]
    dense: int
