"""What installing this distribution adds: commands of the ``ett`` program. It changes nothing in a training."""

from __future__ import annotations

from collections.abc import Sequence

from ett_hookspecs import CONTRACT_VERSION, Command, hookimpl

ETT_CONTRACT = CONTRACT_VERSION


@hookimpl
def ett_register_commands() -> Sequence[Command]:
    """``ett report`` and ``ett ingest``."""
    return [
        Command(name="report", help="Say where a job's time went, and who owns it.", target="ett_timeline.cli:report"),
        Command(
            name="ingest",
            help="Make a job directory of the events in another job's log.",
            target="ett_timeline.ingest.command:ingest",
        ),
    ]
