"""Recovery of a node: it restores the last checkpoint, replays the records after it, and corrects what consumers hold.

Pure. Relies on the log of outputs: consumers hold the net effect of all outputs in it; the units' results in replay are what
they should hold; the difference is the first output of the new life (docs/decisions/009).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from middleware.broker.broker import Broker
from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log_records import LocalBlock, LogBreak, ReceivedPayload, Record, RejectedEvents, UnitStops
from middleware.broker.merge import retractions_first
from middleware.durability import lives
from middleware.durability.checkpoint import StoredCheckpoint
from middleware.durability.durable_core import SEEN, Recoverable
from middleware.durability.lives import log_of
from middleware.durability.state_encoding import uncollected
from middleware.link.codec import OTHER_FIELDS, BlockHead, Drops, EventCodec, encode
from middleware.model.change import Batch, Change, Delta, Retract, Watermark, consolidate
from middleware.model.errors import StateError
from middleware.model.event import IDENTITY, NEVER, ORDER, Event, EventTypes, Identity, type_name
from middleware.model.values.state import exactly


class RecoveryResult(msgspec.Struct):
    """The result of a recovery. ``events``: given to the detectors again. ``corrected``: changes that correct consumers.

    ``rejected``: raw events that were rejected, and that the former life may not have listed.
    ``withheld``: corrections of results that had been called final. There are none unless detectors have changed: then
    finals stay as they were. ``unreadable``: events in the log that could not be read when they came either.
    ``known``: the fields of the event types that the log may hold. ``changed``: the code is not that of the checkpoint: write
    a new checkpoint at once, or the next life does not know which code this one ran.
    """

    checkpoint: bool = False
    records: int = 0
    events: int = 0
    corrected: int = 0
    withheld: int = 0
    unreadable: int = 0
    rejected: list[RejectedEvent] = []
    known: dict[str, str] = {}
    changed: bool = True


class _Replay:
    """The results of replayed records: as ``published`` in the former life, and as ``replayed`` now, of subscribed types.

    Neither has results of a type from before the log skipped changes of it: no reader resumes from there.
    ``unsubscribed``: by identity, the other results as they are now, or None if they are withdrawn. ``stopped``: types of which
    nothing more comes. ``reported``: those of them that readers know of.
    """

    def __init__(self) -> None:
        self.published: list[Change] = []
        self.replayed: list[Change] = []
        self.unsubscribed: dict[Identity, Event | None] = {}
        self.stopped: set[str] = set()
        self.reported: set[str] = set()

    def publish(self, delta: Delta, is_subscribed: bool) -> None:
        """A replayed step publishes changes of a type."""
        if is_subscribed:
            self.replayed += delta.changes()
        else:
            self._forget(delta.changes())

    def note_break(self, entry: LogBreak) -> None:
        """Changes are missing in the log here. O(changes) where it skipped changes without a subscriber."""
        if entry.unsubscribed and entry.here:
            left = frozenset(entry.here)
            self.published = [change for change in self.published if _type_of(change) not in left]
            self._forget([change for change in self.replayed if _type_of(change) in left])
            self.replayed = [change for change in self.replayed if _type_of(change) not in left]
        elif not entry.names:
            self.reported.update(entry.here)

    def _forget(self, changes: Iterable[Change]) -> None:
        for change in changes:
            assert not isinstance(change, Watermark), "published changes hold no watermarks"
            self.unsubscribed[IDENTITY(change.event)] = None if isinstance(change, Retract) else change.event


def _type_of(change: Change) -> str | None:
    return None if isinstance(change, Watermark) else type_name(change.event.__class__)


_UNREADABLE = ("unknown type", OTHER_FIELDS, "malformed event", "malformed block")


def recover(
    broker: Broker,
    hierarchy: Recoverable | None,
    types: EventTypes,
    checkpoint: Iterable[bytes] | None,
    records: Iterable[Record],
    rebuild: bool = False,
    former: Collection[str] = (),
) -> tuple[RecoveryResult, Batch]:
    """Bring a broker and its detectors, both just made, to the end of the log. O(checkpoint + records after it).

    ``checkpoint``: its pieces, in order; ``records``: those after it; both are read as streams. To ``rebuild``, ``records`` are
    all there are: only the event types in the checkpoint count then, and everything is built anew; ``former``: the units that
    they name. The batch that is returned with the counts is to be published first.
    Raises StateError or DetectorError if the code has changed such that stored events or state would be lost.
    """
    result = RecoveryResult(checkpoint is not None and not rebuild)
    log = log_of(broker)
    if checkpoint is not None:
        stored = StoredCheckpoint(checkpoint, types)
        result.known = stored.known
        if not rebuild:
            with uncollected():
                _restore(broker, hierarchy, stored, result)
            result.changed |= not set(types) <= result.known.keys()
    fresh = hierarchy.finals().keys() - former if rebuild and hierarchy is not None else ()
    replay = _replay_records(broker, hierarchy, types, records, result, None if rebuild else result.known, fresh)
    correction = Delta()
    if hierarchy is not None:
        present = hierarchy.finals()
        gone = {name: final for name, final in log.state()["finals"].items() if name not in present}
        floors = _floors(hierarchy.promised_without(fresh), replay.published, gone)
        published, replayed = consolidate(replay.published), consolidate(replay.replayed)
        correction = correcting(
            published, replayed, replay.unsubscribed | {IDENTITY(event): event for event in hierarchy.provisional()}
        )
        correction, result.withheld = _above(correction, floors, max(gone.values(), default=NEVER), hierarchy.halted_at)
    lives.resume(broker)
    # A replayed step leaves units as far as its record says. The inbox takes promises that came in behind the step, in the same
    # record, for given: units would wait for them for ever. Units that the records do not name have had no promise at all.
    broker.inbox.announce_again()
    result.corrected = len(correction)
    return result, Batch(correction.by_type(), stopped=sorted(replay.stopped - replay.reported))


def _replay_records(
    broker: Broker,
    hierarchy: Recoverable | None,
    types: EventTypes,
    records: Iterable[Record],
    result: RecoveryResult,
    known: Mapping[str, str] | None,
    fresh: Collection[str],
) -> _Replay:
    """Replay records.

    ``known``: types of which nothing may be lost, even if they are not registered any more. None for a rebuild: then any may
    be lost, and units that had stopped may resume, as their code may have been mended. ``fresh``: units that the log does not
    know: what is final for them follows from what was promised, as in life.
    """
    codec, drops = EventCodec(types), Drops()
    replay = _Replay()
    lost = Drops()
    for record in records:
        result.records += 1
        if known is None and hierarchy is not None:
            _check_unmoved(record, hierarchy, codec)
        batch = lives.replay(broker, record)
        for entry in record.entries:
            if type(entry) is LocalBlock:
                replay.published += codec.decode(entry.head, entry.block, drops).changes()
            elif type(entry) is RejectedEvents:
                result.rejected += entry.rejected
            elif type(entry) is LogBreak:
                replay.note_break(entry)
            elif type(entry) is UnitStops and hierarchy is not None and known is not None:
                replay.replayed += [change for delta in hierarchy.halt(entry.names) for change in delta.changes()]
        before, result.unreadable = result.unreadable, _unreadable(drops) + _unreadable(broker.drops)
        if result.unreadable > before:
            lost += _lost(record, broker.subscriptions, codec, known or {})
        if batch is not None and hierarchy is not None:
            result.events += sum(map(len, batch.deltas.values()))
            for published in hierarchy.process(batch, dict.fromkeys(fresh) | record.finals):
                # promises one by one, as in life: what ends in a step may resume in a later one, from the promise before
                broker.tracker.promised_here(published.watermarks, published.reached)
                replay.stopped.update(published.stopped)
                for name, delta in retractions_first(published.deltas):
                    replay.publish(delta, broker.log.is_subscribed(name))
    if lost:
        counts = ", ".join(f"{count} of {name}" for name, count in sorted(lost.items()))
        raise StateError(
            f"stored events cannot be read any more: {counts}; put their types back as they were and give changed events new "
            "names, or start the node in a new state folder, without what it knew"
        )
    return replay


def _restore(broker: Broker, hierarchy: Recoverable | None, checkpoint: StoredCheckpoint, result: RecoveryResult) -> None:
    """Restore log, broker and detectors from a checkpoint."""
    state = checkpoint.state()
    units = state["units"]
    stored = units.get("units", ())
    if stored and hierarchy is None:
        raise StateError(f"the stored state has detectors, {', '.join(sorted(stored))}, and none run here any more")
    if not units and hierarchy is not None:
        raise StateError("the stored state has no detectors: start the node with --rebuild to run them over the whole log")
    log_of(broker).restore(state["journal"])
    lives.restore(broker, state["broker"])
    result.rejected += state["turned"]
    result.changed = False
    if hierarchy is not None:
        noted = log_of(broker).noted_code  # with settings, which change what comes of the records to be replayed
        result.changed = hierarchy.code != units.get("code") or bool(noted and noted != hierarchy.code_identities)
        hierarchy.restore(units, _lanes(broker, checkpoint))
    else:
        for _ in _lanes(broker, checkpoint):
            pass


def _lanes(broker: Broker, checkpoint: StoredCheckpoint) -> Iterator[Mapping[str, Any]]:
    """The parts of a checkpoint that have lanes; the others, with ids seen, go to the broker."""
    for part in checkpoint.parts():
        if SEEN in part:
            broker.ingress.seen.restore_part(part[SEEN])
        else:
            yield part


def _check_unmoved(record: Record, hierarchy: Recoverable, codec: EventCodec) -> None:
    """Raise StateError if another node has sent results of a detector that is here now. O(results of its types)."""
    for entry in record.entries:
        if type(entry) is not ReceivedPayload or entry.peer[0] != "node":
            continue
        for head, block in zip(entry.changes.blocks, entry.blocks, strict=True):
            if head.raw or head.type not in hierarchy.promised:
                continue
            delta = codec.decode(head, block, Drops())
            results = (*delta.inserts, *delta.retracts, *(new for _, new in delta.revises))
            if moved := {event.source for event in results} & hierarchy.finals().keys():
                raise StateError(
                    f"{', '.join(sorted(moved))} ran on another node up to now, and readers here have its results from there: "
                    "made here again, they would be sent twice, and the other node would withdraw some. Let it run where it "
                    "ran, or start all nodes in new state folders"
                )


def _unreadable(drops: Drops) -> int:
    return sum(drops[reason] for reason in _UNREADABLE)


def _lost(record: Record, reads: Collection[str], codec: EventCodec, needed: Mapping[str, str]) -> Drops:
    """The events of a record, by type, that cannot be read any more, although they could be when it was written.

    Their types are gone, or they are raw events that were read before they were admitted. Blocks from nodes, and blocks that
    pass unread, may have held malformed events from the start; those were counted then.
    """
    lost = Drops()
    for entry in record.entries:
        blocks: Iterable[tuple[BlockHead, bytes]] = ()
        if type(entry) is LocalBlock:
            blocks = ((entry.head, entry.block),)
        elif type(entry) is ReceivedPayload and entry.peer[0] == "publisher":
            blocks = zip(entry.changes.blocks, entry.blocks, strict=True)
        for head, block in blocks:
            if head.type not in codec.types:
                lost[head.type] += head.count if head.type in needed else 0
            elif head.type in reads and type(entry) is ReceivedPayload:
                drops = Drops()
                codec.decode(head, block, drops)
                lost[head.type] += _unreadable(drops)
    return +lost


def correcting(published: Delta, replayed: Delta, others: Mapping[Identity, Event | None]) -> Delta:
    """The delta that brings consumers from ``published`` to ``replayed``, both from one start.

    ``others``: the results that are not final, with those that had no subscriber when they came. Replay may make a result, or
    withdraw it, before the first subscription to its type, where the former life did so after, or the reverse. O(changes).
    """
    before, after = _by_identity(published), _by_identity(replayed)
    k_plus = dict(zip(map(IDENTITY, replayed.inserts), replayed.k_plus, strict=True)) if replayed.k_plus is not None else {}
    delta = Delta()
    for identity in before.keys() | after.keys():
        if identity in after:
            now = after[identity][1]
            was = before[identity][1] if identity in before else after[identity][0]
        else:
            now, was = others.get(identity), before[identity][1]  # untouched in replay while anyone subscribed to its type
        if was is not None and now is not None and was.__class__ is now.__class__:
            if not _has_same_value(was, now):
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
        delta.early = [k_plus.get(IDENTITY(event), 0) for event in delta.inserts]
    return delta


def _has_same_value(was: Event, now: Event) -> bool:
    """Whether a consumer that got the one has the other. If ``exactly`` does not know a type, its form on the wire decides."""
    return was == now and (exactly(was, now) or encode(was) == encode(now))


def _floors(before: Mapping[str, int], made: Iterable[Change], gone: Mapping[str, int]) -> dict[str, int]:
    """The promises made for each type: ``before`` by units that are here; by those ``gone``, as far as results show."""
    floors = dict(before)
    for change in made:
        if isinstance(change, Watermark) or change.event.source not in gone:
            continue
        if (name := type_name(change.event.__class__)) in floors:
            floors[name] = max(floors[name], gone[change.event.source])
    return floors


def _above(delta: Delta, promised: Mapping[str, int], final: int, halted: Mapping[str, int]) -> tuple[Delta, int]:
    """The changes to what is not final yet, and how many others there are. ``final``: watermark of types no longer derived.

    ``halted``: watermarks of units that have stopped. One may stop sooner in a replay than it did, before results that were
    final for it, though not for other units of the type: these stand.
    """

    def free(event: Event) -> bool:
        return event.ts > max(promised.get(type_name(event.__class__), final), halted.get(event.source, NEVER))

    kept = Delta(
        [event for event in delta.inserts if free(event)],
        [(old, new) for old, new in delta.revises if free(old) and free(new)],
        [event for event in delta.retracts if free(event)],
    )
    if isinstance(delta.early, list):
        kept.early = [early for event, early in zip(delta.inserts, delta.early, strict=True) if free(event)]
    return kept, len(delta) - len(kept)


def _by_identity(delta: Delta) -> dict[Identity, tuple[Event | None, Event | None]]:
    """The event that stood before and the one that stands after, by identity."""
    states: dict[Identity, tuple[Event | None, Event | None]] = {IDENTITY(event): (event, None) for event in delta.retracts}
    states |= {IDENTITY(new): (old, new) for old, new in delta.revises}
    for event in delta.inserts:
        states[IDENTITY(event)] = (states.get(IDENTITY(event), (None, None))[0], event)
    return states
