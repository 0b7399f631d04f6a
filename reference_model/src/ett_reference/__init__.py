"""A TorchRec DLRM under Lightning: the training that ETT is tried on.

Nothing heavy is imported here: the ``ett-reference`` program checks what it is asked before torch is loaded.
"""

from __future__ import annotations

from .errors import ReferenceModelError

__all__ = ["ReferenceModelError"]
