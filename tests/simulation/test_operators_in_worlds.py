"""Simulated worlds whose nodes run windows, sequence queries, FlinkCQL and flows: the same promise through the same trouble."""

from __future__ import annotations

from collections import Counter

import pytest

from detectors.simulated import an_application
from middleware.testing.simulation.hunt import hunt


@pytest.mark.parametrize("first", range(0, 30, 15))
def test_whatever_fails_the_promise_holds(first: int) -> None:
    troubles: Counter[str] = Counter()
    for outcome in hunt(first, 15, application=an_application):
        assert outcome.failure is None, f"seed {outcome.seed}: {outcome.failure}"
        troubles += outcome.troubles
    assert troubles["crash"] > 5 and troubles["records"] > 20 and troubles["revised"] > 100, "worlds without trouble"
