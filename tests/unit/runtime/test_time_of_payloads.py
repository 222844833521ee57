"""A node judges each payload by the time at which it takes it, not by the time at which its step began."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from middleware.broker.ingress.sources import LEAD
from middleware.model.event import EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter


def test_a_payload_is_judged_by_the_time_at_which_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SECOND
    clock = SimpleNamespace(monotonic_ns=lambda: now, monotonic=lambda: now / SECOND, time_ns=time.time_ns, time=time.time)
    monkeypatch.setattr("middleware.runtime.node.time", clock)
    node = Node("a", "tcp://127.0.0.1:*", processor=Reporter(Hierarchy([])), types=EventTypes())
    judged_at = list[int]()

    def receive(channel: Any, parts: Any, at: int) -> None:
        nonlocal now
        judged_at.append(at)
        now += LEAD  # to take it in lasts as long as live events may be ahead of the clock

    monkeypatch.setattr(node._broker, "receive", receive)
    monkeypatch.setattr(node._transport, "poll", lambda timeout: ["socket"])
    monkeypatch.setattr(node._transport, "messages", lambda socket: iter([(b"p", [b"head", b"block"])] * 3))
    try:
        node._receive(0.0, now)
    finally:
        node._close()
    assert judged_at == [SECOND, SECOND + LEAD, SECOND + 2 * LEAD]
