"""MovieLens-100k as a click task: a rating of 4 or 5 is a click."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ett_reference.batch import Batch, Column, assemble
from ett_reference.schema import Feature, Schema

from .movielens_files import GENRES, MovieLens, find_movielens, read_movielens
from .samples import DataSet

CLICK_FROM: Final = 4
"""Ratings from here on count as clicks."""
PASSES: Final = 3
"""Passes over the training part, where the command line does not say how many samples."""
AGE_STEPS: Final = (18, 25, 35, 45, 50, 56)
"""Where MovieLens' own age groups begin, in years."""


class RatedMovies:
    """Some ratings of MovieLens, as samples.

    Dense features: the user's age and the movie's year of release, both scaled to about -1 to 1.

    Args:
        columns: Categorical features of all ratings.
        dense: float32, shape (ratings, 2).
        labels: float32, shape (ratings,).
    """

    def __init__(
        self, columns: list[Column], dense: npt.NDArray[np.float32], labels: npt.NDArray[np.float32], part: slice
    ) -> None:
        self._columns = columns
        self._dense = dense
        self._labels = labels
        self._rows = np.arange(len(labels))[part]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        return assemble(self._columns, self._dense, self._labels, self._rows[np.asarray(indices, dtype=np.int64)])


def movielens(folder: Path | None) -> DataSet:
    """MovieLens-100k, split by time: the first 80 % are trained, then 10 % each for validation and test.

    Args:
        folder: Where it is; None for the copy that recbole's wheel carries.

    Raises:
        ReferenceModelError: It is not there, or not readable.
    """
    data = read_movielens(find_movielens(folder))
    columns, schema = _columns(data)
    dense = _dense(data)
    labels = (data.rating >= CLICK_FROM).astype(np.float32)
    ratings = len(labels)
    trained, validated = ratings * 8 // 10, ratings * 9 // 10
    return DataSet(
        schema=schema,
        train=RatedMovies(columns, dense, labels, slice(0, trained)),
        held_out={
            "validation": RatedMovies(columns, dense, labels, slice(trained, validated)),
            "test": RatedMovies(columns, dense, labels, slice(validated, ratings)),
        },
        shuffled=True,
        default_samples=PASSES * trained,
    )


def _columns(data: MovieLens) -> tuple[list[Column], Schema]:
    users, movies = data.users, data.movies
    occupations = {name: number for number, name in enumerate(sorted({user.occupation for user in users.values()}))}

    def by_user(values: dict[int, int]) -> Column:
        table = np.zeros(max(users) + 1, dtype=np.int64)
        table[list(values)] = list(values.values())
        return Column.of_single(table[data.user])

    def genres() -> Column:
        per_movie = Column.of_lists([list(movies[n].genres) if n in movies else [] for n in range(max(movies) + 1)])
        values, lengths = per_movie.take(data.movie)
        return Column(values, np.concatenate(([0], np.cumsum(lengths))))

    named = {
        "user": (Column.of_single(data.user), max(users) + 1),
        "item": (Column.of_single(data.movie), max(movies) + 1),
        "gender": (by_user({n: int(user.gender == "F") for n, user in users.items()}), 2),
        "age": (
            by_user({n: int(np.digitize(user.age, AGE_STEPS)) for n, user in users.items()}),
            len(AGE_STEPS) + 1,
        ),
        "occupation": (by_user({n: occupations[user.occupation] for n, user in users.items()}), len(occupations)),
        "genres": (genres(), len(GENRES)),
    }
    features = tuple(Feature(name, rows) for name, (_, rows) in named.items())
    return [column for column, _ in named.values()], Schema(features, dense=2)


def _dense(data: MovieLens) -> npt.NDArray[np.float32]:
    known_years = [movie.year for movie in data.movies.values() if movie.year is not None]
    middle = sum(known_years) / len(known_years)
    age = np.zeros(max(data.users) + 1)
    age[list(data.users)] = [(user.age - 35) / 30 for user in data.users.values()]
    year = np.zeros(max(data.movies) + 1)
    year[list(data.movies)] = [
        0.0 if movie.year is None else (movie.year - middle) / 30 for movie in data.movies.values()
    ]
    return np.stack((age[data.user], year[data.movie]), axis=1).astype(np.float32)
