"""A detector whose state cannot be stored, or whose results are worth nothing, is set aside; the node and all others
continue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from slackline import END, Detector, Event, EventTypes, Insert, Node, Publisher, Subscriber, run

from middleware.model.errors import DetectorError
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.report import Reporter
from middleware.runtime.storage.late_ledger import Ledger, read_ledger
from middleware.runtime.storage.store import Store


class Tick(Event):
    x: int


class Good(Event):
    x: int


class Bad(Event):
    x: int


class Above(Event):
    x: int


class Sums(Detector):
    subscribes, publishes = (Tick,), (Good,)

    def __init__(self) -> None:
        self.sum = 0

    def on_event(self, event: Tick) -> Good:
        self.sum += event.x
        return Good(self.sum, ts=event.ts)


class Locks(Detector):
    """From the third event on its state has a lock, which no checkpoint takes."""

    subscribes, publishes = (Tick,), (Bad,)
    mended = False

    def __init__(self) -> None:
        self.sum = 0

    def on_event(self, event: Tick) -> Bad:
        self.sum += event.x
        return Bad(self.sum, ts=event.ts)

    def snapshot(self) -> Any:
        return self.sum, _LOCK if self.sum > 3 and not self.mended else None

    def restore(self, state: Any) -> None:
        self.sum = state[0]


class KeyedLocks(Locks):
    key = staticmethod(lambda event: event.x % 2)


class Aboves(Detector):
    subscribes, publishes = (Bad,), (Above,)

    def on_event(self, event: Bad) -> Above:
        return Above(event.x, ts=event.ts)


class Shares(Locks):
    """It changes what its instances share, from the third event on."""

    met: ClassVar[list[int]] = []

    def on_event(self, event: Tick) -> Bad:
        self.sum += event.x
        if event.x > 2:
            self.met.append(event.x)
        return Bad(self.sum, ts=event.ts)

    def snapshot(self) -> Any:
        return (self.sum,)


class Batches(Detector):
    """It raises at batches of two events and more."""

    subscribes, publishes = (Tick,), (Bad,)

    def on_batch(self, events: Any) -> Iterator[tuple[int, Bad]]:
        if len(events) > 1:
            raise ValueError("more than one")
        yield 0, Bad(events[0].x, ts=events[0].ts)


_LOCK = threading.Lock()
TYPES = EventTypes([Tick, Good, Bad, Above])


def ticks(first: int, last: int) -> list[Event]:
    return [Tick(n, ts=n, id=n, source="s") for n in range(first, last + 1)]


@contextmanager
def running(folder: Path | None, detectors: list[Detector], rebuild: bool = False) -> Iterator[Node]:
    """A node in a thread, whose loop must not raise."""
    store = Store(folder, "hub") if folder is not None else None
    ledger = Ledger("hub", folder) if folder is not None else None
    processor = Reporter(Hierarchy(detectors))
    node = Node("hub", "tcp://127.0.0.1:*", processor=processor, types=TYPES, store=store, ledger=ledger, rebuild=rebuild)
    errors: list[Exception] = []

    def loop() -> None:
        try:
            node.run()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield node
    finally:
        node.stop()
        thread.join()
    assert not errors


def feed(node: Node, events: list[Event], upto: int, good: int, bad: int) -> tuple[list[int], list[int]]:
    """Publish events and wait for so many finals of each kind; returns them."""
    got: dict[type[Event], list[int]] = {Good: [], Bad: []}
    with ExitStack() as stack:
        readers = {kind: Subscriber(node.address, kind, consistency="final", resume=kind.__name__) for kind in got}
        for reader in readers.values():
            stack.enter_context(reader).wait_ready(20)
        with Publisher(node.address, types=[Tick]) as publisher:
            publisher.publish(events)
            publisher.advance([Tick], upto)
            publisher.flush(20)
        for kind, count in ((Good, good), (Bad, bad)):
            reader = readers[kind]
            while len(got[kind]) < count:
                got[kind] += [change.event.x for change in reader.receive(20) if isinstance(change, Insert)]
            reader.commit()
    return got[Good], got[Bad]


def halted(node: Node) -> dict[str, str]:
    status = node.status(20)
    assert status is not None
    return {unit.detector: unit.halted for unit in status.units if unit.halted}


@pytest.mark.parametrize("bad", [Locks, KeyedLocks])
def test_a_detector_whose_state_cannot_be_stored_is_set_aside_at_the_checkpoint(tmp_path: Path, bad: type[Locks]) -> None:
    def detectors() -> list[Detector]:
        return [Sums(), bad(), Aboves()]

    whole = [event.x for event in run(ticks(1, 7), [bad()]).finals[bad.__name__]]
    with running(tmp_path, detectors()) as node:
        assert feed(node, ticks(1, 2), 2, 2, 2) == ([1, 3], whole[:2])
    with running(tmp_path, detectors()) as node:  # it was saved while it could be
        assert not halted(node)
        assert feed(node, ticks(3, 6), 5, 3, 3) == ([6, 10, 15], whole[2:5])
    with running(tmp_path, detectors()) as node:  # at the end of that life it could not
        stopped = halted(node)
        assert stopped.keys() == {bad.__name__, "Aboves"}
        assert "cannot pickle" in stopped[bad.__name__]
        assert feed(node, ticks(7, 7), END, 2, 0) == ([21, 28], [])
    assert {entry.id for entry in read_ledger(tmp_path) if entry.detector == bad.__name__} == {7}
    with running(tmp_path, detectors()) as node:
        assert halted(node).keys() == {bad.__name__, "Aboves"}


def test_a_detector_that_was_set_aside_comes_back_with_a_rebuild_once_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, [Sums(), Locks()]) as node:
        assert feed(node, ticks(1, 4), 3, 3, 3) == ([1, 3, 6], [1, 3, 6])
    monkeypatch.setattr(Locks, "mended", True)
    with running(tmp_path, [Sums(), Locks()], rebuild=True) as node:
        assert not halted(node)
        assert feed(node, ticks(5, 5), END, 2, 2) == ([10, 15], [10, 15])


@pytest.mark.parametrize("bad", [Shares, Batches])
def test_a_detector_whose_results_are_worth_nothing_is_set_aside(tmp_path: Path, bad: type[Detector]) -> None:
    with running(tmp_path, [Sums(), bad(), Aboves()]) as node:
        good, _ = feed(node, ticks(1, 300), 300, 300, 0)
        assert good[-1] == sum(range(301))
        assert halted(node).keys() == {bad.__name__, "Aboves"}
    with running(tmp_path, [Sums(), bad(), Aboves()]) as node:
        assert halted(node).keys() == {bad.__name__, "Aboves"}
        assert feed(node, ticks(301, 301), END, 1, 0) == ([sum(range(302))], [])


@pytest.mark.parametrize(
    ("bad", "says"), [(Shares, "changes what all its instances share"), (Batches, "raises at some batches")]
)
def test_a_run_ends_with_what_is_wrong_with_it(bad: type[Detector], says: str) -> None:
    with pytest.raises(DetectorError, match=says):
        run(ticks(1, 300), [bad()])
