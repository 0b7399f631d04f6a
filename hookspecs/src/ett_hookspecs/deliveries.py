"""Holds back what observers are told until everybody who wants to hear it is there."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Deliveries:
    """The calls of observer hooks that wait.

    Two parties speak to it: whoever makes a hook call (:meth:`begin`, :meth:`end` around it), and each implementation,
    which asks :attr:`held_back` whether the call it is part of will be made again later.

    Args:
        call: Makes a hook call by name.
    """

    def __init__(self, call: Callable[[str, Mapping[str, Any]], object]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._depth = 0
        self._deliverer: int | None = None
        self._waiting: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._thread = _ThreadState()

    @property
    def held_back(self) -> bool:
        """Whether this thread's innermost hook call was put aside."""
        calls = self._thread.calls
        return bool(calls) and calls[-1]

    def begin(self, hook_name: str, arguments: Mapping[str, Any], *, observer: bool) -> None:
        """A hook call begins in this thread; put it aside if others wait or somebody is still to come."""
        held_back = False
        if self._thread.due:
            self._thread.due = False
        elif observer:
            with self._lock:
                # What another thread says while the waiting calls are delivered must not overtake them.
                held_back = self._depth > 0 or self._deliverer not in (None, threading.get_ident())
                if held_back:
                    self._waiting.append((hook_name, arguments))
        self._thread.calls.append(held_back)

    def end(self) -> None:
        """The hook call that began last in this thread is over."""
        self._thread.calls.pop()

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """Put calls of observers aside, from any thread, until the outermost block is left."""
        with self._lock:
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                mine = self._depth == 0 and self._deliverer is None
                if mine:
                    self._deliverer = threading.get_ident()
            if mine:
                self._deliver()

    def _deliver(self) -> None:
        interruption: BaseException | None = None
        while (waiting := self._next()) is not None:
            self._thread.due = True
            try:
                self._call(*waiting)
            except BaseException as error:  # noqa: BLE001  Ctrl-C must not lose what others have to hear
                interruption = interruption or error
            finally:
                self._thread.due = False
        if interruption is not None:
            raise interruption

    def _next(self) -> tuple[str, Mapping[str, Any]] | None:
        with self._lock:
            # Somebody opened a block meanwhile: the rest is delivered when it is left.
            if self._depth == 0 and self._waiting:
                return self._waiting.popleft()
            self._deliverer = None
            return None


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.calls: list[bool] = []
        self.due = False
