"""A promise that came in behind the last stored step counts in the node's next life."""

from __future__ import annotations

from pathlib import Path

from lives import Life
from test_upgrade import TYPES, Sums, Tick

from middleware.link.codec import Changes, encode
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
