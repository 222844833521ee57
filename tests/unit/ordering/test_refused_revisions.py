"""A revision that came too late, or from a publisher that is wrong, is skipped as a whole, and so is what rests on it."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.window import COUNT, Tumbling, Windows
from middleware.model.change import Delta, Insert, Retract, Revise
from middleware.model.detector import Detector
from middleware.model.event import END, IDENTITY, Event, Identity
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.ordering.unit import Unit


class Bid(Event):
    lot: int
    price: int


class Deal(Event):
    price: int


class Held(Event):
    start: int
    end: int
    count: int


class Deals(Detector):
    subscribes, publishes = (Bid,), (Deal,)

    def on_event(self, event: Bid) -> Deal:
        return Deal(event.price, ts=event.ts)


class DealsOfLot(Deals):
    key = staticmethod(lambda event: 10 // event.lot)  # lot 0 has none


UNITS: dict[str, Callable[[], Detector]] = {
    "one lane": Deals,
    "lanes": DealsOfLot,
    "windows": lambda: Windows(Bid, Tumbling(10), {"count": COUNT}, result=Held),
}


def bid(ts: int, number: int = 1, lot: int = 1, price: int = 7) -> Bid:
    return Bid(lot, price, ts=ts, id=number, source="p")


def a_unit(kind: str) -> Unit:
    return unit_for(kind, UNITS[kind](), 1, Policies(lateness=Lateness(1, 10)))


def net(deltas: list[Delta]) -> dict[Identity, Event]:
    there: dict[Identity, Event] = {}
    for delta in deltas:
        for change in delta.changes():
            match change:
                case Insert(event):
                    assert there.setdefault(IDENTITY(event), event) is event
                case Revise(event, old):
                    assert there[IDENTITY(old)] == old
                    there[IDENTITY(event)] = event
                case Retract(event):
                    assert there.pop(IDENTITY(event)) == event
    return there


@pytest.mark.parametrize("kind", UNITS)
def test_what_rests_on_a_late_revision_is_late(kind: str) -> None:
    unit = a_unit(kind)
    first, moved, again = bid(50), bid(150), bid(160)
    out = unit.push(Delta([first, bid(100, 2)]), 100)
    assert unit.final == 90
    out += unit.push(Delta(revises=[(first, moved)]), 100)
    restored = a_unit(kind)
    restored.restore(pickle.loads(pickle.dumps(unit.state())))
    for each in (unit, restored):
        rest = each.push(Delta(revises=[(moved, again)]), 100)
        rest += each.push(Delta(retracts=[again]), 100)
        rest += each.push(Delta([bid(200, 3)]), END, END, is_open=False)
        assert [(entry.change, entry.event.ts) for entry in each.late] == [("revise", 150), ("revise", 160), ("retract", 160)]
        assert sorted(event.ts for event in net(out + rest).values()) == [50, 100, 200]
        assert not each.state()["_refused"], "forgotten, once it could not be taken for something new"
        each.check()


@pytest.mark.parametrize("kind", ["one lane", "lanes"])
def test_a_publisher_that_is_wrong_about_what_it_revises_changes_nothing(kind: str) -> None:
    unit = a_unit(kind)
    out = unit.push(Delta([bid(50), bid(100, 2), bid(101, 4, lot=0)]), 100)
    out += unit.push(Delta(revises=[(bid(151), bid(160)), (bid(101, 4, lot=0), bid(102, 4, lot=2))]), 100)
    out += unit.push(Delta([bid(200, 3)]), END, END, is_open=False)
    assert [(entry.change, entry.event.ts) for entry in unit.late] == [("revise", 160)]
    assert sorted(event.ts for event in net(out).values()) == [50, 100, 102, 200]


@given(
    st.sampled_from(sorted(UNITS)),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 2), st.sampled_from("iiirrd")), max_size=60),
)
def test_however_publishers_revise_no_result_stands_twice(kind: str, steps: list[tuple[int, int, int, str]]) -> None:
    """An honest publisher goes by its own messages, and does not know which came too late."""
    unit, published = a_unit(kind), dict[int, Bid]()
    out: list[Delta] = []
    for ts, (number, back, lot, what) in enumerate(steps):
        event = bid(3 * ts - back // 3, number, lot + 1)
        if what == "i" and number not in published:
            out += unit.push(Delta([event]), 3 * ts)
        elif what == "r" and published.get(number):
            out += unit.push(Delta(revises=[(published[number], event)]), 3 * ts)
        elif what == "d" and published.get(number):
            out += unit.push(Delta(retracts=[published[number]]), 3 * ts)
            break
        else:
            continue
        published[number] = event
    out += unit.push(Delta(), END, END, is_open=False)
    there = net(out)
    if kind != "windows":
        assert len(there) <= len(published)
    unit.check()
