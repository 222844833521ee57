"""How a broker outlives its process: what a checkpoint holds of it, and how the records after that are replayed.

Pure. Only a broker that was just made, with a log, can resume where another life ended: ``restore`` if there is a checkpoint,
``replay`` for each record after it, then ``resume``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from middleware.broker.broker import Broker
from middleware.broker.effects import Disconnection
from middleware.broker.ingress.receipts import tally
from middleware.broker.log.history import History
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import (
    ClockCorrection,
    ConfirmedEvents,
    Floors,
    GenerationStart,
    IdlePromise,
    LogEntry,
    PeerDeparture,
    PeerInterest,
    PeerKey,
    ReceivedPayload,
    Record,
    RejectedEvents,
    Resumption,
    Withholding,
)
from middleware.broker.peers.rights import Rights, sender_of
from middleware.model.change import Batch
from middleware.model.event import NEVER


def log_of(broker: Broker) -> Log:
    """The log of a broker that has one. Raises TypeError if it keeps none."""
    if not isinstance(broker.log, Log):
        raise TypeError(f"node {broker.name} keeps no log: nothing of it outlives its process")
    return broker.log


def state_of(broker: Broker) -> dict[str, Any]:
    """The state of a broker at a step's end, as values of Python's own types; ids that were seen follow in its parts."""
    ingress = broker.ingress
    ingress.seen.begin()
    return {
        "changed": ingress.changed.state(),
        "owners": ingress.owners.state(),
        "history": list(broker.history.points),
        "senders": {key: peer.owner for key, peer in broker.attachments.peers.items() if key[0] == "publisher"},
        "books": broker.tracker.state(),
        "copies": ingress.copies.since,
        "behind": broker.sources.behind,
        "withheld": broker.admission.room.state(),
    }


def restore(broker: Broker, state: Mapping[str, Any]) -> None:
    """Go on where ``state`` was taken."""
    broker.ingress.changed.restore(state["changed"])
    broker.ingress.owners.restore(state["owners"])
    broker.history = History(state["history"])
    for key, owner in state["senders"].items():
        _sent_by(broker, key, owner)
    broker.tracker.restore(state["books"])
    broker.sources.was_behind(state["behind"])
    broker.admission.room.restore(state["withheld"])
    if (since := state["copies"]) is not None:
        _recall(broker, since)


def _sent_by(broker: Broker, key: PeerKey, owner: str | None) -> None:
    """A publisher of a former life had shown this key."""
    broker.senders[key] = sender_of(key[1], Rights(owner) if owner is not None else None)


def _recall(broker: Broker, offset: int) -> None:
    """Read the raw blocks after an offset of the log again, to know what came first. O(bytes)."""
    last, copies = broker.log.offset, broker.ingress.copies
    while offset < last:
        blocks, reached = broker.log.blocks_after(offset)
        for number, _, head, block in blocks:
            if head.raw and number <= last:
                copies.at = number - 1
                copies.keep(head, block, head.runs)
        if reached <= offset:
            return
        offset = reached


def replay(broker: Broker, record: Record) -> Batch | None:
    """Replay a step: restores the state that it left, and returns the batch that the detectors were given, if any."""
    log, tracker, ingress = log_of(broker), broker.tracker, broker.ingress
    tracker.gather(log.gathers and bool(broker.attachments.configured))
    ingress.copies.at = record.first
    before, ending = _split(record)
    for entry in before:
        _again(broker, entry)
    log.passed(record)
    batch = None
    if record.stepped:
        taken = broker.inbox.take(tracker.for_detectors, record.clock, (), broker.reopening.due()) or Batch()
        batch = Batch(taken.deltas, taken.watermarks, record.clock, floor=taken.floor)
    for entry in ending:
        _again(broker, entry)
    tally(ingress, broker.drops)
    return batch


def _again(broker: Broker, entry: LogEntry) -> None:
    """Apply an entry of the log again."""
    tracker = broker.tracker
    if type(entry) is ReceivedPayload:
        _take_again(broker, entry)
    elif type(entry) is PeerInterest and entry.peer[0] == "subscriber":
        tracker.read(entry.interest.subscriptions)
    elif type(entry) is PeerInterest:
        if entry.peer[0] == "publisher":
            _sent_by(broker, entry.peer, entry.owner)
            tracker.hold(broker.reopening.ended(entry.peer, entry.interest.raw), anew=False)
        broker.offered(entry.peer, entry.interest)
    elif type(entry) is PeerDeparture:
        tracker.left(entry.peer, entry.outlived)
    elif type(entry) is IdlePromise:
        broker.admission.again(entry)
    elif type(entry) is RejectedEvents:
        for rejected in entry.rejected:
            broker.ingress.restore_rejection(rejected)
    elif isinstance(entry, GenerationStart | Resumption):
        broker.reopening.again(entry)
    elif isinstance(entry, Withholding | ConfirmedEvents):
        broker.admission.replay_waiting(entry)
    elif type(entry) is Floors:
        tracker.covered(entry.floors)
    elif type(entry) is ClockCorrection:
        broker.sources.was_behind(entry.behind)


_ENDING = (IdlePromise, PeerDeparture)


def _split(record: Record) -> tuple[list[LogEntry], list[LogEntry]]:
    """The effects of a step until its detectors had their batch, and its promises for idle publishers, with those that left
    then."""
    first = next((index for index, entry in enumerate(record.entries) if type(entry) is IdlePromise), len(record.entries))
    rest = record.entries[first:]
    before = record.entries[:first] + [entry for entry in rest if type(entry) not in _ENDING]
    return before, [entry for entry in rest if type(entry) in _ENDING]


def _take_again(broker: Broker, taken: ReceivedPayload) -> None:
    for head, block in zip(taken.changes.blocks, taken.blocks, strict=True):
        broker.came_before(head.count)
        reads = head.type in broker.subscriptions
        is_raw = taken.peer[0] == "publisher"
        sender = broker.senders.get(taken.peer)
        again = broker.ingress.admit(head, block, reads, is_logged=True, sender=sender) if is_raw else [(head, block, None)]
        for admitted in again:
            if reads:
                admitted[0].arrival = head.arrival
                broker.inbox.put(taken.peer, *admitted)
    broker.tracker.noted(taken.peer, taken.changes)


def resume(broker: Broker) -> None:
    """All records have been replayed: await the peers of the last life."""
    log, tracker, there = log_of(broker), broker.tracker, broker.attachments
    broker.sources.reached_before = tracker.clock if tracker.clock is not None else NEVER
    promises = tracker.for_nodes
    broker.admission.offered(
        {name for name in promises.known if not promises.is_derived(name)}
    )  # of publishers that have left, too
    for gone in [key for key in tracker.durable if key[1] not in there.configured]:
        tracker.durable.discard(gone)
        broker.leave(gone)
        there.closed.append(Disconnection("node", gone[1], "is not in the configuration any more", 0))
    there.lost |= dict.fromkeys(tracker.durable, there.born)
    broker.to_come.exempt({name for _, name in tracker.durable})
    log.began = log.offset
    readers = {peer for peer, reader in log.readers.items() if not reader.named}
    for key in (tracker.origins() | readers) - tracker.durable:
        there.await_again(cast(PeerKey, key))
