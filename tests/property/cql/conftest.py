"""What the tests of operators over windows share."""

import pytest

from detectors.cql.query_operators import current, join_operator, matching, windowed


@pytest.fixture(params=[True, False], ids=["purge always", "purge seldom"])
def purging(request, monkeypatch):
    """Purging at every call, or only at the end."""
    for module in (current, join_operator, matching, windowed):
        monkeypatch.setattr(module, "LEAST_PURGE", 0 if request.param else 1024)
        monkeypatch.setattr(module, "PURGE_SHARE", 0 if request.param else 0.5)
