"""A node has its detectors adapt once an interval, however many steps it takes."""

from __future__ import annotations

import time
from collections.abc import Collection
from types import SimpleNamespace

import pytest

from middleware.model.event import EventTypes
from middleware.model.time import SECOND
from middleware.ordering.alpha.adaptation import INTERVAL
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter


def test_detectors_adapt_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now, adapted = SECOND, list[int]()

    class Recorded(Reporter):
        def adapt(self, busy: float, subscribed: Collection[str], behind: float = 0.0, work: float = 0.0) -> None:
            adapted.append(now)

    clock = SimpleNamespace(monotonic_ns=lambda: now, monotonic=lambda: now / SECOND, time_ns=time.time_ns, time=time.time)
    monkeypatch.setattr("middleware.runtime.node.time", clock)
    node = Node("a", "tcp://127.0.0.1:*", processor=Recorded(Hierarchy([])), types=EventTypes())
    try:
        for _ in range(25):
            now += INTERVAL // 10
            node._process()
    finally:
        node._close()
    assert adapted == [SECOND + INTERVAL, SECOND + 2 * INTERVAL]
