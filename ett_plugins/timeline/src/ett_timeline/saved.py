"""What a checkpoint carries for the timeline, so that the next attempt knows where in the data it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ett_record import LARGEST


@dataclass(frozen=True, slots=True)
class SavedPosition:
    """The timeline's part of a checkpoint.

    Attributes:
        job_id: The job that the position belongs to; None if no job did.
        samples: Samples over all ranks since that job began.
        measured: Whether the attempt that saved it was measured. An unmeasured one carries on what it was given, so
            that the job's later attempts are measured right.
    """

    job_id: str | None
    samples: int
    measured: bool = True

    def to_state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        state: dict[str, Any] = {"job_id": self.job_id, "samples": self.samples}
        return state if self.measured else {**state, "measured": False}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SavedPosition:
        """Read a checkpoint's values.

        Raises:
            ValueError: They are not what :meth:`to_state` gives; the text says what is wrong.
        """
        job_id, samples = state.get("job_id"), state.get("samples", 0)
        if job_id is not None and not isinstance(job_id, str):
            raise ValueError(f"its job_id is {job_id!r:.40}")
        if not isinstance(samples, int) or isinstance(samples, bool) or not 0 <= samples <= LARGEST:
            raise ValueError(f"its samples is {samples!r:.40}")
        return cls(job_id, samples, measured=state.get("measured", True) is not False)
