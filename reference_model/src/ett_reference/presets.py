"""Sizes of the model: one for tests, one of many tables, one whose dense part is long to compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How large the model is, whatever the data.

    Attributes:
        name: What it is called on the command line.
        says: What it is for, in a few words.
        embedding_dim: Width of every embedding, floats.
        tables_per_feature: Independent tables that each feature is looked up in.
        bottom_layers: Widths of the layers over the dense features; a last one of `embedding_dim` is added.
        top_layers: Widths of the layers over the interactions; a last one of 1 is added.
        batch_size: Samples per rank and step, where the command line does not say.
        synthetic_features: Single-valued features of the synthetic stream.
        synthetic_rows: Rows of the largest synthetic feature.
        threads: Threads per rank; None for its share of the cores. Steps of a few milliseconds gain nothing from a
            second thread, and lose much to waiting for it where another program holds its core.
    """

    name: str
    says: str
    embedding_dim: int
    tables_per_feature: int
    bottom_layers: tuple[int, ...]
    top_layers: tuple[int, ...]
    batch_size: int
    synthetic_features: int
    synthetic_rows: int
    threads: int | None = None


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Preset(
                name="small",
                says="steps of a few milliseconds",
                embedding_dim=16,
                tables_per_feature=1,
                bottom_layers=(32,),
                top_layers=(64, 32),
                batch_size=32,
                synthetic_features=6,
                synthetic_rows=20_000,
                threads=1,
            ),
            Preset(
                name="wide",
                says="many tables, small dense part",
                embedding_dim=32,
                tables_per_feature=4,
                bottom_layers=(64,),
                top_layers=(256, 128),
                batch_size=128,
                synthetic_features=24,
                synthetic_rows=20_000,
            ),
            Preset(
                name="deep",
                says="few tables, large compiled dense part",
                embedding_dim=64,
                tables_per_feature=1,
                bottom_layers=(512, 512, 256),
                top_layers=(1536, 1024, 1024, 512, 512, 256),
                batch_size=128,
                synthetic_features=6,
                synthetic_rows=50_000,
            ),
        )
    }
)
"""By name."""
