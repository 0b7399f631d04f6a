"""The thread that writes: what is queued goes to the disk, and the state file gets its stamp, every second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from .clock import NS, ClockAnchor
from .lines import NoteLine
from .state import StateFile
from .writer import LogWriter

log = logging.getLogger(__name__)

BEAT_S: Final = 1.0
"""Seconds between two stamps."""

_PATIENCE_S: Final = 5 * BEAT_S
_JUMP_NS: Final = NS
_BEATS_A_CALL: Final = 5


class Heartbeat:
    """Keeps a rank's files up to date from a thread of its own, so that training never waits for a disk.

    Args:
        writer: The log.
        state: The state file.
        anchor: The clocks, as the log's header has them.
        clock: Monotonic nanoseconds.
        on_beat: Called every few seconds.

    Attributes:
        log_failing: The disk refused the log, the last time it was tried.
    """

    def __init__(
        self,
        writer: LogWriter,
        state: StateFile,
        anchor: ClockAnchor,
        clock: Callable[[], int],
        on_beat: Callable[[], None] | None,
    ) -> None:
        self._writer = writer
        self._state = state
        self._anchor = anchor
        self._clock = clock
        self._on_beat = on_beat
        self._wake = threading.Event()
        self._flushing = threading.Lock()
        self._stopped = False
        self._complained = self._failed = False
        self._deleted = ""
        self._jump_ns = 0
        self._thread: threading.Thread | None = None
        self.log_failing = False

    def start(self) -> None:
        """Stamp, and go on stamping."""
        self._state.beat(self._clock())
        self._thread = threading.Thread(target=self._beat_forever, name="ett-heartbeat", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something worth writing now was queued."""
        self._wake.set()

    def stop(self) -> None:
        """Write what is left, and stamp a last time."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=_PATIENCE_S)
        self.flush()
        self._state.beat(self._clock())
        self.watch_files()

    def disown(self) -> None:
        """This is a forked child: its parent goes on alone, and locks that its threads held are held for ever."""
        self._stopped = True
        self._wake = threading.Event()
        self._flushing = threading.Lock()
        self._state = StateFile.nowhere()
        self._writer.disown()

    def flush(self) -> None:
        """Write what is queued, from this thread; not at all where another has been at it for seconds."""
        if not self._flushing.acquire(timeout=_PATIENCE_S):
            return
        try:
            if self._writer.mend():
                self._warn("the log was truncated by another program: what is missing counts as unknown")
            self._writer.flush(self._state.write_mark)
            self._state.sync()
            self.log_failing = self._writer.given_up
        except OSError as error:
            self.log_failing = True
            if not self._complained:
                self._complained = True
                log.warning(
                    "the timeline cannot be written (%s): training goes on, and the report will say what is missing; "
                    "free some space on the disk of the job directory",
                    error,
                )
                self._note(f"the log could not be written for a while: {error}")
        finally:
            self._flushing.release()

    def watch_clock(self) -> None:
        """Note a wall clock that has jumped against the monotonic one."""
        jump = self._anchor.jump_ns()
        if abs(jump - self._jump_ns) > _JUMP_NS:
            self._note(f"the wall clock jumped by {(jump - self._jump_ns) / NS:+.1f} s; durations are not affected")
            self._jump_ns = jump

    def watch_files(self) -> None:
        """Say so once where somebody has deleted what is written, or put something else in its place."""
        if self._writer.was_deleted:
            deleted = (
                "the timeline was deleted: what is recorded from here on is lost, and training goes on; start the job "
                "again with a directory that stays"
            )
        elif self._state.was_deleted:
            deleted = "the timeline's state file was deleted: a kill will lose up to a second; training goes on"
        else:
            return
        if deleted != self._deleted:
            self._deleted = deleted
            log.warning("%s", deleted)

    def _warn(self, text: str) -> None:
        """Say something now and in the report."""
        log.warning("%s", text)
        self._note(text)

    def _note(self, text: str) -> None:
        self._writer.put(NoteLine(t=self._clock(), text=text))

    def _beat_forever(self) -> None:
        beats = 0
        while not self._stopped:
            self._wake.wait(BEAT_S)
            self._wake.clear()
            try:
                self._state.beat(self._clock())
                self.flush()
                self.watch_files()
                self.watch_clock()
                if self._on_beat is not None and beats % _BEATS_A_CALL == 0:
                    self._on_beat()
            except Exception:
                if not self._failed:
                    self._failed = True
                    log.warning("the timeline's heartbeat failed; training goes on", exc_info=True)
            beats += 1
