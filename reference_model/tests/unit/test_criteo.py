"""Criteo-format files as a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ett_reference import ReferenceModelError
from ett_reference.data.criteo import ROWS, criteo
from ett_reference.data.criteo_files import EVERY, LineReader, find_criteo, index_file, parse_lines


def line(number: int, *, category: str | None = None) -> str:
    categories = [f"{number:08x}" if category is None else category] * 26
    return "\t".join([str(number % 2), *[str(number)] * 13, *categories])


@pytest.mark.parametrize("lines", [1, 2, EVERY - 1, EVERY, EVERY + 1, 3 * EVERY])
@pytest.mark.parametrize("ending", ["\n", ""])
def test_any_line_is_found_by_its_number(tmp_path: Path, lines: int, ending: str) -> None:
    path = tmp_path / "day_0"
    path.write_text("\n".join(f"line {number}" for number in range(lines)) + ending)
    index = index_file(path)
    assert index.lines == lines
    reader = LineReader(index)
    for number in (0, lines - 1, lines // 2, lines // 2, min(lines - 1, lines // 2 + 1), 0):
        assert reader.read([number])[0].split() == [b"line", str(number).encode()]


def test_an_index_finds_lines_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    with path.open("wb") as file:
        for _ in range(EVERY + 2):
            file.write(b"x" * 1500 + b"\n")
    index = index_file(path)
    assert index.offsets.tolist() == [0, EVERY * 1501]
    assert len(LineReader(index).read([EVERY + 1])[0]) == 1501


def test_fields_are_read_and_missing_ones_stay_missing() -> None:
    text = "\t".join(["1", "", "-3", *["0"] * 11, "", *["deadbeef"] * 25])
    labels, integers, categories = parse_lines([text.encode() + b"\n"], 1000)
    assert labels.tolist() == [1.0]
    assert integers[0, :2].tolist() == [0.0, pytest.approx(-np.log(4.0))]
    assert categories[0] == [[]]
    assert categories[1] == categories[2]
    assert all(0 <= ids[0][0] < 1000 for ids in categories[1:])


def test_a_line_of_another_format_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match="a line of 3 fields, not 40"):
        parse_lines([b"1\t2\t3\n"], 10)


def test_files_follow_each_other_and_the_last_tenth_of_the_lines_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "day_0").write_text("".join(line(number) + "\n" for number in range(60)))
    (tmp_path / "day_1").write_text("".join(line(number) + "\n" for number in range(60, 100)))
    (tmp_path / "notes.md").write_text("not data")
    data = criteo(tmp_path)
    assert (len(data.train), len(data.held_out["test"])) == (90, 10)
    batch = data.train.__getitems__([58, 59, 60, 61, 3])
    assert np.expm1(batch.dense[:, 0].numpy()).round().tolist() == [58, 59, 60, 61, 3]
    assert data.held_out["test"].__getitems__([9]).dense[0, 0] == pytest.approx(np.log(100.0))
    assert data.schema.dense == 13
    assert {feature.rows for feature in data.schema.features} == {ROWS}


def test_a_missing_category_is_a_sample_without_an_id(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\n".join([line(1), line(2, category=""), line(3)] * 4))
    batch = criteo(tmp_path).train.__getitems__([0, 1, 2])
    assert batch.lengths.view(26, 3).tolist() == [[1, 0, 1]] * 26


def test_without_usable_files_it_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ReferenceModelError, match="point --data-dir"):
        find_criteo(None)
    with pytest.raises(ReferenceModelError, match=r"\*\.tsv, \*\.txt and day_\*"):
        find_criteo(tmp_path)
    (tmp_path / "a.tsv").write_text("1,2,3\n")
    with pytest.raises(ReferenceModelError, match="has 1 fields, not 40"):
        find_criteo(tmp_path)


def test_a_line_that_cannot_be_read_is_named_with_its_file_and_number(tmp_path: Path) -> None:
    (tmp_path / "day_0").write_text("".join(line(number) + "\n" for number in range(10)))
    lines = [line(number) for number in range(20)]
    lines[3] = "garbage"
    lines[5] = line(5).replace("5", "five", 1)
    (tmp_path / "day_1").write_text("\n".join(lines) + "\n")
    train = criteo(tmp_path).train
    assert len(train.__getitems__(range(13)).labels) == 13
    with pytest.raises(ReferenceModelError, match=r"day_1, line 4: a line of 1 fields, not 40"):
        train.__getitems__(range(8, 18))
    with pytest.raises(ReferenceModelError, match=r"day_1, line 6: .*five"):
        train.__getitems__([15])
