"""Detectors that are added to a node of a mesh with logs, or move to another: finals are right, or it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slackline import END, Detector, Event
from slackline_benchmarks.servers import free_port
from test_network import DEADLINE, collect, node_thread, poll_until

from middleware.model.errors import StateError
from middleware.model.event import EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


class Tick(Event):
    number: int


class Up(Event):
    number: int


class Mid(Event):
    number: int


class Out(Event):
    ups: int
    mids: int


class Ups(Detector):
    subscribes, publishes = (Tick,), (Up,)

    def on_event(self, event: Tick) -> Up:
        return Up(event.number, ts=event.ts)


class Mids(Detector):
    subscribes, publishes = (Up,), (Mid,)

    def on_event(self, event: Up) -> Mid:
        return Mid(event.number, ts=event.ts)


class Outs(Detector):
    subscribes, publishes = (Up, Mid), (Out,)

    def __init__(self) -> None:
        self.ups = self.mids = 0

    def on_event(self, event: Up | Mid) -> Out | None:
        if isinstance(event, Up):
            self.ups += 1
            return None
        self.mids += 1
        return Out(self.ups, self.mids, ts=event.ts)


TYPES = EventTypes([Tick, Up, Mid, Out])
TICKS = [Tick(number, ts=number * 1_000, id=number, source="s") for number in range(1, 51)]


class Mesh:
    """Two nodes with logs, a and b, which can be started again with other detectors."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._addresses = {name: f"tcp://127.0.0.1:{free_port()}" for name in "ab"}

    @contextmanager
    def node(self, name: str, all_of_them: list[Detector], here: str, rebuild: bool = False) -> Iterator[Node]:
        processor = Hierarchy(all_of_them, here=here.split())
        store, address = Store(self._folder / name, name), self._addresses[name]
        with node_thread(name, address, self._addresses, processor, TYPES, store=store, rebuild=rebuild) as node:
            yield node


def test_a_new_detector_over_what_a_peer_has_ended_comes_to_its_end(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path)
    before: list[Detector] = [Ups(), Outs()]
    with mesh.node("a", before, "Ups") as a:
        with (
            mesh.node("b", before, "Outs") as b,
            Publisher(a.address, types=[Tick]) as publisher,
            Subscriber(b.address, Up, consistency="final") as ups,
            Subscriber(b.address, Mid, consistency="final", resume="mids") as mids,
        ):
            ups.wait_ready(DEADLINE)
            mids.wait_ready(DEADLINE)
            publisher.publish(TICKS)
            publisher.advance(Tick, END)
            publisher.flush(DEADLINE)
            assert len(collect(ups, 50)) == 50
        with (
            mesh.node("b", [Ups(), Mids(), Outs()], "Mids Outs", rebuild=True) as b,
            Subscriber(b.address, Mid, consistency="final", resume="mids") as mids,
        ):
            assert [event.number for event in collect(mids, 50)] == list(range(1, 51))  # type: ignore[attr-defined]
            poll_until(lambda: mids.has_ended or (bool(mids.receive(0.1)) and mids.has_ended), "there is an end")


def test_a_detector_does_not_move_to_a_node_whose_readers_have_had_its_results(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path)
    all_of_them: list[Detector] = [Ups(), Mids(), Outs()]
    with (
        mesh.node("a", all_of_them, "Ups Mids") as a,
        mesh.node("b", all_of_them, "Outs") as b,
        Publisher(a.address, types=[Tick]) as publisher,
        Subscriber(b.address, Out) as outs,
    ):
        outs.wait_ready(DEADLINE)
        publisher.publish(TICKS)
        publisher.flush(DEADLINE)
        collect(outs, 50)
    with (
        pytest.raises(StateError, match=r"Mids ran on another node up to now.*Let it run where it"),
        mesh.node("b", all_of_them, "Mids Outs", rebuild=True),
    ):
        pass
    with mesh.node("b", all_of_them, "Outs"):  # its log is as it was
        pass
