"""What an exception that ended a fit says of the attempt."""

from __future__ import annotations

from ett_hookspecs import AttemptEnd

_PREEMPTION = "SIGTERMException"
_INFRASTRUCTURE = frozenset({"DistError", "DistBackendError", "DistNetworkError", "DistStoreError"})
_SHOWN = 200


def classify(exception: BaseException) -> tuple[AttemptEnd, str | None, str]:
    """How an attempt ended that an exception ended.

    Classes are told by name, so that this needs neither Lightning nor torch.

    Returns:
        The end, its failure class (``infrastructure``, ``user`` or None), and the exception in a line.
    """
    names = {cls.__name__ for cls in type(exception).__mro__}
    error = one_line(exception)
    if _PREEMPTION in names:
        # Before the exits, of which it is one.
        return AttemptEnd.PREEMPTED, None, error
    if isinstance(exception, KeyboardInterrupt):
        return AttemptEnd.INTERRUPTED, None, error
    if isinstance(exception, SystemExit) and not exception.code:
        return AttemptEnd.INTERRUPTED, None, error
    return AttemptEnd.FAILED, "infrastructure" if names & _INFRASTRUCTURE else "user", error


def one_line(exception: BaseException) -> str:
    """An exception's class and text in one line, cut where it is long."""
    try:
        text = " ".join(str(exception).split())
    except Exception:  # noqa: BLE001  (a user's exception may not even know its text)
        text = ""
    return f"{type(exception).__name__}: {text}"[:_SHOWN] if text else type(exception).__name__
