"""Measures the Effective Training Time of a PyTorch Lightning job.

``EffectiveTrainingTime`` is imported on first use, so that commands start without Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callback import EffectiveTrainingTime

__all__ = ["EffectiveTrainingTime"]


def __getattr__(name: str) -> Any:
    if name == "EffectiveTrainingTime":
        from .callback import EffectiveTrainingTime

        return EffectiveTrainingTime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
