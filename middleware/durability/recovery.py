"""Recovery of a node: the last checkpoint, the records behind it taken again, and what consumers hold put right.

Pure. Rests on the log of outputs: consumers hold the net effect of all that was made; the node stands by what its units
came to in replay; the difference is the first output of the new life (docs/decisions/009).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from middleware.change import Batch, Change, Delta, consolidate
from middleware.durability.core import Recoverable
from middleware.durability.frozen import decode_state
from middleware.event import IDENTITY, NEVER, ORDER, Event, EventTypes, Identity, type_name
from middleware.pubsub.codec import Drops, EventCodec, encode
from middleware.pubsub.ingress import Turned
from middleware.pubsub.journal import Made, Record, TurnedAway
from middleware.pubsub.lasting import LastingBroker
from middleware.pubsub.merge import retractions_first
from middleware.state import exactly


class Recovered(msgspec.Struct):
    """What a recovery came to. ``events``: given to the detectors again. ``corrected``: changes that put consumers right.

    ``turned``: raw events that were turned away, whose listing may have been lost with the former life.
    ``withheld``: such changes to what had been called final. There are none unless detectors have changed: then what is
    final stays what it was. ``unreadable``: events in the log that were none then either, or are of types that have changed.
    """

    checkpoint: bool = False
    records: int = 0
    events: int = 0
    corrected: int = 0
    withheld: int = 0
    unreadable: int = 0
    turned: list[Turned] = []


def recover(
    broker: LastingBroker,
    hierarchy: Recoverable | None,
    types: EventTypes,
    checkpoint: bytes | None,
    records: Iterable[Record],
) -> tuple[Recovered, Batch]:
    """Bring a broker and its detectors, both just made, to where the log ends. O(checkpoint + records behind it).

    ``records`` are those behind the checkpoint, in order; with none given, all of them: then everything is built anew. The
    batch that comes with the counts is to be published first.
    """
    result = Recovered(checkpoint is not None)
    journal = broker.journal
    assert journal is not None, "only a node with a log can be recovered"
    if checkpoint is not None:
        state = decode_state(checkpoint, types)
        journal.restore(state["journal"])
        broker.restore(state["broker"])
        result.turned += state.get("turned", ())
        if hierarchy is not None:
            hierarchy.restore(state["units"])
    logged = frozenset(name for name in broker.publications if journal.is_wanted(name))
    codec, drops = EventCodec(types), Drops()
    made: list[Change] = []
    stood: list[Change] = []
    for record in records:
        result.records += 1
        batch = broker.replay(record)
        for entry in record.entries:
            if type(entry) is Made:
                made += codec.decode(entry.head, entry.block, drops).changes()
            elif type(entry) is TurnedAway:
                result.turned += entry.turned
        if batch is not None and hierarchy is not None:
            result.events += sum(map(len, batch.deltas.values()))
            for published in hierarchy.process(batch, record.finals):
                for name, delta in retractions_first(published.deltas):
                    stood += delta.changes() if journal.is_wanted(name) else ()
    correction = Delta()
    if hierarchy is not None:
        correction = correcting(consolidate(made), consolidate(stood), logged)
    result.unreadable = drops.total() + broker.drops.total() - broker.drops["duplicate"]
    promised = hierarchy.promised if hierarchy is not None else {}
    correction, result.withheld = _above(correction, promised)
    broker.resumed(hierarchy.promised if hierarchy is not None else {})
    result.corrected = len(correction)
    return result, Batch(correction.by_type())


def correcting(made: Delta, stood: Delta, logged: Collection[str]) -> Delta:
    """What turns the state of consumers who took ``made`` into that of consumers who took ``stood``, both from one beginning.

    ``logged``: the types of which the log holds all that was made since that beginning. Of others, one that someone began to
    want in between, it may hold the withdrawal of an event whose coming it does not. O(changes).
    """
    told, stands = _by_identity(made), _by_identity(stood)
    k_plus = dict(zip(map(IDENTITY, stood.inserts), stood.k_plus, strict=True)) if stood.k_plus is not None else {}
    delta = Delta()
    for identity in told.keys() | stands.keys():
        if identity in stands:
            now = stands[identity][1]
            was = told[identity][1] if identity in told else stands[identity][0]
        else:
            now, was = told[identity]  # untouched in replay: what stood in the beginning stands
            if now is not None and type_name(now.__class__) not in logged:
                now = None
        if was is not None and now is not None and was.__class__ is now.__class__:
            if not _is_told(was, now):
                delta.revises.append((was, now))
            continue
        if was is not None:
            delta.retracts.append(was)
        if now is not None:
            delta.inserts.append(now)
    delta.retracts.sort(key=ORDER)
    delta.revises.sort(key=lambda pair: ORDER(pair[1]))
    delta.inserts.sort(key=ORDER)
    if k_plus:
        delta.k_plus = [k_plus.get(IDENTITY(event), 0) for event in delta.inserts]
    return delta


def _is_told(was: Event, now: Event) -> bool:
    """Whether who was told the one has the other. Of types that ``exactly`` does not know, the form on the wire decides."""
    return was == now and (exactly(was, now) or encode(was) == encode(now))


def _above(delta: Delta, promised: Mapping[str, int]) -> tuple[Delta, int]:
    """The changes to what is not final yet, and how many others there are."""

    def free(event: Event) -> bool:
        return event.ts > promised.get(type_name(event.__class__), NEVER)

    kept = Delta(
        [event for event in delta.inserts if free(event)],
        [(old, new) for old, new in delta.revises if free(old) and free(new)],
        [event for event in delta.retracts if free(event)],
    )
    if delta.k_plus is not None:
        kept.k_plus = [early for event, early in zip(delta.inserts, delta.k_plus, strict=True) if free(event)]
    return kept, len(delta) - len(kept)


def _by_identity(delta: Delta) -> dict[Identity, tuple[Event | None, Event | None]]:
    """What stood before and what stands after, by identity."""
    states: dict[Identity, tuple[Event | None, Event | None]] = {IDENTITY(event): (event, None) for event in delta.retracts}
    states |= {IDENTITY(new): (old, new) for old, new in delta.revises}
    for event in delta.inserts:
        states[IDENTITY(event)] = (states.get(IDENTITY(event), (None, None))[0], event)
    return states
