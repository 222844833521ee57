"""In which order tests run."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark first: they take long, and of several workers none shall have such a one to itself at the end."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
