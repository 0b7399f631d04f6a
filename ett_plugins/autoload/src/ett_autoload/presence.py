"""Whether all ranks of a ``torchrun`` launch are measured: one that is waits for ever for one that is not.

Environments are the same on all ranks but where somebody starts ``torchrun`` by hand on each node. Its agent keeps a
store that every rank can reach before there is any process group. A rank that will measure says so there when its first
Trainer is made. When callbacks are set up, all ranks have passed a barrier, and what the store says then is final.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import lru_cache
from typing import Final

from torch.distributed import TCPStore  # type: ignore[attr-defined]

_WAIT: Final = timedelta(seconds=20)


@lru_cache(maxsize=1)
def announce(process: int) -> TCPStore | None:
    """Say once that this rank measures.

    Args:
        process: This process's id.

    Returns:
        The store; None where there is none, and environments are believed to be the same on all ranks.

    Raises:
        RuntimeError: The store does not answer.
    """
    del process
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or os.environ.get("WORLD_SIZE", "1") == "1":
        return None
    store = TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, timeout=_WAIT, wait_for_workers=False
    )
    store.add(_key("present"), 1)
    return store


def missing(world_size: int) -> int:
    """How many ranks do not measure; 0 where nobody can say.

    Args:
        world_size: Number of ranks.

    Raises:
        RuntimeError: The store does not answer.

    *Runs on* every rank, after a barrier that follows the making of the Trainer.
    """
    store = announce(os.getpid())
    return 0 if store is None or world_size == 1 else max(0, world_size - store.add(_key("present"), 0))


def first_to_tell() -> bool:
    """Whether this rank is the first to ask; the one that warns."""
    store = announce(os.getpid())
    return store is None or store.add(_key("told"), 1) == 1


def _key(what: str) -> str:
    # The store outlives the restarts of its workers.
    return f"ett-autoload/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{what}"
