"""A killed node whose files are damaged in every way: its readers have all finals once each, or get a gap."""

from __future__ import annotations

import multiprocessing as mp
import os
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
from test_network import DEADLINE, poll_until

from middleware.link.codec import SinkPosition
from middleware.model.change import Insert
from middleware.model.detector import Detector
from middleware.model.errors import NetworkError, StateError
from middleware.model.event import END, ORDER, Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter
from middleware.runtime.storage.store import Retention, Store
from middleware.testing.oracle import oracle

pytestmark = pytest.mark.system

EVENTS, MORE, BATCH = 600, 300, 20
LOG, WAL = "log.sqlite", "log.sqlite-wal"


class Reading(Event):
    value: int


class Total(Event):
    total: int


class Tally(Detector):
    """What it makes of an event rests on all those before it."""

    subscribes, publishes = (Reading,), (Total,)

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Event) -> Event:
        assert isinstance(event, Reading)
        self.total += event.value
        return Total(self.total, ts=event.ts)


TYPES = EventTypes([Reading, Total])


def run_node(pipe: Pipe, state: Path, bind: str) -> None:
    keep = Retention(behind=20_000)  # a few checkpoints
    try:
        node = Node("a", bind, None, Reporter(Hierarchy([Tally()])), TYPES, store=Store(state, "a", keep))
    except StateError as error:
        pipe.send((None, str(error)))
        return
    pipe.send((node.address, ""))
    node.run()


class Life:
    """One life of a node: ``address``, or why it ``refused``."""

    def __init__(self, state: Path, bind: str = "tcp://127.0.0.1:*") -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: Any = context.Process(target=run_node, args=(theirs, state, bind), daemon=True)
        self._process.start()
        self.address, self.refused = self._pipe.recv()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def readings(first: int, last: int) -> list[Event]:
    return [Reading(number % 7, ts=number * 1_000, id=number, source="s") for number in range(first, last + 1)]


class Reader(threading.Thread):
    """Takes finals until the stream ends, or it has ``most``."""

    def __init__(self, address: str, name: str, after: SinkPosition | None = None, most: int | None = None) -> None:
        super().__init__(daemon=True)
        self.finals: list[Event] = []
        self._most = most
        self._subscriber = Subscriber(
            address, Total, event_types=TYPES, consistency="final", resume=name, after=after, patience=DEADLINE
        )
        if after is None:
            self._subscriber.wait_ready(DEADLINE)
        self.start()

    def run(self) -> None:
        try:
            for change in self._subscriber:
                if isinstance(change, Insert):
                    self.finals.append(change.event)
                    if self._most is not None and len(self.finals) >= self._most:
                        return
        except NetworkError:  # it was closed
            return

    @property
    def is_told(self) -> bool:
        return "interruption" in self._subscriber.statistics().drops

    def close(self) -> None:
        self._subscriber.close()
        self.join(DEADLINE)


def cut(state: Path, rng: random.Random) -> None:
    os.truncate(state / WAL, rng.randrange((state / WAL).stat().st_size))


def emptied(state: Path, rng: random.Random) -> None:
    os.truncate(state / WAL, 0)


def removed(*names: str) -> Callable[[Path, random.Random], None]:
    def remove(state: Path, rng: random.Random) -> None:
        for name in names:
            (state / name).unlink()

    return remove


def flipped(name: str) -> Callable[[Path, random.Random], None]:
    def flip(state: Path, rng: random.Random) -> None:
        held = bytearray((state / name).read_bytes())
        held[rng.randrange(len(held))] ^= 1 << rng.randrange(8)
        (state / name).write_bytes(held)

    return flip


def gone(state: Path, rng: random.Random) -> None:
    shutil.rmtree(state)


def older(state: Path, rng: random.Random) -> None:
    shutil.rmtree(state)
    shutil.copytree(state.with_name("older"), state)


def untouched(state: Path, rng: random.Random) -> None:
    """Nothing but a kill."""


WAYS: dict[str, tuple[Callable[[Path, random.Random], None], int]] = {
    "untouched": (untouched, 1),
    "wal cut": (cut, 2),
    "wal emptied": (emptied, 1),
    "wal removed": (removed(WAL), 1),
    "wal flipped": (flipped(WAL), 2),
    "log flipped": (flipped(LOG), 2),
    "log removed": (removed(LOG), 1),
    "both removed": (removed(LOG, WAL), 1),
    "all removed": (gone, 1),
    "older copy": (older, 1),
}


@pytest.mark.parametrize(("way", "seed"), [(way, seed) for way, (_, seeds) in WAYS.items() for seed in range(seeds)])
def test_finals_are_complete_or_readers_get_a_gap(tmp_path: Path, way: str, seed: int) -> None:
    rng, state = random.Random(f"{way} {seed}"), tmp_path / "state"
    life = Life(state)
    lives = [life]
    try:
        steady = Reader(life.address, "steady")
        first = Reader(life.address, "mortal", most=rng.randrange(200, 500))
        with closing(steady), closing(Publisher(life.address, types=[Reading], patience=DEADLINE)) as publisher:
            for start in range(1, EVENTS, BATCH):
                publisher.publish(readings(start, start + BATCH - 1))
                publisher.advance(Reading, (start + BATCH - 1) * 1_000)
                publisher.flush(DEADLINE)
                if start == 301:
                    shutil.copytree(state, state.with_name("older"))
            poll_until(lambda: len(steady.finals) == EVENTS, "all is read")
            first.join(DEADLINE)
            first.close()
            life.kill()
            WAYS[way][0](state, rng)
            lives.append(Life(state, life.address))
            if lives[-1].refused:
                assert way == "log flipped", "what is only shorter, or gone, keeps no node from starting"
                assert LOG in lives[-1].refused and "move the folder away" in lives[-1].refused
                return
            if way == "older copy":  # which only a reader that has seen more can show
                poll_until(lambda: steady.is_told, "a reader shows it")
            again = Reader(life.address, "mortal", after=ORDER(first.finals[-1]))
            with closing(again):
                for start in range(EVENTS + 1, EVENTS + MORE, BATCH):
                    publisher.publish(readings(start, start + BATCH - 1))
                    publisher.advance(Reading, (start + BATCH - 1) * 1_000)
                publisher.advance(Reading, END)
                publisher.flush(DEADLINE)
                steady.join(DEADLINE)
                again.join(DEADLINE)
                assert not steady.is_alive() and not again.is_alive(), "the streams end"
                gaps = [steady.is_told, again.is_told]
        (expected,) = oracle(readings(1, EVENTS + MORE), [Tally()]).values()
        assert steady.finals[:EVENTS] == expected[:EVENTS], "what was final stays"
        for is_told, finals in zip(gaps, (steady.finals, first.finals + again.finals), strict=True):
            stamps = [event.ts for event in finals]
            assert stamps == sorted(set(stamps)), "each is there once, in order"
            assert is_told or finals == expected
        if way == "untouched":
            assert gaps == [False, False]
        elif way not in ("wal cut", "wal flipped", "log flipped"):  # which may meet what is not used
            assert gaps == [True, True]
    finally:
        for each in lives:
            each.kill()
