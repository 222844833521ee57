"""Simulated worlds whose nodes run windows, sequence queries, FlinkCQL and flows: the same promise through the same trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from detectors.cql.stepped import SteppedQuery
from detectors.cql.windowed import WindowedOperation
from detectors.flow.operator import FlowOperation
from detectors.sequence.operator import SequenceOperation
from detectors.window.running import WindowsOperation
from detectors.window.stepped import SteppedWindows
from detectors.worlds import Deployed, an_application, of_cql, of_flows, of_sequences, of_windows
from middleware.operator import Operation
from middleware.testing.worlds.hunt import hunt


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_whatever_fails_the_promise_holds(first: int) -> None:
    troubles: Counter[str] = Counter()
    for outcome in hunt(first, 20, application=an_application):
        assert outcome.failure is None, f"seed {outcome.seed}: {outcome.failure}"
        troubles += outcome.troubles
    assert troubles["crash"] > 5 and troubles["records"] > 20 and troubles["revised"] > 200, "worlds without trouble"


@pytest.mark.parametrize(
    ("operation", "application"),
    [
        (WindowsOperation, of_windows),
        (SteppedWindows, of_windows),
        (SequenceOperation, of_sequences),
        (WindowedOperation, of_cql),
        (SteppedQuery, of_cql),
        (FlowOperation, of_flows),
    ],
)
def test_a_state_that_is_not_restored_would_be_seen(
    operation: type[Operation], application: Callable[[Random], Deployed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "restore", lambda self, state: None)
    assert any(outcome.failure is not None for outcome in hunt(0, 300, application=application))
