"""The core holds and releases blocks of events as a sorted list does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware import native
from middleware.model.block.block import Block
from middleware.model.block.rows import reader_of
from middleware.model.event import END, NEVER, Event
from tests.oracles.held_blocks import ModelHeldBlocks


class Told(Event, gc=False):
    number: int = 0
    value: float = 0.0
    is_true: bool = False
    text: str = ""
    more: str | None = None
    count: int | None = None


events = st.builds(
    Told,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.text("aé\U0001f600", max_size=3),
    st.none() | st.text("ab", max_size=2),
    st.none() | st.integers(0, 9),
    ts=st.integers(0, 12),
    id=st.integers(0, 40),
    source=st.sampled_from(["", "a", "b", "aé"]),
    level=st.integers(0, 2),
)
raw = st.builds(Told, ts=st.integers(0, 12), id=st.integers(0, 40), source=st.just("a"))
blocks = st.lists(events, min_size=1, max_size=20) | st.lists(raw, min_size=1, max_size=20)
moves = st.one_of(
    st.tuples(st.just("put"), blocks, st.integers(-1, 5)),
    st.tuples(st.just("pick"), st.sets(st.integers(0, 40), min_size=1, max_size=12)),
    st.tuples(st.just("release"), st.integers(0, 12)),
)


def block_of(events):
    return native.in_columns(reader_of(Told), events)


def key(event):
    return event.ts, event.level, event.source, event.id


@settings(deadline=None)
@given(st.lists(moves, max_size=16))
def test_blocks_are_held_as_in_a_sorted_list(drawn):
    fast, plain = native.HeldBlocks(), ModelHeldBlocks()
    for move in [*drawn, ("release", END)]:
        match move:
            case "put", events, above:
                block = block_of(events)
                assert fast.put(block, above) == plain.put(events, above)
                assert block.events(0, len(block)) == events, "shared, so not to be changed"
            case "pick", ids:
                found, expected = fast.pick(list(ids)), plain.pick(ids)
                assert (found is None) == (not expected)
                if found is not None:
                    assert sorted(map(repr, found.events(0, len(found)))) == sorted(map(repr, expected))
            case "release", until:
                found, expected = fast.release(until), plain.release(until)
                assert (found is None) == (not expected)
                if found is not None:
                    events = found.events(0, len(found))
                    assert list(map(key, events)) == list(map(key, expected))
                    assert sorted(map(repr, events)) == sorted(map(repr, expected))
                    assert Block.from_core(Told, found).batch.to_pylist() is not None
                    assert (found.oldest, found.newest) == (events[0].ts, events[-1].ts)
        assert len(fast) == len(plain)
        first, expected = fast.first(), plain.first()
        assert (first and key(first.events(0, 1)[0])) == (expected and key(expected))
    assert len(fast) == 0


def test_a_whole_block_in_order_is_released_as_it_is():
    held = native.HeldBlocks()
    events = [Told(number, ts=number, id=-number, source="a") for number in range(1, 50)]
    held.put(block_of(events), NEVER)
    assert held.release(0) is None
    assert held.release(49).events(0, 49) == events


def test_little_that_is_left_of_a_block_goes_on_alone():
    held = native.HeldBlocks()
    events = [Told(text=str(number), ts=number, id=number, source=f"s{number}") for number in range(1000)]
    held.put(block_of(events[::-1]), NEVER)
    for until in (500, 990, 995, 999):
        found = held.release(until)
        start, events = events[: len(found)], events[len(found) :]
        assert found.events(0, len(found)) == start and found.sources() == [event.source for event in start]
    assert not events
