"""What Lightning asks for callbacks, in the constructor of every Trainer."""

from __future__ import annotations

import logging
import os
from typing import Any, Final

log = logging.getLogger(__name__)

# Spelt out, since importing ett_hookspecs is not for programs that are not measured.
JOB_DIR_VARIABLE: Final = "ETT_JOB_DIR"
DISABLE_VARIABLE: Final = "ETT_DISABLE_PLUGINS"
DISABLED_BY: Final = frozenset({"*", "autoload", "timeline"})

_WARNED: set[str] = set()


def callbacks() -> list[Any]:
    """The callbacks to add to a Trainer that is being made.

    Returns:
        One that measures it where ``ETT_JOB_DIR`` names a directory, unless ``ETT_DISABLE_PLUGINS`` names this plugin
        (``autoload``), ``timeline`` or ``*``; else none. Whatever goes wrong is one warning and none.

    *Runs on* every rank, in the constructor of every Trainer. *Source* Lightning's entry point
    ``lightning.pytorch.callbacks_factory``.
    """
    job_dir = os.environ.get(JOB_DIR_VARIABLE, "").strip()
    if not job_dir or _disabled():
        return []
    if "://" in job_dir:
        _warn(f"{JOB_DIR_VARIABLE}={job_dir} is a URL: name a local or shared POSIX path")
        return []
    try:
        from .callback import AutoloadedTrainingTime
        from .presence import announce

        announce(os.getpid())
        return [AutoloadedTrainingTime()]
    except (Exception, SystemExit) as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        _warn(f"it cannot be loaded ({text}): reinstall ett-autoload, or unset {JOB_DIR_VARIABLE}")
        log.debug("how it failed", exc_info=error)
        return []


def _disabled() -> bool:
    names = {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",")}
    return not names.isdisjoint(DISABLED_BY)


def _warn(text: str) -> None:
    """Say once in a process, and on one rank, that the job trains unmeasured."""
    if text not in _WARNED and _is_rank_zero():
        log.warning("ett-autoload: this job trains unmeasured: %s", text)
    _WARNED.add(text)


def _is_rank_zero() -> bool:
    try:
        from lightning.pytorch.utilities import rank_zero_only
    except ImportError:
        return True
    return bool(getattr(rank_zero_only, "rank", 0) == 0)
