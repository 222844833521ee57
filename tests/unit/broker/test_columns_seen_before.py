"""Blocks in columns that wait for the detectors, of which some events, or all, came in here before."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from middleware.broker.inbox import Inbox
from middleware.broker.ingress.checks import Ingress
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.link.codec import EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.block.block import Block
from middleware.model.change import Delta, grouped
from middleware.model.event import Event, EventTypes
from middleware.ordering.arrival import in_order

PEER = ("node", "b")


class Ping(Event):
    number: int


class Pong(Event):
    number: int


@pytest.mark.parametrize("in_columns", [False, True])
@pytest.mark.parametrize("seen", [range(0), range(0, 80, 2), range(0, 80, 3), range(80)])
def test_repeats_are_skipped_and_the_rest_stays_in_order(seen: range, in_columns: bool) -> None:
    types = EventTypes([Ping, Pong])
    codec, drops = EventCodec(types), Counter[str]()
    ingress = Ingress(types, codec, drops)
    inbox = Inbox(frozenset({"Ping", "Pong"}), codec, drops, ingress)
    events = [(Pong if number % 2 else Ping)(number, ts=number + 1, id=number, source="s") for number in range(80)]
    for number in seen:
        ingress.seen.add("s", number)
    for name, delta in grouped(events).items():
        if in_columns:
            delta = Delta(Block.from_events(types[name], delta.inserts), arrival_order=np.array(delta.arrival_order))
        for head, block in encode_delta(name, delta, raw=True):
            head.arrival = 1
            assert head.columns == in_columns and head.arrival_order is not None
            inbox.put(PEER, head, block, None)
    taken = inbox.take(CombinedWatermarks(), None, ())
    assert taken is not None
    found = [event.id for event in in_order(list(taken.deltas.values())).inserts] if taken.deltas else []
    assert found == [event.id for event in events if event.id not in seen]
