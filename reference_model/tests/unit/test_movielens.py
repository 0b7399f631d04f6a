"""MovieLens-100k, in both layouts, as a click task."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ett_reference import ReferenceModelError
from ett_reference.data.movielens import movielens
from ett_reference.data.movielens_files import GENRES, RECBOLE_FILES, MovieLens, find_movielens, read_movielens


@pytest.fixture(scope="module")
def data() -> MovieLens:
    return read_movielens(find_movielens(None))


@pytest.fixture
def grouplens(data: MovieLens, tmp_path: Path) -> Path:
    """The same ratings as GroupLens lays them out."""
    columns = zip(data.user, data.movie, data.rating, data.time, strict=True)
    (tmp_path / "u.data").write_text("".join("\t".join(str(field) for field in row) + "\n" for row in columns))
    (tmp_path / "u.user").write_text(
        "".join(f"{n}|{user.age}|{user.gender}|{user.occupation}|00000\n" for n, user in data.users.items())
    )
    lines = []
    for n, movie in data.movies.items():
        date = "" if movie.year is None else f"01-Jan-{movie.year}"
        flags = "|".join("1" if genre in movie.genres else "0" for genre in range(len(GENRES)))
        lines.append(f"{n}|Café «{n}»|{date}||http://x|{flags}\n")
    (tmp_path / "u.item").write_text("".join(lines), encoding="latin-1")
    return tmp_path


def test_it_has_the_ratings_users_and_movies_it_is_known_for(data: MovieLens) -> None:
    assert len(data.rating) == 100_000
    assert len(data.users) == len(set(data.user.tolist())) == 943
    assert len(data.movies) == len(set(data.movie.tolist())) == 1682
    assert np.bincount(data.rating).tolist() == [0, 6110, 11370, 27145, 34174, 21201]
    assert (np.diff(data.time) >= 0).all()


def test_users_and_movies_are_read_as_described(data: MovieLens) -> None:
    toy_story = data.movies[1]
    assert toy_story.year == 1995
    assert [GENRES[genre] for genre in toy_story.genres] == ["Animation", "Children's", "Comedy"]
    assert (data.users[1].age, data.users[1].gender, data.users[1].occupation) == (24, "M", "technician")
    assert {len(movie.genres) for movie in data.movies.values()} == {1, 2, 3, 4, 5, 6}


def test_both_layouts_give_the_same(data: MovieLens, grouplens: Path) -> None:
    other = read_movielens(find_movielens(grouplens))
    assert other.users == data.users
    assert other.movies == data.movies
    for name in ("user", "movie", "rating", "time"):
        assert np.array_equal(getattr(other, name), getattr(data, name))


def test_a_rating_of_4_or_5_is_a_click_and_genres_vary_in_number(data: MovieLens) -> None:
    split = movielens(None)
    batch = split.train.__getitems__([5, 0, 70_000])
    assert batch.labels.tolist() == [float(data.rating[row] >= 4) for row in (5, 0, 70_000)]
    assert [feature.name for feature in split.schema.features] == [
        "user", "item", "gender", "age", "occupation", "genres",
    ]  # fmt: skip
    lengths = batch.lengths.view(6, 3)
    genres = [data.movies[int(data.movie[row])].genres for row in (5, 0, 70_000)]
    assert lengths[:5].unique().tolist() == [1]
    assert lengths[5].tolist() == [len(some) for some in genres]
    assert batch.values[15:].tolist() == [genre for some in genres for genre in some]
    assert batch.values[:3].tolist() == [int(data.user[row]) for row in (5, 0, 70_000)]


def test_what_is_held_out_is_later_than_what_is_trained() -> None:
    split = movielens(None)
    assert len(split.train) == 80_000
    assert {name: len(samples) for name, samples in split.held_out.items()} == {"validation": 10_000, "test": 10_000}
    data = read_movielens(find_movielens(None))
    assert data.time[79_999] <= data.time[80_000] <= data.time[90_000]


def test_every_id_fits_its_table() -> None:
    split = movielens(None)
    for samples in (split.train, *split.held_out.values()):
        batch = samples.__getitems__(range(len(samples)))
        lengths = batch.lengths.view(len(split.schema.features), -1).sum(dim=1).tolist()
        for feature, ids in zip(split.schema.features, batch.values.split(lengths), strict=True):
            assert 0 <= int(ids.min()) <= int(ids.max()) < feature.rows


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "half"])
def test_a_path_that_is_not_movielens_is_told_in_one_line_with_what_was_looked_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "data"
    if kind == "file":
        path.write_text("nothing")
    elif kind != "missing":
        path.mkdir()
    if kind == "half":
        (path / "u.data").write_text("1\t1\t5\t0\n")
    with pytest.raises(ReferenceModelError) as error:
        find_movielens(path)
    assert "u.data, u.user, u.item" in str(error.value)
    assert "point --data-dir" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("torn", [b"", b"user_id:token\n1\tx\n", b"h\n9999\t1\t5\t0\n"])
def test_torn_files_are_told_and_not_trained(tmp_path: Path, torn: bytes) -> None:
    whole = find_movielens(None)
    for name in RECBOLE_FILES:
        shutil.copy(whole / name, tmp_path)
    (tmp_path / "ml-100k.inter").write_bytes(torn)
    with pytest.raises(ReferenceModelError, match="unpack ml-100k again"):
        read_movielens(tmp_path)


def test_recbole_is_found_without_being_imported_and_told_where_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    find_movielens(None)
    assert "recbole" not in sys.modules
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ReferenceModelError, match=r"not installed.*pip install --no-deps recbole"):
        find_movielens(None)
