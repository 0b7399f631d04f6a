"""The two markers of the pluggy project ``ett``."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "ett"
"""The pluggy project name."""

ENTRY_POINT_GROUP: Final = "ett.plugins"
"""The entry-point group whose values are modules that hold hookimpls."""

DISABLE_VARIABLE: Final = "ETT_DISABLE_PLUGINS"
"""Environment variable: names of installed plugins not to load, separated by commas; ``*`` is all of them."""

CONTRACT_ATTRIBUTE: Final = "ETT_CONTRACT"
"""Where a plugin's module says which contract it was built for, ``(major, minor)``; the current one if it does not."""

CONTRACT_VERSION: Final = (1, 0)
"""Major and minor version of the hooks and types in this distribution."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
