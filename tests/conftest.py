"""What all tests share when several processes run them (pytest-xdist)."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)  # pytest-xdist looks for groups in this hook, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With ``--dist loadgroup``, one process runs all tests with Spark: two Sparks at a time would only be in each other's way."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
