"""Faults that delay, or cost only one peer, so that the simulated worlds come to right finals with them: each has a test here.

``tests/simulation/bugs.py`` plants the faults that worlds see.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.broker.broker import Broker
from middleware.broker.ingress.copies import Copies
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import Record, Withholding
from middleware.delivery.publication import Publication
from middleware.durability import lives
from middleware.durability.durable_core import DurableCore
from middleware.durability.recovery import recover
from middleware.link.codec import Changes, Drops, EventCodec, Interest, decode_payload
from middleware.link.encoding import encode_delta
from middleware.link.frames import decode_frame
from middleware.link.link import SILENCE, Link
from middleware.model.change import Batch, Delta
from middleware.model.event import END, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from tests.unit.broker.test_order_of_arrival import NAMES, TYPES, came, mixed
from tests.unit.broker.test_restarts_and_gaps import STEP, Client, Ping, Talk

PINGS = EventTypes([Ping])


def readers_of(talk: Talk) -> Client:
    """A subscriber that has seen all there is."""
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(10)
    return reader


# -- the disk stalls --------------------------------------------------------------------------------------------------


def test_while_the_disk_stands_still_each_peer_keeps_its_own_answers() -> None:
    """What is held for one channel replaces nothing that is held for another."""
    broker, now = Broker("b", 1, 0, types=PINGS, log=Log(77, lambda offset, size: iter(()))), 0
    core = DurableCore(broker, None, PINGS)
    broker.log.subscribed(("subscriber", "s"), Interest(1, ["Ping"]))  # to be stored, which takes long
    links = {name: Link(name, "publisher", 1, 0, dials=True, durable=True) for name in "pqr"}
    for step in range(200):
        now += STEP
        for name, link in links.items():
            if name > "p" and step < 100:  # these come once the disk has stood still for a while
                continue
            link.tick(now)
            for parts in link.outbox:
                broker.receive(name, parts, now)
            link.outbox.clear()
        core.settle(now)
    for channel, parts in core.stored(core.log.number).sends:
        links[str(channel)].receive(decode_frame(parts[0]), parts[1:], now)
    assert {name: link.up for name, link in links.items()} == dict.fromkeys("pqr", True)


def test_a_disk_that_is_slow_but_progresses_has_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something always waits to be stored; peers are given no more time for that."""
    broker, now, excuses = Broker("b", 1, 0, types=PINGS, log=Log(77, lambda offset, size: iter(()))), 0, []
    monkeypatch.setattr(broker, "wait_longer", excuses.append)
    core = DurableCore(broker, None, PINGS)
    link = Link("p", "publisher", 1, 0, dials=True, durable=True)
    for step in range(200):
        now += STEP
        if step % 5 == 0:
            broker.log.subscribed(("subscriber", f"s{step}"), Interest(1, ["Ping"]))
            link.say_hello(now)  # which is answered once that is stored
        for parts in link.outbox:
            broker.receive("p", parts, now)
        link.outbox.clear()
        core.settle(now)
        core.stored(core.log.number - 2)
    assert core.log.number == 40
    assert not excuses


# -- a step is replayed -----------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32), payloads=st.integers(1, 4))
def test_a_step_that_is_replayed_has_the_order_of_arrival_that_it_had(seed: int, payloads: int) -> None:
    def fresh() -> Broker:
        return Broker("b", 1, 0, types=TYPES, subscriptions=NAMES, log=Log(77, lambda offset, size: iter(())))

    rng, broker = Random(seed), fresh()
    talk = Talk(broker)
    client = Client(talk, "publisher", "p", Interest(1, raw=sorted(NAMES)))
    talk.go(10)
    publication = Publication()
    for number in range(payloads):
        for frame in publication.frames(mixed(rng, 6, 6 * number + 1)):
            client.link.send(publication.payload_of(frame))
    client.link.tick(talk.now)
    client.link.settle(talk.now)
    for parts in client.link.outbox:
        broker.receive(client.channel, parts, talk.now)
    lived = broker.take(talk.now)
    broker.settle(talk.now)
    record = broker.log.close({})  # type: ignore[union-attr]
    again = fresh()
    replayed: Batch | None = None
    for each in [*talk.records, record]:
        assert each is not None
        replayed = lives.replay(again, each)
    assert lived is not None and replayed is not None
    assert {name: delta.arrival_order for name, delta in replayed.deltas.items()} == {
        name: delta.arrival_order for name, delta in lived.deltas.items()
    }
    if len(lived.deltas) > 1:
        assert came(replayed) == came(lived)


# -- absence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [3 * SECOND, 3_600 * SECOND, 10**6 * SECOND])
def test_an_absence_exempts_only_the_silence_that_it_caused(away: int) -> None:
    """A peer that sends as the node comes back, and then falls silent, is dead when its time is up."""
    talk = Talk(Broker("b", 1, 0, types=PINGS))
    peer = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(10)
    talk.now += away
    peer.say(Changes(5, {"Ping": 5}, []))
    talk.go(1)
    talk.clients.clear()
    talk.go((SILENCE + SECOND) // (500 * MILLISECOND), 500 * MILLISECOND)
    assert talk.broker.statistics().peers == []


# -- promises do not go back ------------------------------------------------------------------------------------------


def test_a_publication_promises_no_less_than_before() -> None:
    publication = Publication([Ping])
    sent = [decode_payload(publication.promise(Ping, watermark)) for watermark in (9, 5, END, 7)]
    assert [changes.watermarks for changes in sent] == [{"Ping": at} for at in (9, 9, END, END)]  # type: ignore[union-attr]


def test_a_publisher_that_promises_less_than_before_is_held_to_what_it_promised() -> None:
    talk = Talk(Broker("b", 1, 0, types=PINGS))
    reader = readers_of(talk)
    one, other = (Client(talk, "publisher", name, Interest(1, raw=["Ping"])) for name in "pq")
    talk.go(10)
    one.say(Changes(None, {"Ping": 100}, []))
    other.say(Changes(None, {"Ping": 10}, []))
    talk.go(10)
    one.say(Changes(None, {"Ping": 50}, []))
    other.say(Changes(None, {"Ping": 200}, []))
    talk.go(10)
    assert [watermarks["Ping"] for watermarks in reader.watermarks() if watermarks][-1] == 100


def test_a_publisher_that_promises_anew_after_its_end_has_ended() -> None:
    """Else the node would take events of a stream that it has called complete."""
    talk = Talk(Broker("b", 1, 0, types=PINGS))
    readers_of(talk)
    one, other = (Client(talk, "publisher", name, Interest(1, raw=["Ping"])) for name in "pq")
    talk.go(10)
    one.say(Changes(None, {"Ping": END}, []))
    other.say(Changes(None, {"Ping": 3}, []))
    talk.go(10)
    one.say(Changes(None, {"Ping": 5}, []))
    talk.go(10)
    one.publish(Ping(ts=8, id=1, source="p"))
    talk.go(10)
    assert talk.broker.drops["late for what was promised"] == 1


# -- former lives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["publisher", "subscriber", "node"])
def test_a_hello_of_an_old_life_takes_nothing_over(role: str) -> None:
    """A message of a life that has ended may still be under way, or be sent again by whoever keeps messages."""
    greeting = Interest(1, ["Ping"]) if role != "publisher" else Interest(1, raw=["Ping"])
    talk = Talk(Broker("b", 1, 0, types=PINGS))
    new = Client(talk, role, "c", greeting, epoch=7)  # type: ignore[arg-type]
    talk.go(10)
    assert new.link.up
    old = Client(talk, role, "c", None, epoch=3)  # type: ignore[arg-type]
    old.channel = "of a former life"
    talk.go(10)
    assert [(peer.name, peer.up) for peer in talk.broker.statistics().peers] == [("c", True)]
    assert talk.broker.drops["Hello of an old epoch"] >= 1
    assert new.link.up and new.link.closed is None and not new.link.restarts


# -- what comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [(), (Ping(ts=20, id=9, source="p"),)], ids=["alone", "beside a new event"])
@pytest.mark.parametrize("reads", [(), ("Ping",)], ids=["forwarded", "read here"])
def test_a_retraction_that_comes_too_late_is_rejected(beside: tuple[Ping, ...], reads: tuple[str, ...]) -> None:
    talk = Talk(Broker("b", 1, 0, types=PINGS, subscriptions=reads))
    reader = readers_of(talk)
    one = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(10)
    one.publish(*(early := [Ping(ts=ts, id=ts, source="p") for ts in (3, 8)]), watermarks={"Ping": 5})
    talk.go(10)
    for head, block in encode_delta("Ping", Delta([*beside], retracts=early), raw=True):
        one.say(Changes(None, {"Ping": 5}, [head]), block)
    talk.go(10)
    codec = EventCodec(PINGS)
    deltas = [
        codec.decode(head, block, Drops())
        for changes, blocks in reader.blocks
        for head, block in zip(changes.blocks, blocks, strict=True)
    ]
    assert [event.id for delta in deltas for event in delta.retracts] == [8], "the other was final"
    assert talk.broker.drops["late for what was promised"] == 1


def test_what_repeats_are_compared_with_is_known_by_its_place_in_the_log() -> None:
    """The next life reads the log again from there, and not from its beginning."""
    broker = Broker("b", 1, 0, types=PINGS, log=Log(77, lambda offset, size: iter(())))
    broker.ingress.copies = Copies(most=600)  # one block, or two
    talk = Talk(broker)
    one = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    for number in range(1, 20):
        one.publish(Ping(ts=number, id=number, source="p"))
        talk.go(5)
    assert (broker.log.offset, broker.ingress.copies.since) == (19, 18)


def test_a_type_that_a_publisher_offers_later_is_its_own_after_a_crash() -> None:
    """It was named by no Interest, but by the events themselves; until it is promised, it holds the type open."""
    records: list[Record] = []
    talk = Talk(Broker("b", 1, 0, types=PINGS, log=Log(77, lambda offset, size: iter(()))))
    one = Client(talk, "publisher", "p", Interest(1))
    talk.go(10)
    one.publish(Ping(ts=3, id=1, source="p"))
    talk.go(10)
    records += talk.records
    again = Broker("b", 2, 0, types=PINGS, log=Log(77, lambda offset, size: iter(())))
    recover(again, None, PINGS, None, records)
    (origin,) = again.waiting([]).streams["Ping"].origins
    assert origin.name == "p"


def test_a_promise_of_which_only_a_part_counts_yet_is_known_whole_to_the_next_life() -> None:
    """Nobody may say it again: its publisher may be gone for good before the others get there."""
    talk, wall, year = (
        Talk(Broker("b", 1, 0, types=PINGS, log=Log(77, lambda offset, size: iter(())))),
        10**18,
        365 * 86_400 * SECOND,
    )
    talk.broker.wall_is(wall, 0)
    reader = readers_of(talk)
    one = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(10)
    one.publish(Ping(ts=wall, id=1, source="p"), watermarks={"Ping": wall + year})
    talk.go(10)
    assert {"Ping": wall + year} not in reader.watermarks()
    key, logged = ("publisher", "p"), len(talk.records)
    assert talk.broker.admission.room.of(key).promised == {"Ping": wall + year}
    one.publish(Ping(ts=wall + 1, id=2, source="p"), watermarks={"Ping": wall + year})
    talk.go(10)
    again = Broker("b", 2, 0, types=PINGS, log=Log(77, lambda offset, size: iter(())))
    recover(again, None, PINGS, None, talk.records)
    assert again.admission.room.of(key).promised == {"Ping": wall + year}
    repeated = [entry for record in talk.records[logged:] for entry in record.entries if isinstance(entry, Withholding)]
    assert repeated == [], "the log holds it once"


def test_a_block_that_names_no_times_is_judged_by_those_of_its_events() -> None:
    talk, wall = Talk(Broker("b", 1, 0, types=PINGS)), 10**18
    talk.broker.wall_is(wall, 0)
    reader = readers_of(talk)
    one = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(10)
    for number, ts in enumerate((wall, wall + 3600 * SECOND)):
        ((head, block),) = encode_delta("Ping", Delta([Ping(ts=ts, id=number, source="p")]), raw=True)
        head.oldest = head.newest = None
        one.say(Changes(None, None, [head]), block)
        talk.go(10)
    assert sum(head.count for changes, _ in reader.blocks for head in changes.blocks) == 1
    assert talk.broker.admission.room.counts() == {"p": (1, wall + 3600 * SECOND)}, "the second waits"
