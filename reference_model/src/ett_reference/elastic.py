"""torchrun, for a program that says itself what is wrong: ``python -m ett_reference.elastic`` in torchrun's place."""

from __future__ import annotations

import logging
import os
import sys

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun


def main() -> None:
    """Run torchrun; a rank that failed has said why, and its exit code is this program's.

    What torchrun itself would say of it comes with ``LOGLEVEL=ERROR`` in the environment.
    """
    if "LOGLEVEL" not in os.environ:
        logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.CRITICAL)
    try:
        torchrun(sys.argv[1:])
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        # A signal's number is negative.
        sys.exit(failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode)


if __name__ == "__main__":
    main()
