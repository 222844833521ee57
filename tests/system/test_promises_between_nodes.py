"""What real nodes promise each other: publishers end, leave and come back at either, and none of their events is late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slackline import END, Detector, Event, EventTypes, Insert, Node, Publisher, Subscriber

from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.cluster import free_addresses
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


class Amount(Event):
    value: int


class Total(Event):
    value: int


class Totals(Detector):
    subscribes, publishes = (Amount,), (Total,)

    def __init__(self) -> None:
        self.value = 0

    def on_event(self, event: Event) -> Total:
        assert isinstance(event, Amount)
        self.value += event.value
        return Total(self.value, ts=event.ts)


@contextmanager
def two_nodes(folder: Path | None, at: str = "a") -> Iterator[dict[str, str]]:
    """The addresses of nodes a and b, with the detector at one; with logs if there is a folder."""
    addresses = dict(zip("ab", free_addresses(2), strict=True))
    running = []
    for name, address in addresses.items():
        others = {other: where for other, where in addresses.items() if other != name}
        here = Hierarchy({"Totals": Totals()}, ["Totals"] if name == at else [])
        store = Store(folder / name, name) if folder is not None else None
        node = Node(name, address, others, here, EventTypes([Amount, Total]), store=store)
        thread = threading.Thread(target=node.run)
        thread.start()
        running.append((node, thread))
    try:
        yield addresses
    finally:
        for node, thread in running:
            node.stop(SECOND)
            thread.join()


def amount(value: int, ts: int, source: str) -> Amount:
    return Amount(value, ts=ts, id=ts, source=source)


def totals(subscriber: Subscriber, count: int) -> list[int]:
    """The next finals; fewer if none comes for half a minute."""
    found: list[int] = []
    while len(found) < count and (changes := subscriber.receive(30)):
        found += [change.event.value for change in changes if isinstance(change, Insert)]
    return found


@pytest.fixture(params=["memory", "logs"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "logs" else None


def test_the_end_of_one_publisher_says_nothing_of_the_next_one_there(folder: Path | None) -> None:
    with (
        two_nodes(folder) as at,
        Subscriber(at["a"], Total, consistency="final") as reader,
        Publisher(at["a"], types=[Amount]) as first,
    ):
        reader.wait_ready(30)
        first.advance([Amount], 5)
        first.flush(30)
        with Publisher(at["b"], types=[Amount]) as before:
            before.publish([amount(1, 10, "before")])
            before.advance([Amount], END)
            before.flush(30)
        with Publisher(at["b"], types=[Amount]) as after:
            after.advance([Amount], 100)
            after.flush(30)
            first.publish([amount(10, 1000, "first")])
            first.advance([Amount], 1000)
            first.flush(30)
            after.publish([amount(100, 500, "after")])
            assert not after.flush(30).rejected
            for each in (after, first):
                each.advance([Amount], END)
                each.flush(30)
            assert totals(reader, 3) == [1, 101, 111]


def test_nothing_is_final_by_the_clock_once_all_have_flushed_a_promise() -> None:
    with (
        two_nodes(None) as at,
        Subscriber(at["a"], Total, consistency="final") as reader,
        Publisher(at["a"], types=[Amount]) as near,
        Publisher(at["b"], types=[Amount]) as far,
    ):
        reader.wait_ready(30)
        for each in (near, far):
            each.advance([Amount], 0)
            each.flush(30)
        near.publish([amount(1, 10 * SECOND, "near")])
        near.flush(30)
        far.publish([amount(10, 5 * SECOND, "far")])
        for each in (near, far):
            each.advance([Amount], END)
        assert totals(reader, 2) == [10, 11]


@pytest.mark.parametrize("where", ["a", "b"])
def test_publishers_that_take_turns_to_end_lose_nothing(where: str, folder: Path | None) -> None:
    other = "b" if where == "a" else "a"
    with two_nodes(folder, where) as at, Subscriber(at["a"], Total, consistency="final", patience=60) as reader:
        reader.wait_ready(30)
        for turn in range(4):
            start = 1000 * turn + 100
            with (
                Publisher(at[where], types=[Amount]) as near,
                Publisher(at[other], types=[Amount]) as far,
            ):
                for each in (near, far):
                    each.advance([Amount], start)
                    each.flush(30)
                far.publish([amount(1, start + 10, "far")])
                far.flush(30)
                near.publish([amount(1, start + 20, "near")])
                near.advance([Amount], END)
                near.flush(30)
                far.publish([amount(1, start + 15, "far"), amount(1, start + 30, "far")])
                far.advance([Amount], END)
                assert not far.flush(30).rejected
                found = totals(reader, 4)
                assert found == [4 * turn + place for place in (1, 2, 3, 4)]
