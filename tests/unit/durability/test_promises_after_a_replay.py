"""Promises to a node, and those that it has made, count in its next life as in this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from lives import Life
from test_upgrade import TYPES, Sums, Tick

from middleware.link.codec import Changes, Interest, encode
from middleware.link.frames import Role
from middleware.link.link import Link
from middleware.model.event import END


def life_in(folder: Path) -> Life:
    return Life(folder, TYPES, {"Sums": Sums()}, wants=["Sum"], raw=["Tick"])


def test_a_promise_that_came_behind_the_step_of_its_record_counts_in_the_next_life(tmp_path: Path) -> None:
    """Else the unit waits for ever for what has been promised already (world 20261400176)."""
    first = life_in(tmp_path)
    tick, publisher = Tick(1, ts=10, id=1, source="market"), first.links["publisher"]
    first.feed(tick)
    assert first.hierarchy is not None
    before = first.hierarchy.finals()
    publisher.send([encode(Changes(None, {"Tick": 12}, []))])
    for message in publisher.outbox:
        first.broker.receive(publisher.name, message, first.now)
    publisher.outbox.clear()
    batch = first.broker.take(first.now)
    assert batch is not None
    first.hierarchy.process(batch)
    publisher.send([encode(Changes(None, {"Tick": END}, []))])
    first.now += 1
    for message in publisher.outbox:
        first.broker.receive(publisher.name, message, first.now)
    first.runner.settle(first.now)
    while not first.store.idle:
        first.runner.settle(first.now)
    first.kill()
    assert before != first.hierarchy.finals() != {"Sums": END}

    second = life_in(tmp_path)
    second.step()
    assert second.hierarchy is not None
    assert second.hierarchy.finals() == {"Sums": END}
    second.kill()


def test_a_replay_makes_the_promises_of_each_step_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a stream that has ended is, once it is to resume, as if nothing had ever been final: readers saw its watermark go
    back (world 20261530316)."""
    first = life_in(tmp_path)
    attach(first, "m", "node", Interest(1, ["Sum"], keeps=True))
    first.feed(Tick(1, ts=10, id=1, source="market"))
    for until in (12, END):
        first.links["publisher"].send([encode(Changes(None, {"Tick": until}, []))])
        first.step()
    promises = first.broker.tracker.for_subscribers
    assert promises.values["Sum"] == END
    first.links["publisher"].bye("has sent all")
    first.step()
    attach(first, "other", "publisher", Interest(1, raw=["Tick"]))
    generations = first.broker.tracker.generations
    assert (generations.number, generations.floor, promises.values["Sum"]) == (1, None, 12), "m has yet to announce where it is"
    first.kill()

    monkeypatch.setattr(Life, "step", lambda life: None)
    second = life_in(tmp_path)
    assert second.broker.tracker.for_subscribers.values["Sum"] == 12
    second.kill()


def attach(life: Life, name: str, role: Role, greeting: Interest) -> None:
    link = life.links[name] = Link(name, role, 1, life.now, dials=True)
    link.greeting = [encode(greeting)]
    link.say_hello(life.now)
    for _ in range(3):
        life.step()
