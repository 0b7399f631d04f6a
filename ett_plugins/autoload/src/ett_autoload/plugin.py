"""What ``ett plugins`` lists and ``ETT_DISABLE_PLUGINS`` may name. It has no hooks: Lightning asks for its callback."""

from __future__ import annotations

from ett_hookspecs import CONTRACT_VERSION

ETT_CONTRACT = CONTRACT_VERSION
