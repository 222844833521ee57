"""Events that are held in columns, however they came, are released as a sorted list would release them."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.block.block import Block
from middleware.model.block.waiting_blocks import WaitingBlocks
from middleware.model.event import END, ORDER, Event


class Told(Event):
    text: str
    number: int | None


STAMPS = {"ts": st.integers(1, 30), "id": st.integers(0, 50), "source": st.sampled_from("ab"), "level": st.integers(0, 1)}
events = st.builds(Told, st.text("aé", max_size=2), st.none() | st.integers(0, 9), **STAMPS)
FORMS = st.sampled_from(["block", "batch", "joined", "slice"])
moves = st.one_of(
    st.tuples(st.just("put"), st.lists(events, max_size=12), FORMS, st.integers(0, 9)),
    st.tuples(st.just("pick"), st.sets(st.integers(0, 50), max_size=9)),
    st.tuples(st.just("release"), st.integers(1, 30)),
)


def columns(kind: type[Event], events: list[Event], form: str) -> Block:
    made = Block.from_events(kind, events)
    if form == "block":
        return made
    if form == "joined":
        return made.slice(0, 0).joined([Block.from_events(kind, events[:3]), Block.from_events(kind, events[3:])])
    if form == "slice":
        return Block.from_events(kind, [*events[:2], *events]).slice(len(events[:2]), len(events[:2]) + len(events))
    return Block(kind, pa.record_batch(made.batch.columns, schema=made.batch.schema))


@settings(deadline=None)
@given(st.lists(moves, max_size=14))
def test_they_are_released_in_order_whatever_they_came_in(drawn: list[tuple[object, ...]]) -> None:
    held, expected = WaitingBlocks(), list[Event]()
    for move in [*drawn, ("release", END)]:
        match move:
            case "put", list(events), str(form), int(above):
                kind = Told
                given_columns = columns(kind, events, form)
                assert given_columns.as_core_blocks() or not events
                refused = held.put(given_columns, above)
                expected += [event for event in events if event.ts > above]
                assert refused == sum(event.ts <= above for event in events)
            case "pick", set(ids):
                picked = list(held.pick(ids))
                assert Counter(map(repr, picked)) == Counter(repr(event) for event in expected if event.id in ids)
                expected = [event for event in expected if event.id not in ids]
            case "release", int(until):
                free = held.released(until)
                due = [event for event in expected if event.ts <= until]
                found = [event for each in free.values() for event in each.events()]
                assert list(map(ORDER, found)) == sorted(map(ORDER, due))
                assert Counter(map(repr, found)) == Counter(map(repr, due))
                expected = [event for event in expected if event.ts > until]
        first = held.first()
        assert len(held) == len(expected)
        assert (first and ORDER(first)) == min(map(ORDER, expected), default=None)
    assert held.spill() == [] and held.put(columns(Told, [], "block")) == 0
