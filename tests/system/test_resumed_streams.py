"""``slackline pub --end`` twice at running nodes: the second file resumes streams that the first ended, and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_network import DEADLINE, node_thread
from test_network_cli import slackline

from detectors.window import SUM, Tumbling, Windows
from middleware.model.change import Insert
from middleware.model.detector import Detector
from middleware.model.event import ORDER, Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Subscriber
from middleware.runtime.cluster import free_addresses
from middleware.runtime.engine import run
from middleware.runtime.report import Reporter
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


class Amount(Event):
    value: int


class Balance(Event):
    total: int


class Spent(Event):
    start: int
    end: int
    total: int


class Balances(Detector):
    """All that has come so far: what it knows from before the end is in what comes after."""

    subscribes, publishes = (Amount,), (Balance,)

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, amount: Amount) -> Balance:
        self.total += amount.value
        return Balance(self.total, ts=amount.ts)


DETECTORS = {"Balances": Balances(), "Sums": Windows(Amount, Tumbling(10), {"total": (SUM, "value")}, result=Spent)}
TYPES = EventTypes([Amount, Balance, Spent])


@contextmanager
def nodes(places: dict[str, list[str]], addresses: dict[str, str], folder: Path | None) -> Iterator[str]:
    """Nodes that run the detectors; the address of the last."""
    with ExitStack() as stack:
        for name, here in places.items():
            ledger = Ledger(name, folder / name if folder is not None else None)
            store = Store(folder / name, name) if folder is not None else None
            reporter = Reporter(Hierarchy(DETECTORS, here))
            peers = {other: address for other, address in addresses.items() if other != name}
            stack.enter_context(
                node_thread(name, addresses[name], peers, reporter, TYPES, ledger=ledger, store=store)  # type: ignore[arg-type]
            )
        yield addresses[name]


def amounts(times: range) -> list[Amount]:
    return [Amount(ts % 7, ts=ts, id=ts, source="till") for ts in times]


def published(folder: Path, address: str, events: list[Amount]) -> dict[str, Any]:
    """What ``slackline pub --end`` says of these."""
    records = [{"type": "Amount", "value": e.value, "ts": e.ts, "id": e.id, "source": e.source} for e in events]
    (folder / "in.jsonl").write_text("\n".join(map(json.dumps, records)))
    arguments = ("in.jsonl", "--types-from", "test_resumed_streams", "--end", "--json", "out.json")
    process = slackline(folder, "pub", address, *arguments)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode in (0, 1), errors
    return json.loads((folder / "out.json").read_text())


def to_the_end(subscriber: Subscriber) -> list[Event]:
    """The finals up to END."""
    finals: list[Event] = []
    while not subscriber.has_ended:
        finals += [change.event for change in subscriber.receive(DEADLINE) if isinstance(change, Insert)]
    return finals


@pytest.mark.parametrize(
    ("places", "is_kept", "restarts"),
    [
        ({"a": ["Balances", "Sums"]}, False, False),
        ({"a": ["Balances", "Sums"]}, True, True),
        ({"a": ["Balances"], "b": ["Sums"]}, False, False),
        ({"a": ["Balances"], "b": ["Sums"]}, True, True),
    ],
    ids=["memory", "disk and a restart", "two nodes", "two nodes, disk and a restart"],
)
def test_a_second_file_resumes_behind_the_first(
    tmp_path: Path, places: dict[str, list[str]], is_kept: bool, restarts: bool
) -> None:
    addresses = dict(zip(places, free_addresses(len(places)), strict=True))
    folder = tmp_path if is_kept else None
    first, second = amounts(range(1, 38)), amounts(range(30, 90))
    with ExitStack() as stack:
        running = stack.enter_context(ExitStack())
        address = running.enter_context(nodes(places, addresses, folder))
        subscriber = stack.enter_context(Subscriber(address, [Balance, Spent], consistency="final", event_types=TYPES))
        subscriber.wait_ready(DEADLINE)
        assert published(tmp_path, address, first)["taken"] == len(first)
        finals = to_the_end(subscriber)
        assert len(finals) == len(first) + 4 and finals[-1].ts == 40
        if restarts:
            running.close()
            running.enter_context(nodes(places, addresses, folder))
        receipt = published(tmp_path, next(iter(addresses.values())), second)
        assert receipt["repeats"] == 8, "what was there before"
        assert receipt["rejected"] == {"late for what was promised": 3}, "38 to 40: a window that ends at 40 was final"
        while finals[-1].ts < 90:
            finals += [change.event for change in subscriber.receive(DEADLINE) if isinstance(change, Insert)]
        assert to_the_end(subscriber) == []
        oracle = run([*first, *(each for each in second if each.ts > 40)], DETECTORS).finals
        assert finals == sorted([event for events in oracle.values() for event in events], key=ORDER)
        assert published(tmp_path, address, amounts(range(100, 120)))["taken"] == 20, "and so on"
        while finals[-1].ts < 120:
            finals += [change.event for change in subscriber.receive(DEADLINE) if isinstance(change, Insert)]
        assert subscriber.gaps == 0 and not subscriber.statistics().violations
