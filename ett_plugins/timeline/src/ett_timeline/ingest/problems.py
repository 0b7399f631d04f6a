"""What is wrong with a file of events, by line."""

from __future__ import annotations

from typing import Final, NamedTuple

KEPT: Final = 1000
"""Problems kept with their text; beyond that they are counted."""
_SHOWN_CHARACTERS: Final = 60


class Problem(NamedTuple):
    """Something a user may want to put right.

    Attributes:
        line: Where, from 1.
        text: What, in a line.
    """

    line: int
    text: str


class Problems:
    """Problems in the order they are found, the first of them with their text.

    Attributes:
        found: Those kept.
        count: How many there were.
        left_out: How many lines could not be used.
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.count = 0
        self.left_out = 0

    def add(self, line: int, text: str) -> None:
        """Something is wrong; the line was used all the same."""
        self.count += 1
        if len(self.found) < KEPT:
            self.found.append(Problem(line, text))

    def leave_out(self, line: int, text: str) -> None:
        """Something is wrong, and the line was not used."""
        self.left_out += 1
        self.add(line, text)

    def lines(self, limit: int) -> list[str]:
        """As text, by line number, at most so many."""
        shown = [f"line {line}: {text}" for line, text in sorted(self.found)[:limit]]
        more = self.count - len(shown)
        return [*shown, f"and {more:,} more"] if more else shown


def shown(value: object) -> str:
    """A value of the file, as part of a line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
