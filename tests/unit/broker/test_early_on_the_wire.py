"""Results that come too early go in columns like others: their head says from which time on, and so how early each is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.checks import Ingress
from middleware.broker.merge import merged, retractions_first
from middleware.link.codec import BlockHead, Drops, EventCodec
from middleware.link.encoding import as_rows, encode_delta
from middleware.model.block.block import Block
from middleware.model.change import Delta, by_time, combined, some_inserts
from middleware.model.event import MAX_TS, MIN_TS, Event, EventTypes, Identity


class Hit(Event):
    peak: float


CODEC = EventCodec(EventTypes([Hit]))


def hits(times: Iterable[int], first: int = 0) -> list[Event]:
    return [Hit(n / 2, ts=ts, id=n, source="a", level=1) for n, ts in enumerate(times, first)]


def early(events: list[Event], since: int, **changes: list[object]) -> Delta:
    return Delta(Block.from_events(Hit, events), early=since, **changes)  # type: ignore[arg-type]


def k_plus(delta: Delta) -> dict[Identity, int]:
    """How early each new event of a delta comes."""
    return {(e.source, e.id): ahead for e, ahead in zip(delta.inserts, delta.k_plus or [0] * delta.inserted, strict=True)}


def sent(delta: Delta, fewest: int) -> list[tuple[BlockHead, Delta]]:
    drops = Drops()
    taken = [(head, CODEC.decode(head, block, drops)) for head, block in encode_delta("Hit", delta, fewest=fewest)]
    assert not drops
    return taken


times = st.lists(st.integers(1, 100), min_size=1, max_size=12)


@settings(deadline=None)
@given(times, st.integers(-5, 110), st.booleans(), st.sampled_from([1, 100]))
def test_how_early_events_come_survives_the_wire(given_times: list[int], since: int, has_changed: bool, fewest: int) -> None:
    old = hits([50, 60], 1_000)
    changes = {"revises": [(old[0], Hit(9.0, ts=51, id=1_000, source="a", level=1))], "retracts": [old[1]]}
    delta = early(hits(given_times), since, **(changes if has_changed else {}))  # type: ignore[arg-type]
    expected = {("a", n): max(0, ts - since) for n, ts in enumerate(given_times)}
    taken = sent(delta, fewest)
    assert [head.columns for head, _ in taken][-1] == (fewest == 1)
    whole = combined([part for _, part in taken])
    assert k_plus(whole) == expected == k_plus(delta)
    assert (whole.revises, whole.retracts) == ((changes["revises"], changes["retracts"]) if has_changed else ([], []))
    if fewest == 1:
        assert all(head.since == (since if max(given_times) > since else None) for head, _ in taken[-1:])
        rows = as_rows(*encode_delta("Hit", delta, fewest=1)[-1])
        assert k_plus(CODEC.decode(*rows, Drops())) == expected, "for a peer that takes no columns"


@pytest.mark.parametrize("since", [MIN_TS - 10, MIN_TS, 0, MAX_TS, MAX_TS + 10])
def test_times_far_apart_are_sent_as_they_can_be_encoded(since: int) -> None:
    events = hits([MIN_TS + 1, 5, MAX_TS - 1])
    whole = combined([part for _, part in sent(early(events, since), 1)])
    assert k_plus(whole) == {("a", n): max(0, event.ts - since) for n, event in enumerate(events)}


@settings(deadline=None)
@given(st.lists(st.tuples(times, st.integers(-5, 110), st.booleans()), min_size=1, max_size=4), st.data())
def test_it_stays_with_its_event_whatever_becomes_of_deltas(
    parts: list[tuple[list[int], int, bool]], data: st.DataObject
) -> None:
    deltas, expected = [], dict[Identity, int]()
    for number, (given_times, since, is_early) in enumerate(parts):
        events = hits(given_times, 100 * number)
        deltas.append(early(events, since) if is_early else Delta(Block.from_events(Hit, events)))
        expected |= {(e.source, e.id): max(0, e.ts - since) if is_early else 0 for e in events}
    chosen = data.draw(st.sampled_from(range(len(deltas))))
    one = deltas[chosen]
    own = {identity: expected[identity] for identity in k_plus(some_inserts(one, [True] * one.inserted))}
    mask = data.draw(st.lists(st.booleans(), min_size=one.inserted, max_size=one.inserted))
    assert k_plus(by_time(one)) == own
    assert k_plus(by_time(one).by_type()["Hit"]) == own
    assert k_plus(some_inserts(one, mask)).items() <= own.items()
    ((_, alone),) = retractions_first({"Hit": one})
    assert k_plus(alone) == own
    gone = one.inserts[0]
    left = merged([*deltas, Delta(retracts=[gone])])
    assert k_plus(left) == {identity: ahead for identity, ahead in expected.items() if identity != (gone.source, gone.id)}
    assert k_plus(combined(deltas)) == expected
    rows = combined(deltas)
    rows.new = rows.inserts
    assert k_plus(rows) == expected


def test_no_list_is_made_of_what_nobody_asks() -> None:
    delta = early(hits(range(1, 50)), 20)
    assert delta.is_early
    assert by_time(delta).by_type()["Hit"].early == 20
    assert [head.since for head, _ in encode_delta("Hit", delta, fewest=1)] == [20]
    assert delta.k_plus == [max(0, ts - 20) for ts in range(1, 50)]
    assert [head.since for head, _ in encode_delta("Hit", delta, fewest=1)] == [20], "asked or not"
    assert not early(hits(range(1, 20)), 20).is_early
    assert early(hits(range(1, 20)), 20).k_plus is None


def test_publishers_send_nothing_early() -> None:
    events = [Hit(1.0, ts=ts, id=ts, source="a") for ts in range(1, 9)]
    ((head, block),) = encode_delta("Hit", Delta(Block.from_events(Hit, events)), raw=True, fewest=1)
    head.since = 3
    ((kept, _, delta),) = Ingress(EventTypes([Hit]), CODEC, Drops()).admit(head, block, True)
    assert kept.since is None
    assert delta is not None
    assert delta.k_plus is None
