"""What an exception says of the attempt that it ended."""

from __future__ import annotations

import pytest
import torch.distributed
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ett_hookspecs import AttemptEnd
from ett_timeline.outcomes import classify


class OutOfIdeas(RuntimeError):
    pass


class MyExit(SystemExit):
    pass


@pytest.mark.parametrize(
    ("exception", "end", "failure_class"),
    [
        (KeyboardInterrupt(), AttemptEnd.INTERRUPTED, None),
        (SystemExit(), AttemptEnd.INTERRUPTED, None),
        (SystemExit(0), AttemptEnd.INTERRUPTED, None),
        (MyExit(0), AttemptEnd.INTERRUPTED, None),
        (SystemExit(3), AttemptEnd.FAILED, "user"),
        (SystemExit("no more"), AttemptEnd.FAILED, "user"),
        (RuntimeError("a bug"), AttemptEnd.FAILED, "user"),
        (OutOfIdeas(), AttemptEnd.FAILED, "user"),
        (MemoryError(), AttemptEnd.FAILED, "user"),
        (torch.distributed.DistBackendError("gone"), AttemptEnd.FAILED, "infrastructure"),
        (torch.distributed.DistNetworkError("gone"), AttemptEnd.FAILED, "infrastructure"),
        (torch.distributed.DistStoreError("gone"), AttemptEnd.FAILED, "infrastructure"),
    ],
)
def test_an_exception_says_how_the_attempt_ended_and_whose_fault_it_was(exception, end, failure_class):
    assert classify(exception)[:2] == (end, failure_class)


def test_a_termination_signal_answered_in_order_is_a_preemption_though_lightning_makes_it_an_exit():
    assert isinstance(SIGTERMException(), SystemExit)
    assert classify(SIGTERMException())[:2] == (AttemptEnd.PREEMPTED, None)


@pytest.mark.parametrize(
    ("exception", "text"),
    [
        (ValueError("first line\n  second   line"), "ValueError: first line second line"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 188),
    ],
)
def test_the_exception_is_kept_as_one_short_line(exception, text):
    assert classify(exception)[2] == text
