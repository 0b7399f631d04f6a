"""Says of each step from which position to which it went, as far as the events tell."""

from __future__ import annotations

from collections.abc import Callable

from .events import NO_POSITION, Kind, RankEvents
from .problems import Problems
from .stretches import Stretches

_STEP = Kind.STEP.value


class Places:
    """Follows one rank through the data.

    Args:
        events: Of the rank, in order.
        stretches: Gets the steps whose place is known.
        problems: Gets those whose place is not.
        counted: Positions are counts of steps, since no step of the file tells one.
        at: Position the attempt begins at; None if nothing says so.
        size: How far a step usually goes; 0 if nothing says so yet.
        moved: Told when and where training goes on at another position.

    Attributes:
        at: Position now, or None.
        size: How far a step goes.
        lost: Steps were trained whose place is not known.
    """

    def __init__(
        self,
        events: RankEvents,
        stretches: Stretches,
        problems: Problems,
        *,
        counted: bool,
        at: int | None,
        size: int,
        moved: Callable[[int, int], None],
    ) -> None:
        self._events = events
        self._stretches = stretches
        self._problems = problems
        self._counted = counted
        self._moved = moved
        self._told = False
        self._waiting = self._waiting_t0 = self._waiting_t1 = self._waiting_line = 0
        self.at = at
        self.size = size
        self.lost = False

    def move_to(self, position: int | None) -> None:
        """Training goes on elsewhere; None if nothing says where."""
        self.at = position
        self._told = False

    def step(self, index: int, t0: int, t1: int) -> bool:
        """A step has ended.

        Args:
            index: Of its event.
            t0: Where it began, or where it ended if nothing says where it began.
            t1: Where it ended.

        Returns:
            Whether it went on to another position, or may have.
        """
        position = self._events.position[index]
        if self._counted:
            self._count(index, t0, t1)
            return True
        if position == NO_POSITION:
            self._wait(index, t0, t1)
            return True
        if position == self.at:
            self._problems.leave_out(self._events.line[index], f"is a step that ends where it began, at {position}")
            return False
        n = 1
        if self._waiting and self._waiting_t1 == t0:
            n += self._waiting
            t0 = self._waiting_t0
        elif self._waiting:
            self.give_up_waiting()
        self._waiting = 0
        if self.at is None or position < self.at:
            self.at = max(0, position - n * self._usual_size(index, position))
            self._told = False
        self._train(t0, t1, n, position)
        return True

    def give_up_waiting(self) -> None:
        """No position will say where the last steps went."""
        if self._waiting:
            self.lost = True
            self._problems.add(
                self._waiting_line,
                f"no position says where {self._waiting:,} steps from here on went: they are not counted and their "
                f"time is unknown",
            )
            self._waiting = 0

    def _count(self, index: int, t0: int, t1: int) -> None:
        if self.at is not None:
            self._train(t0, t1, 1, self.at + 1)
        elif not self.lost:
            self.lost = True
            self._problems.add(
                self._events.line[index],
                "neither a position nor a restore of a save that ended says where training went on: steps from here on "
                "are not counted, and their time is unknown",
            )

    def _wait(self, index: int, t0: int, t1: int) -> None:
        if self._waiting and self._waiting_t1 != t0:
            self.give_up_waiting()
        if not self._waiting:
            self._waiting_t0, self._waiting_line = t0, self._events.line[index]
        self._waiting += 1
        self._waiting_t1 = t1

    def _train(self, t0: int, t1: int, n: int, position: int) -> None:
        assert self.at is not None
        if not self._told:
            self._moved(t0, self.at)
            self._told = True
        self._stretches.add(t0, t1, n, self.at, position)
        self.at = position

    def _usual_size(self, index: int, position: int) -> int:
        """How far a step goes, by the next one that tells its position."""
        kinds, positions = self._events.kind, self._events.position
        steps = 0
        for following in range(index + 1, len(kinds)):
            if kinds[following] == _STEP:
                steps += 1
                if positions[following] != NO_POSITION:
                    if positions[following] > position:
                        self.size = max(1, (positions[following] - position) // steps)
                    break
        return self.size or 1
