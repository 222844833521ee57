"""What came first is found again among the last blocks, whatever they name, and no block costs more than its share."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.copies import MOST_READ, Copies
from middleware.link.codec import BlockHead, encode
from middleware.link.encoding import encode_delta
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import Event
from middleware.native import runs_of


class Reading(Event):
    value: int
    text: str = ""


def reading(source: str, number: int, text: str = "") -> Reading:
    return Reading(number * 7, text, ts=number + 1, id=number, source=source)


identities = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-200, 200)), min_size=1, max_size=30, unique=True)
forms = st.sampled_from(["plain", "K+", "columns"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(identities, st.booleans(), forms, st.booleans()), min_size=1, max_size=12),
    st.integers(1_000, 20_000),
)
def test_what_came_first_is_found_as_long_as_its_block_is_kept(
    blocks: list[tuple[list[tuple[str, int]], bool, str, bool]], most: int
) -> None:
    copies, seen = Copies(most), set[tuple[str, int]]()
    naive: deque[tuple[int, dict[tuple[str, int], bytes]]] = deque()
    for came, names_runs, form, is_asked in blocks:
        fresh = [identity for identity in came if identity not in seen]
        seen.update(fresh)
        if fresh:
            events = [reading(*identity) for identity in fresh]
            delta = Delta(events, early=[0] * len(events) if form == "K+" else None)
            if form == "columns":
                delta = Delta(Block.from_events(Reading, events))
            ((head, block),) = encode_delta("Reading", delta, fewest=1)
            assert head.columns == (form == "columns")
            copies.keep(head, block, runs_of(events, 100) if names_runs else None)
            naive.append((len(block) + 512, {(each.source, each.id): encode(each) for each in events}))
            while sum(size for size, _ in naive) > most:
                naive.popleft()
        if is_asked:
            known = {identity: record for _, events in naive for identity, record in events.items()}
            for identity in [*seen, ("a", 999), ("c", 1)]:
                copies.begin()
                found = copies.find(*identity)
                assert (found[2] if found else None) == known.get(identity)
        copies.check()
        assert len(copies) == len(naive)


def test_runs_that_cannot_be_right_are_not_believed() -> None:
    copies = Copies()
    events = [reading("a", 5), reading("a", 9)]
    copies.keep(BlockHead("Reading", 2), encode(events), [("a", -(2**62), 2**62)])
    copies.keep(BlockHead("Reading", 2), b"\x92 no event at all")
    assert copies.find("a", 9) == ("Reading", 10, encode(events[1]))
    assert copies.find("a", 7) is None


def test_columns_whose_sources_have_no_name_are_not_believed() -> None:
    copies = Copies()
    table = Block.from_events(Reading, [reading("a", 5), reading("b", 9)])
    ((head, block),) = encode_delta("Reading", Delta(table), fewest=1)
    before, after = block.rsplit(bytes([0, 0, 0, 0, 1, 0, 0, 0]), 1)  # the numbers of the sources are the last column
    copies.keep(head, before + bytes([0, 0, 0, 0, 7, 0, 0, 0]) + after)
    assert copies.find("b", 9) is None
    copies.check()


def test_who_hops_among_old_blocks_has_only_so_much_read() -> None:
    copies = Copies()
    for first in range(40):
        event = reading("a", first * 1_000, "x" * 100_000)
        copies.keep(BlockHead("Reading", 1), encode([event]), [("a", event.id, event.id)])
    copies.begin()
    found = [copies.find("a", number * 1_000) is not None for number in range(40)]
    assert sum(found) == found.index(False) == -(-MOST_READ // 100_540)
    copies.begin()
    assert copies.find("a", 39_000) is not None, "the next block is looked up again"


def test_a_block_without_the_event_is_not_read() -> None:
    copies = Copies()
    for number in range(32):  # all in one bucket, and three times as many bytes as may be read
        event = reading("a", number, "x" * 100_000)
        copies.keep(BlockHead("Reading", 1), encode([event]), [("a", number, number)])
    copies.begin()
    assert copies.find("a", 31) is not None
    assert copies.find("b", 31) is None
    assert copies.find("a", 0) is not None
