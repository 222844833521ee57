"""Faults that simulated worlds have found, each as small as it can be."""

from __future__ import annotations

import pytest

from middleware.broker.broker import Broker
from middleware.broker.inbox import Inbox
from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.ingress.publisher_admission import Admission
from middleware.broker.ingress.seen import SeenIds
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import (
    IdlePromise,
    LogEntry,
    PeerDeparture,
    PeerInterest,
    PeerKey,
    ReceivedPayload,
    Record,
    decode_record,
    encode_record,
)
from middleware.broker.peers.peers import Peer
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.durability.durable_core import DurableCore
from middleware.durability.recovery import recover
from middleware.link.codec import BlockHead, Changes, Drops, EventCodec, Gap, Interest, decode_payload, encode
from middleware.link.frames import VERSION, Hello, Refusal, decode_frame
from middleware.link.link import Link
from middleware.model.event import END, NEVER, EventTypes
from middleware.model.time import SECOND
from middleware.testing.simulation.applications import High, Low, Reading
from middleware.testing.simulation.network import SimulatedNode, SimulatedSubscriber, Simulation


def test_nothing_is_final_while_a_peer_is_missing_even_if_another_promises_the_type() -> None:
    promises = CombinedWatermarks()
    promises.offer("b", (), ["Low"])
    promises.promise("b", {"Low": END})
    inbox = Inbox(frozenset({"Low"}), EventCodec(EventTypes()), Drops(), SeenIds())
    held = inbox.take(promises, None, {"c"})
    assert held is not None and held.watermarks == {"Low": NEVER}
    free = inbox.take(promises, None, ())
    assert free is not None and free.watermarks == {"Low": END}


def test_a_late_refusal_of_a_former_life_does_no_harm() -> None:
    link = Link("p", "publisher", 5, 0, dials=True, durable=True)
    link.hello_received(Hello(VERSION, "a", "node", 9, 5, 0, 1_000), 1)
    link.receive(Refusal("a newer publisher named 'p' is attached", True, 4), [], 2)
    assert link.up and link.closed is None
    link.receive(Refusal("go away", True, 5), [], 3)
    assert link.closed == "refused: go away"


def test_what_a_publisher_has_ended_stays_ended_when_it_attaches_anew_and_falls_silent() -> None:
    tracker = WatermarkTracker(())
    admission = Admission(EventTypes(), tracker.publishers, None, 0)
    key = ("publisher", "p")
    admission.attach(key, 0, 0)
    tracker.offered(key, Interest(1, raw=["Ping"]))
    tracker.noted(key, admission.received(key, Changes(7, {"Ping": END}, []), 1, frozenset(["Ping"])))
    assert tracker.for_nodes.values["Ping"] == END
    admission.sources.leave(key)
    admission.attach(key, 0, 2)
    for seconds in (11, 12, 30):
        admission.promise_for_idle(7 + seconds, [], [], seconds * SECOND)
        assert tracker.for_nodes.values["Ping"] == END
    tracker.noted(key, admission.received(key, Changes(50, None, []), 31 * SECOND, frozenset(["Ping"])))
    assert tracker.for_nodes.values["Ping"] == END


def test_a_broker_that_was_away_does_not_take_its_own_absence_for_the_silence_of_others() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=EventTypes())
    SimulatedSubscriber(simulation, "s", "a", ["Low"], EventTypes())
    simulation.run(SECOND)
    away = simulation.now + 60 * SECOND  # its clock leaps, or it was stopped: nothing has come, and nothing could
    node.broker.settle(away)
    assert node.closed == []
    (peer,) = node.broker.statistics().peers
    assert peer.up
    for later in range(1, 16):  # from now on it would hear it
        node.closed += node.broker.settle(away + later * SECOND).closed
    assert [closed.name for closed in node.closed] == ["s"]


def test_a_type_that_was_offered_anew_is_promised_anew() -> None:
    peer = Peer("node", "b", Link("a", "node", 1, 0, dials=False), "b")
    sent: list[Changes] = []
    peer.link.send = lambda parts: sent.append(decode_payload(parts)) or 1  # type: ignore[method-assign, func-returns-value]
    peer.post({"Reading": END}, 1, NEVER, 0)
    peer.send_interest(Interest(2), (0, 0))  # without Reading: whoever hears it forgets what was promised
    peer.send_interest(Interest(3, raw=["Reading"]), (0, 0))
    assert peer.news_due(1, NEVER, SECOND)
    peer.post({"Reading": END}, 1, NEVER, SECOND)
    assert [changes.watermarks for changes in sent if type(changes) is Changes] == [{"Reading": END}] * 2


def test_the_log_is_kept_whole_while_a_peer_has_never_attached() -> None:
    log = Log(1, lambda offset, size: [])
    log.subscribed(("node", "b"), Interest(1, ["Reading"]))
    log.made(BlockHead("Reading", 1), b"")
    log.moved(("node", "b"), 1)
    assert log.needed == 0, "node c may want it, too"
    log.all_attached()
    assert log.needed == 1
    log.oldest = 1
    assert log.start_of(("node", "c"), Interest(1, ["Reading"])) == (1, True), "what it missed is a gap"


def durable(log: Log) -> Broker:
    return Broker("b", 1, 0, types=EventTypes([Reading]), publications=(), log=log)


def test_what_a_publisher_offered_that_did_not_come_back_is_offered_no_more() -> None:
    log = Log(1, lambda offset, size: [])
    broker = durable(log)
    record = Record(1, 0, [PeerInterest(("publisher", "p"), Interest(1, raw=["Reading"]))], False, None, {})
    recover(broker, None, EventTypes([Reading]), None, [record])
    broker.settle(0)
    (origin,) = broker.waiting([]).streams["Reading"].origins
    assert origin.name == "p", "it has ten seconds to come back"
    for second in range(1, 13):
        broker.settle(second * SECOND)
    assert broker.waiting([]).streams["Reading"].origins == []
    assert broker.sources.types == {"Reading"}, "of those that have left, too, the clock is promised when all is quiet"


@pytest.mark.parametrize("spoke", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_an_end_counts_in_the_next_life_too_if_its_publisher_sent_nothing_since(spoke: bool, at: int) -> None:
    """Publisher and node are killed, after the publisher's next life has ended its type. ``at``: where the checkpoint is."""
    dead: PeerKey = ("publisher", "p")
    again: PeerKey = ("publisher", "q")
    ended = Changes(None, {"Reading": END}, [])
    steps: list[LogEntry] = [
        PeerInterest(dead, Interest(1, raw=["Reading"])),
        PeerInterest(again, Interest(1, raw=["Reading"])),
        ReceivedPayload(again, ended, []),
        *([ReceivedPayload(dead, Changes(None, None, []), [])] if spoke else []),
        PeerDeparture(again),
    ]
    records = [Record(number, 0, [entry], False, None, {}) for number, entry in enumerate(steps, 1)]
    former, broker = (durable(Log(1, lambda offset, size: [])) for _ in range(2))
    recover(former, None, EventTypes([Reading]), None, records[:at])
    broker.tracker.restore(former.tracker.state())
    recover(broker, None, EventTypes([Reading]), None, records[at:])
    for second in range(13):
        broker.settle(second * SECOND)
    assert broker.waiting([]).streams["Reading"].promised == (None if spoke else END)


def test_the_log_notes_who_has_left_for_good() -> None:
    log = Log(1, lambda offset, size: [])
    broker, peer = durable(log), ("publisher", "p")
    assert log.close({}, even_empty=True) is not None
    log.subscribed(peer, Interest(1, raw=["Reading"]))
    broker.leave(peer)
    record = log.close({})
    assert record is not None
    assert record.entries == [PeerInterest(peer, Interest(1, raw=["Reading"])), PeerDeparture(peer)]


def test_a_peer_that_left_after_an_idle_promise_in_the_same_step_is_not_awaited_by_the_next_life() -> None:
    log = Log(1, lambda offset, size: [])
    broker = durable(log)
    silent = ("publisher", "p")
    record = Record(1, 0, [PeerInterest(silent, Interest(1, raw=["Reading"]))], False, None, {})
    ended = Record(2, 0, [IdlePromise(silent, {"Reading": 59}), PeerDeparture(silent)], False, None, {})
    recover(broker, None, EventTypes([Reading]), None, [record, ended])
    assert broker.waiting([]).streams["Reading"].origins == []


def test_rejected_events_are_reported_though_the_node_died_before() -> None:
    late = RejectedEvent("late", 9, "insert", "Reading", 3, 7, "p", b"")
    log = Log(1, lambda offset, size: [])
    core = DurableCore(durable(log), None, EventTypes([Reading]))
    core.broker.ingress.rejected.append(late)
    effects, write = core.settle(1)
    assert effects.rejected == [], "it waits for the log"
    record = decode_record(encode_record(write.record))
    core.checkpoint_due = True
    pieces = core.settle(1)[1].pieces
    while core.checkpointing:
        pieces.append(core.resume(100))
    for checkpoint in (None, [piece.data for piece in pieces]):  # it is in the one, or in what is behind the other
        log = Log(1, lambda offset, size: [])
        broker = durable(log)
        recovered, _ = recover(broker, None, EventTypes([Reading]), checkpoint, [] if checkpoint else [record])
        assert recovered.rejected == [late]
        again = DurableCore(broker, None, EventTypes([Reading]), recovered.rejected)
        assert again.settle(2)[0].rejected == [late] and again.settle(3)[0].rejected == []


def test_a_node_knows_how_far_its_former_life_had_come() -> None:
    core = DurableCore(durable(Log(1, lambda offset, size: [])), None, EventTypes([Reading]))
    core.broker.log.received(("node", "b"), Changes(77, None, []), [])
    record = decode_record(encode_record(core.settle(1)[1].record))
    broker = durable(Log(1, lambda offset, size: []))
    recover(broker, None, EventTypes([Reading]), None, [record])
    assert broker.sources.reached_before == 77


def test_the_clocks_of_others_are_known_to_the_next_life_of_a_node() -> None:
    log = Log(1, lambda offset, size: [])
    core = DurableCore(durable(log), None, EventTypes([Reading]))
    core.broker.wall_is(10 * SECOND, 0)
    for name in "pq":
        core.broker.sources.wall_announced(("publisher", name), 7_210 * SECOND, 0)
    record = decode_record(encode_record(core.settle(1)[1].record))
    assert core.settle(2)[1] is None, "it is sent once"
    core.checkpoint_due = True
    pieces = core.settle(3)[1].pieces
    while core.checkpointing:
        pieces.append(core.resume(100))
    for checkpoint in (None, [piece.data for piece in pieces]):
        log = Log(1, lambda offset, size: [])
        broker = durable(log)
        recover(broker, None, EventTypes([Reading]), checkpoint, [] if checkpoint else [record])
        broker.wall_is(10 * SECOND, 0)
        assert broker.sources.behind == 7_200 * SECOND


def test_what_is_combined_while_a_peer_is_missing_may_still_go_back() -> None:
    promises = CombinedWatermarks()
    promises.gather(True)
    promises.offer("c", (), ["Low"])
    promises.promise("c", {"Low": 89})
    promises.offer("b", (), ["Low"])  # the peer that was missing derives it, too
    promises.gather(False)
    assert promises.values["Low"] == NEVER
    promises.promise("b", {"Low": 5})
    assert promises.values["Low"] == 5
    promises.offer("late", (), ["Low"])
    assert promises.values["Low"] == 5, "from then on it stands"


def interest_from(simulation: Simulation, node: SimulatedNode, name: str, epoch: int, interest: Interest) -> Link:
    """A node of this name says Hello and tells its Interest, by hand."""
    link = Link(name, "node", epoch, simulation.now, dials=True)
    link.greeting = [encode(interest)]
    for _ in range(4):
        link.tick(simulation.now)
        link.settle(simulation.now)
        for parts in link.outbox:
            node.broker.receive(name, parts, simulation.now)
        link.outbox.clear()
        for channel, parts in node.broker.settle(simulation.now).sends:
            if channel == name:
                link.receive(decode_frame(parts[0]), parts[1:], simulation.now)
    return link


def test_who_reads_what_rests_on_a_node_without_a_log_hears_of_its_restart() -> None:
    simulation = Simulation(2)
    node = SimulatedNode(simulation, "z", types=EventTypes([Reading, Low, High]), reads=["Low"], derives={"High": ["Low"]})
    readers = {
        name: SimulatedSubscriber(simulation, name, "z", [name], EventTypes([Low, High])) for name in ("Low", "High", "X")
    }
    interest_from(simulation, node, "b", 10, Interest(1, derived=["Low"]))
    simulation.run(SECOND)
    assert not any(reader.gaps for reader in readers.values())
    interest_from(simulation, node, "b", 20, Interest(1, derived=["Low"]))
    simulation.run(SECOND)
    assert {name: reader.gaps for name, reader in readers.items()} == {"Low": 1, "High": 1, "X": 0}
    interest_from(simulation, node, "b", 30, Interest(1, derived=["Low"], keeps=True))
    simulation.run(SECOND)
    assert readers["Low"].gaps == 1, "a node with a log resumes where it was"


def test_a_gap_of_a_node_that_lost_its_disk_covers_what_it_has_not_offered_again() -> None:
    simulation = Simulation(3)
    node = SimulatedNode(simulation, "z", types=EventTypes([Reading]))
    reader = SimulatedSubscriber(simulation, "reader", "z", ["Reading"], EventTypes([Reading]))
    simulation.run(SECOND)
    interest_from(simulation, node, "b", 10, Interest(1, raw=["Reading"], keeps=True))
    link = interest_from(simulation, node, "b", 20, Interest(1, keeps=True))  # its publisher has not come back yet
    link.send([encode(Gap(7, 0))])
    link.settle(simulation.now)
    for parts in link.outbox:
        node.broker.receive("b", parts, simulation.now)
    simulation.run(SECOND)
    assert reader.gaps == 1


def test_nobody_can_resume_under_a_name_where_there_is_no_log() -> None:
    simulation = Simulation(4)
    SimulatedNode(simulation, "a", types=EventTypes([Reading]))
    named = SimulatedSubscriber(simulation, "named", "a", ["Reading"], EventTypes([Reading]), resumes=True)
    simulation.run(SECOND)
    assert "keeps no log" in str(named.link.closed) and 'durability = "disk"' in str(named.link.closed)


def test_a_peer_that_was_dialled_before_recovery_ended_is_awaited_no_longer_once_it_has_spoken() -> None:
    log = Log(1, lambda offset, size: [])
    broker = Broker("b", 1, 0, types=EventTypes([Reading]), publications=["Low"], peers=["a"], log=log)
    key, interest = ("node", "a"), Interest(1, ["Low"])
    former_life = [Record(1, 0, [PeerInterest(key, interest)], False, None, {})]
    recover(broker, None, EventTypes([Reading]), None, former_life)
    other = Link("a", "node", 9, 0, dials=False)
    other.send([encode(interest)])
    for now in range(0, SECOND, SECOND // 20):
        for _, parts in broker.settle(now).sends:
            other.receive(decode_frame(parts[0]), parts[1:], now)
        other.tick(now)
        other.settle(now)
        for parts in other.outbox:
            broker.receive("a", parts, now)
        other.outbox.clear()
    assert broker.joined == [("node", "a")]
    for second in range(1, 60):  # it was awaited for less
        other.tick(second * SECOND)
        other.settle(second * SECOND)
        for parts in other.outbox:
            broker.receive("a", parts, second * SECOND)
        other.outbox.clear()
        broker.settle(second * SECOND)
    assert log.is_subscribed("Low")
    assert key in log.readers
