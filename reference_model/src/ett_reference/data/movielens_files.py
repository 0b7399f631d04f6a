"""Finds and reads MovieLens-100k, in GroupLens' own layout or as recbole's wheel carries it; needs no torch."""

from __future__ import annotations

import csv
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ett_reference.errors import ReferenceModelError

GENRES: Final = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
"""In the order of GroupLens' ``u.genre``."""

GROUPLENS_FILES: Final = ("u.data", "u.user", "u.item")
RECBOLE_FILES: Final = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")


@dataclass(frozen=True, slots=True)
class User:
    """A user, as MovieLens describes them.

    Attributes:
        age: In years.
        gender: ``M`` or ``F``.
        occupation: One of 21 words.
    """

    age: int
    gender: str
    occupation: str


@dataclass(frozen=True, slots=True)
class Movie:
    """A movie.

    Attributes:
        year: Of its release; None where MovieLens does not know it.
        genres: Positions in :data:`GENRES`.
    """

    year: int | None
    genres: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MovieLens:
    """All of MovieLens-100k.

    Attributes:
        users: By MovieLens' number, from 1.
        movies: By MovieLens' number, from 1.
        user: Who rated, int64, shape (ratings,).
        movie: What was rated, int64, shape (ratings,).
        rating: 1 to 5, int64, shape (ratings,).
        time: Seconds since 1970, int64, shape (ratings,). The arrays are sorted by it; then by user and movie, so that
            the order is one.
    """

    users: dict[int, User]
    movies: dict[int, Movie]
    user: npt.NDArray[np.int64]
    movie: npt.NDArray[np.int64]
    rating: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]


def find_movielens(folder: Path | None) -> Path:
    """The folder that holds MovieLens-100k.

    Args:
        folder: Where the user says it is; without one, recbole's installed files are looked for. recbole is not
            imported.

    Raises:
        ReferenceModelError: It is not there.
    """
    if folder is not None:
        for names in (GROUPLENS_FILES, RECBOLE_FILES):
            if all((folder / name).is_file() for name in names):
                return folder
        raise ReferenceModelError(
            f"{folder} is not MovieLens-100k: looked for {', '.join(GROUPLENS_FILES)} (GroupLens) or "
            f"{', '.join(RECBOLE_FILES)} (recbole) in it; point --data-dir at the unpacked ml-100k folder, "
            f"or leave it out to use the copy in recbole's wheel"
        )
    spec = importlib.util.find_spec("recbole")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        candidate = Path(place) / "dataset_example" / "ml-100k"
        if all((candidate / name).is_file() for name in RECBOLE_FILES):
            return candidate
    raise ReferenceModelError(
        f"MovieLens-100k was not found: looked for {', '.join(RECBOLE_FILES)} in the installed recbole "
        f"({'which is not installed' if spec is None else 'which lacks them'}); run `pip install --no-deps "
        f"recbole==1.2.1`, or point --data-dir at a GroupLens ml-100k folder"
    )


def read_movielens(folder: Path) -> MovieLens:
    """Read a folder that :func:`find_movielens` found.

    Raises:
        ReferenceModelError: A file is not what its name says.
    """
    grouplens = all((folder / name).is_file() for name in GROUPLENS_FILES)
    try:
        users = _grouplens_users(folder / "u.user") if grouplens else _recbole_users(folder / "ml-100k.user")
        movies = _grouplens_movies(folder / "u.item") if grouplens else _recbole_movies(folder / "ml-100k.item")
        rows = _rows(folder / "u.data", "\t") if grouplens else _rows(folder / "ml-100k.inter", "\t")[1:]
        ratings = np.array([[int(float(field)) for field in row[:4]] for row in rows], dtype=np.int64).reshape(-1, 4)
        order = np.lexsort((ratings[:, 1], ratings[:, 0], ratings[:, 3]))
        user, movie, rating, time = np.ascontiguousarray(ratings[order].T)
    except (IndexError, OSError, ValueError) as error:
        raise ReferenceModelError(
            f"{folder} cannot be read as MovieLens-100k ({error}); unpack ml-100k again and point --data-dir at it"
        ) from error
    if not (len(rows) and np.isin(user, list(users)).all() and np.isin(movie, list(movies)).all()):
        raise ReferenceModelError(
            f"{folder} is not a whole MovieLens-100k: it has no ratings, or some by users or of movies it does not "
            f"describe; unpack ml-100k again and point --data-dir at it"
        )
    return MovieLens(users=users, movies=movies, user=user, movie=movie, rating=rating, time=time)


def _rows(path: Path, delimiter: str) -> list[list[str]]:
    # Titles in u.item are Latin-1; recbole's files are plain ASCII or UTF-8, where we use nothing but ASCII.
    with path.open(encoding="latin-1", newline="") as file:
        return [row for row in csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE) if row]


def _grouplens_users(path: Path) -> dict[int, User]:
    return {int(row[0]): User(int(row[1]), row[2], row[3]) for row in _rows(path, "|")}


def _recbole_users(path: Path) -> dict[int, User]:
    return {int(row[0]): User(int(row[1]), row[2], row[3]) for row in _rows(path, "\t")[1:]}


def _grouplens_movies(path: Path) -> dict[int, Movie]:
    movies = {}
    for row in _rows(path, "|"):
        flags = row[5 : 5 + len(GENRES)]
        genres = tuple(genre for genre, flag in enumerate(flags) if flag == "1")
        # 01-Jan-1995
        movies[int(row[0])] = Movie(int(row[2][-4:]) if row[2] else None, genres)
    return movies


def _recbole_movies(path: Path) -> dict[int, Movie]:
    known = {name: number for number, name in enumerate(GENRES)}
    movies = {}
    for row in _rows(path, "\t")[1:]:
        genres = tuple(sorted(known[name] for name in row[3].split()))
        movies[int(row[0])] = Movie(int(row[2]) if row[2].isdigit() else None, genres)
    return movies
