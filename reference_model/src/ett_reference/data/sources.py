"""The data sets by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ett_reference.presets import Preset

if TYPE_CHECKING:
    # It would bring torch, which a check of the command line does without.
    from .samples import DataSet

SOURCES: Final = ("movielens", "criteo", "synthetic")


def check_data(source: str, folder: Path | None) -> None:
    """Look whether the data is there and readable, without torch: MovieLens as a whole, a log of clicks by its start.

    Raises:
        ReferenceModelError: It is not.
    """
    if source == "movielens":
        from .movielens_files import find_movielens, read_movielens

        read_movielens(find_movielens(folder))
    elif source == "criteo":
        from .criteo_files import find_criteo

        find_criteo(folder)


def open_data(source: str, folder: Path | None, preset: Preset, *, seed: int) -> DataSet:
    """Open a data set.

    Args:
        source: One of :data:`SOURCES`.
        folder: Where its files are, where it has any.
        preset: Sizes of the synthetic stream.
        seed: Of the synthetic stream.

    Raises:
        ReferenceModelError: Its files are not there or not readable.
    """
    if source == "movielens":
        from .movielens import movielens

        return movielens(folder)
    if source == "criteo":
        from .criteo import criteo

        return criteo(folder)
    from .synthetic import synthetic

    return synthetic(preset, seed=seed)
