"""Marks each test by the folder it lies in: unit, integration or faults."""

from __future__ import annotations

from pathlib import Path

import pytest

KINDS = ("unit", "integration", "faults")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marker of its folder."""
    for item in items:
        folders = Path(item.path).parts
        kind = next((kind for kind in KINDS if kind in folders), "unit")
        item.add_marker(kind)
