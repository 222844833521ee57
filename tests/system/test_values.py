"""Real nodes: a value is the same where it was made, on another node, and in ``run``; what no wire carries is listed."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from slackline import END, Detector, Event, Insert, run
from test_network import DEADLINE, node_thread

from detectors.window import CONCAT, LAST, MAX, MAXCOUNT, MIN, RANGE, SUM, Tumbling, Windows
from middleware.model.event import EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.cluster import free_addresses
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter
from middleware.runtime.storage.late_ledger import Ledger, read_ledger

pytestmark = pytest.mark.system


class Gear(enum.Enum):
    LOW = "low"


class Reading(msgspec.Struct, frozen=True):
    x: float
    notes: Any = None


@dataclass
class Place:
    x: float


class Pair(NamedTuple):
    x: float


class Raw(Event):
    number: int
    price: Decimal
    day: date
    gear: Gear
    nested: dict[str, float]
    rows: list[list[float]]
    reading: Reading
    loose: Any


class Derived(Event):
    reading: Reading
    place: Place
    pair: Pair
    loose: Any


class Text(Event):
    text: str


class Product(Event):
    number: int
    text: str = ""
    loose: Any = None


class Count(Event):
    products: int


LOOSE = [(1, 2), {"b", "a", "c"}, date(2024, 1, 2), Decimal("0.10"), {"a": (1,)}, Reading(1, {2}), Pair(1), Gear.LOW, b"\0"]
AGGREGATES = {"all": (CONCAT, "number"), "least": (MIN, "price"), "most": (MAXCOUNT, "price"), "span": (RANGE, "day")}
WINDOWS = Windows(Raw, Tumbling(100), AGGREGATES | {"day": (MAX, "day"), "gear": (LAST, "gear")}, name="W")  # type: ignore[arg-type]


class Derives(Detector):
    subscribes, publishes = (Raw,), (Derived,)

    def on_event(self, event: Raw) -> Derived:
        return Derived(Reading(1), Place(1), Pair(1), LOOSE[event.number], ts=event.ts)


class Tells(Detector):
    subscribes, publishes = (Raw, Derived, WINDOWS.result), (Text,)

    def on_event(self, event: Event) -> Text:
        values = msgspec.structs.astuple(event)[:-4]
        return Text(repr(values), ts=event.ts)


class Products(Detector):
    """A product that grows beyond 64 bits, a text that was decoded badly, and an object."""

    subscribes, publishes = (Raw,), (Product,)

    def on_event(self, event: Raw) -> Product:
        odd = {2: ("\ud800", None), 4: ("", object()), 5: ("", {"a": ["\udcff"]}), 6: ("x" * 2**23, None)}
        text, loose = odd.get(event.number, ("", None))
        return Product(10 ** (10 * event.number) if event.number in (1, 3) else 0, text, loose, ts=event.ts)


class Counts(Detector):
    subscribes, publishes = (Product,), (Count,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Product) -> Count:
        self.count += 1
        return Count(self.count, ts=event.ts)


TYPES = EventTypes([Raw, Derived, Text, Product, Count, WINDOWS.result])


def raws() -> list[Raw]:
    return [
        Raw(at, Decimal(at), date(2024, 1, 1 + at), Gear.LOW, {"a": 1}, [[1]], Reading(1), loose, ts=at + 1, id=at, source="s")
        for at, loose in enumerate(LOOSE)
    ]


def finals(folder: Path, detectors: dict[str, Detector], places: dict[str, list[str]], kinds: Sequence[type]) -> list[Any]:
    """The finals of these types at the first of the nodes that run the detectors."""
    addresses = dict(zip(places, free_addresses(len(places)), strict=True))
    with ExitStack() as stack:
        for name, here in places.items():
            peers = {other: address for other, address in addresses.items() if other != name}
            reporter, ledger = Reporter(Hierarchy(detectors, here)), Ledger(name, folder / name)
            stack.enter_context(node_thread(name, addresses[name], peers, reporter, TYPES, ledger=ledger))
        address = addresses[next(iter(places))]
        with Subscriber(address, list(kinds), consistency="final") as reader, Publisher(address, types=[Raw]) as publisher:
            reader.wait_ready(DEADLINE)
            publisher.publish(raws())
            publisher.advance([Raw], END)
            return [change.event for change in reader if isinstance(change, Insert)]


@pytest.mark.parametrize("places", [{"a": ["W", "D", "T"]}, {"a": ["W", "D"], "b": ["T"]}], ids=["one node", "two nodes"])
def test_a_value_is_the_same_on_any_node_and_in_a_run(tmp_path: Path, places: dict[str, list[str]]) -> None:
    detectors: dict[str, Detector] = {"W": WINDOWS, "D": Derives(), "T": Tells()}
    expected = [event.text for event in run(raws(), detectors).finals["T"]]  # type: ignore[attr-defined]
    assert [event.text for event in finals(tmp_path, detectors, places, [Text])] == expected
    assert (
        "['a', 'b', 'c']" in str(expected)
        and "Decimal('8'), 1)" in str(expected)
        and "datetime.timedelta(days=8)" in str(expected)
    )


@pytest.mark.parametrize("places", [{"a": ["P", "C"]}, {"a": ["P"], "b": ["C"]}], ids=["one node", "two nodes"])
def test_what_no_wire_carries_is_a_failure_of_its_event_everywhere(tmp_path: Path, places: dict[str, list[str]]) -> None:
    detectors = {"P": Products(), "C": Counts()}
    found = run(raws(), detectors, failing="skip")
    got = finals(tmp_path, detectors, places, [Product, Count])
    assert [event for event in got if isinstance(event, Product)] == found.finals["P"]
    assert [event for event in got if isinstance(event, Count)] == found.finals["C"] and len(found.finals["C"]) == 4
    assert [failure.event.id for failure in found.failures["P"]] == [2, 3, 4, 5, 6]
    listed = {entry.id: entry.details for entry in read_ledger(tmp_path / "a")}
    assert listed.keys() == {2, 3, 4, 5, 6} and "a whole number beyond 64 bits" in listed[3]
    assert "surrogate" in listed[2] and "object" in listed[4] and "bytes" in listed[6]


def test_a_window_beyond_64_bits_is_listed_and_its_node_stays_up(tmp_path: Path) -> None:
    """The result itself is listed, which no ledger could encode: it ended the node."""

    def large(number: int) -> int:
        return 2**62 * number

    windows = Windows(Raw, Tumbling(5), {"total": (SUM.of(int), lambda event: large(event.number % 3))}, name="W")
    types = EventTypes([Raw, windows.result])
    reporter = Reporter(Hierarchy({"W": windows}))
    with node_thread("a", "tcp://127.0.0.1:*", None, reporter, types, ledger=Ledger("a", tmp_path)) as node:
        assert isinstance(node, Node)
        with (
            Subscriber(node.address, windows.result, consistency="final") as reader,
            Publisher(node.address, types=[Raw]) as publisher,
        ):
            reader.wait_ready(DEADLINE)
            publisher.publish(raws())
            publisher.advance([Raw], END)
            got: list[Any] = [change.event for change in reader if isinstance(change, Insert)]
    found = run(raws(), [windows], failing="skip")
    assert got == found.finals["W"]
    assert sorted(entry.ts for entry in read_ledger(tmp_path)) == sorted(each.event.ts for each in found.failures["W"]) != []


class Named(Event):
    names: dict[int, str]


class Names(Detector):
    subscribes, publishes = (Named,), (Text,)

    def on_event(self, event: Named) -> Text:
        return Text(str(event.names), ts=event.ts)


def test_an_event_whose_dict_has_numbers_as_keys_can_be_revised() -> None:
    """No digest was found for one, which ended the node."""
    first, second = (Named(names, ts=1, id=1, source="s") for names in ({1: "a", 2: "b"}, {2: "b", 1: "c"}))
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, Hierarchy([Names()]), EventTypes([Named, Text])) as node,
        Subscriber(node.address, [Text], consistency="final") as reader,
        Publisher(node.address, types=[Named]) as publisher,
    ):
        reader.wait_ready(DEADLINE)
        publisher.publish([first])
        publisher.revise(first, second)
        publisher.advance([Named], END)
        got: list[Any] = [change.event for change in reader if isinstance(change, Insert)]
    assert [event.text for event in got] == ["{2: 'b', 1: 'c'}"]
