"""A node whose detectors have changed takes its whole log again: what was final stays, what is not is put right."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_upgrade import TYPES, Sum, Sums, SumsInCents, Tick

from middleware.broker.broker import Broker
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import LocalBlock
from middleware.durability.durable_core import DurableCore
from middleware.link.codec import Changes, EventCodec, Interest, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import decode_frame
from middleware.link.link import Link
from middleware.model.change import Delta
from middleware.model.errors import DetectorError
from middleware.model.event import Event
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.loop.durable_runner import DurableRunner
from middleware.runtime.storage.store import Store


class Doubled(SumsInCents):
    """The next version comes to other sums."""

    def on_event(self, event: Tick) -> Sum:
        self.cents += 200 * event.price
        return Sum(self.cents // 100, ts=event.ts)


def broker_of(store: Store, hierarchy: Hierarchy) -> Broker:
    log = Log(store.line, store.read)
    reads, makes = hierarchy.subscriptions, hierarchy.publications
    return Broker("n", store.epoch, 0, types=TYPES, subscriptions=reads, publications=makes, log=log)


def life(store: Store, ticks: list[Event], hierarchy: Hierarchy) -> None:
    """A publisher gives a node some events, which makes of them what a subscriber wants, one by one; then the node is gone."""
    broker = broker_of(store, hierarchy)
    core = DurableCore(broker, hierarchy, TYPES)
    links = [Link(name, name, 1, 0, dials=True, durable=True) for name in ("publisher", "subscriber")]
    for link, interest in zip(links, (Interest(1, raw=["Tick"]), Interest(1, ["Sum"], resumes=True)), strict=True):
        link.greeting = [encode(interest)]
        link.say_hello(0)
    for now, tick in enumerate([None, None, *ticks], 1):
        if tick is not None:
            ((head, block),) = encode_delta("Tick", Delta([tick]), raw=True)
            links[0].send([encode(Changes(tick.ts, None, [head])), block])
        for link in links:
            for message in link.outbox:
                broker.receive(link.name, message, now)
            link.outbox.clear()
        batch = broker.take(now)
        for result in hierarchy.process(batch) if batch is not None else ():
            broker.publish(result, now)
        core.checkpoint_due = now == 3
        effects, write = core.settle(now)
        if write is not None:
            store.write(write)
        while core.checkpointing:
            store.write(core.resume(1))
        for channel, parts in [*effects.sends, *core.stored(core.log.number).sends]:
            next(link for link in links if link.name == channel).receive(decode_frame(parts[0]), parts[1:], now)


def test_a_log_is_taken_again_by_detectors_that_have_changed(tmp_path: Path) -> None:
    policies = Policies(alpha=0.0, lateness=Lateness(1, 3))
    store = Store(tmp_path, "n")
    ticks: list[Event] = [Tick(1, ts=ts, id=ts, source="market") for ts in range(1, 11)]
    life(store, ticks, Hierarchy({"Sums": Sums()}, policies=policies))
    store.close()

    store = Store(tmp_path, "n")
    with pytest.raises(DetectorError, match="--rebuild"):
        DurableRunner(broker_of(store, changed := Hierarchy({"Sums": Doubled()}, policies=policies)), changed, TYPES, store)
    hierarchy = Hierarchy({"Sums": Doubled()}, policies=policies)
    broker = broker_of(store, hierarchy)
    runner = DurableRunner(broker, hierarchy, TYPES, store, rebuild=True)
    final = hierarchy.units[0].final
    assert runner.recovered.events == 10
    assert broker.statistics().events_in == hierarchy.statistics()[0].received == 10, "status counts the same for both"
    assert broker.received == 0, "no step took them: a bound on steps does not count them"
    assert runner.recovered.withheld == sum(tick.ts <= final for tick in ticks) > 0
    runner.settle(100)
    runner.end()
    made = [entry for record in store.everything() for entry in record.entries if isinstance(entry, LocalBlock)]
    revised = [
        (old.total, new.total)
        for entry in made
        for old, new in EventCodec(TYPES).decode(entry.head, entry.block, broker.drops).revises
    ]
    assert revised == [(tick.ts, 2 * tick.ts) for tick in ticks if tick.ts > final]
    store.close()
