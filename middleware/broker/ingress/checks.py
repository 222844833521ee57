"""Checks what publishers send where it enters: only raw events of known types pass, each (source, id) once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import compress
from operator import attrgetter, not_
from typing import Any, Literal

import msgspec

from middleware import native
from middleware.broker.ingress.changed import ChangedEvents, Refusal, version
from middleware.broker.ingress.copies import MOST_READ, Copies, Copy
from middleware.broker.ingress.owners import Owners
from middleware.broker.ingress.publisher_rows import (
    BAD,
    Admitted,
    Bounds,
    changes_in,
    is_stamped,
    is_timely,
    left_of,
    read_parts,
    read_row,
    read_rows,
)
from middleware.broker.ingress.seen import SeenIds, skipped
from middleware.broker.peers.rights import Sender
from middleware.link.codec import (
    OTHER_FIELDS,
    BlockHead,
    Drops,
    EventCodec,
    Run,
    Sample,
    arrival_order_of,
    arrival_order_of_kept,
    encode,
    name_of,
    packed,
)
from middleware.link.columnar import records_of, unpack_columns
from middleware.link.encoding import as_rows, encode_delta
from middleware.link.identities import identities_in
from middleware.model.change import Delta
from middleware.model.errors import WireError
from middleware.model.event import END, IDENTITY, LONGEST_SOURCE, MAX_TS, MIN_TS, Event, EventTypes, Identity, is_source
from middleware.native import span

_identities, _source = attrgetter("source", "id"), attrgetter("source")
Reason = Literal["late", "ahead", "clash", "derived", "source", "right"]


class RejectedEvent(msgspec.Struct, frozen=True):
    """A raw event that its node rejected where it came in.

    ``reason``
        "late": this node has promised that nothing as old will come; "ahead": too far in the future (see ``sources``);
        "clash": another event came first with this source and id, or a change is of another one than the event is;
        "derived": only the nodes whose detectors derive this type may send it; "source": the source belongs to another;
        "right": the key of the publisher has no right to publish this type.
    ``bound``
        the promise, or the limit; of a clash, the time of the event that came first; else the time of the event itself.
    ``change``
        "insert", "revise" or "retract".
    ``record``
        the event as bytes.
    ``current``
        of a change: digest of the present version of the event.
    ``first``
        of a clash: type and record of the event that came first; None if the event was revised since, so only that its change
        is of another one is known.
    ``why``
        details for its publisher, where the reason alone does not say what to do.
    """

    reason: Reason
    bound: int
    change: str
    type: str
    ts: int
    id: int
    source: str
    record: bytes
    current: int | None = msgspec.field(default=None, name="stands")  # as logs have it
    first: tuple[str, bytes] | None = None
    why: str = ""

    @property
    def details(self) -> str:
        """Details beyond the reason: of a clash, what came first."""
        return self.why if self.first is None else f"{self.first[0]} {_shown(self.first[1])} came first"


def _shown(record: bytes) -> str:
    try:
        return repr(tuple(read_row(record)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return repr(record)


_ANYTIME = Bounds()

UNCOMPARED = "duplicate, of what is not known any more"
"""A repeat that cannot be compared with what came first any more."""

LONG_SOURCE = f"source longer than {LONGEST_SOURCE} bytes"
"""The reason for which a node skips events whose source has a name that no node takes."""

_MOST_SAMPLES = 16


class Ingress:
    """Admits blocks from publishers. Events that were seen before, or may not come from outside, are dropped and counted.

    A block that names the identities it holds, all of them new, passes unread; O(runs). Any other is decoded; O(events). What
    comes in columns stays so: only events that are to be dropped, and blocks with an identity twice, are looked at as rows.
    ``rejected``: events that came at a wrong time, or clash with one that came first, for the owner to take and keep.
    ``drops``: others, by reason, and ``samples`` of them; ``uncompared``: how many of the duplicates could not be compared with
    what came first, as that is not known any more. All three are for the owner to clear.
    """

    def __init__(self, types: EventTypes, codec: EventCodec, drops: Drops) -> None:
        self.seen = SeenIds()
        self.owners = Owners()
        self.copies = Copies()
        self.uncompared = 0
        self.samples: list[Sample] = []
        self.changed = ChangedEvents()
        self.rejected: list[RejectedEvent] = []
        self.drops = self._drops = drops
        self._types, self._codec = types, codec
        self._to_read = MOST_READ  # bytes that may be read to compare changes with what came first
        self._is_logged = False
        self._sender: Sender | None = None

    def admit(
        self,
        head: BlockHead,
        block: bytes,
        decode: bool,
        bounds: Bounds = _ANYTIME,
        is_logged: bool = False,
        sender: Sender | None = None,
    ) -> list[Admitted]:
        """The admitted parts of a block; ``decode``: the caller needs the changes themselves, too. ``is_logged``: it was
        admitted in a former life, so it is not checked against earlier versions. ``sender``: whose sources must be its own;
        None: anyone."""
        self._is_logged, self._sender = is_logged, sender
        runs, head.runs, head.raw, head.since = head.runs, None, True, None  # publishers send nothing early
        self._to_read = min(self._to_read + len(block), MOST_READ)
        if head.type not in self._types and len(self._types):
            self._drop("unknown type", max(head.count, 1), head.type)
            return []
        if not self._codec.fits(head):
            self._drop(OTHER_FIELDS, max(head.count, 1), head.type, self._codec.complaint(head, block))
            return []
        if runs and not decode and self._is_as_named(head, block, runs, bounds) and self.seen.add_runs(runs):
            self.copies.keep(head, block, runs)
            return [(head, block, None)]
        admitted = self._admit_read(head, block, bounds)
        for kept, data, _ in admitted:
            self.copies.keep(kept, data, runs)
        return admitted

    def _admit_read(self, head: BlockHead, block: bytes, bounds: Bounds) -> list[Admitted]:
        """Admit a block that has to be read. O(events)."""
        if head.type not in self._types:
            return self._admit_unknown(head, block, bounds)
        dropped, rejected = self._drops.total(), len(self.rejected)
        whole = self._codec.decode(head, block, self._drops)
        if self._drops.total() != dropped:
            self._complain(head, block)
        delta = self._owned(head.type, whole) if self._sender is not None else whole
        fresh = self._new_columns(head, delta, bounds)
        if fresh is None:
            is_near = head.newest is not None and head.newest <= bounds.high  # then so is all that was decoded
            credible = delta if is_near else self._credible(delta, bounds.high)
            fresh = self._timely(head.type, self._fresh(head.type, credible, bounds), bounds)
        if bounds.low != END:  # one publisher has ended the type, and others may still change what they sent
            self.changed.forget(head.type, bounds.low)
        if not fresh:
            return []
        if head.arrival_order is not None and fresh.columns is None and len(fresh.inserts) < head.inserts:
            fresh.arrival_order = arrival_order_of_kept(head, whole.inserts, fresh.inserts)
        if self._drops.total() == dropped and len(self.rejected) == rejected and len(fresh) == head.count:
            return [(head, block, fresh)]
        blocks = encode_delta(head.type, fresh, raw=True)
        if len(blocks) == 1:
            return [(*blocks[0], fresh)]
        return [(part, data, self._codec.decode(part, data, self._drops)) for part, data in blocks]

    def _new_columns(self, head: BlockHead, delta: Delta, bounds: Bounds) -> Delta | None:
        """The delta without events that may not come in, which are checked as rows are. None if it is not in columns, or has
        an identity twice: then all of it is to be looked at as rows. O(events), and O(1) for each in Python only if dropped.
        """
        columns = delta.columns
        if columns is None or not len(columns):
            return None
        block = columns.core_block
        is_timely = block is not None and block.oldest > bounds.low and block.newest <= bounds.high  # nearly always
        good = None if is_timely else columns.times <= bounds.high
        new = self.seen.take_columns(columns if good is None or good.all() else columns.filter(good))
        if new is None:
            return None
        if good is None:
            if 0 not in new:
                return delta
            good = columns.times <= bounds.high
        import numpy as np

        good[good] = np.frombuffer(new, np.bool_)
        if good.all() and columns.times.min() > bounds.low:
            return delta
        late = good & (columns.times <= bounds.low)  # it counts as seen, as everywhere
        self._timely(head.type, Delta(list(columns.filter(late))), bounds)
        self._fresh(head.type, self._credible(Delta(list(columns.filter(~good))), bounds.high), bounds)
        good &= ~late
        order = arrival_order_of(head, len(columns))
        return Delta(columns.filter(good), arrival_order=order and list(compress(order, good)))

    def _drop(self, reason: str, count: int, name: str, details: str = "") -> None:
        self._drops[reason] += count
        self._sample(Sample(reason, name, details=details))

    def _drop_misnamed(self, name: str, sources: list[str]) -> None:
        """Count events whose sources have no name, or one that is too long."""
        if nameless := sources.count(""):
            self._drop("no source", nameless, name)
        if len(sources) > nameless:
            longest = max(sources, key=len)
            self._drop(LONG_SOURCE, len(sources) - nameless, name, f"{longest[:60]}... has {len(longest):,} characters")

    def _sample(self, sample: Sample) -> None:
        if len(self.samples) < _MOST_SAMPLES:
            self.samples.append(sample)

    def _complain(self, head: BlockHead, block: bytes) -> None:
        """Samples of what could not be decoded."""
        details = self._codec.complaint(head, block)
        for reason in self._drops:
            self._sample(Sample(reason, head.type, details=details if reason.startswith("malformed") else ""))

    def _is_as_named(self, head: BlockHead, block: bytes, runs: list[Run], bounds: Bounds) -> bool:
        """Whether a block of new events, which nothing here reads, may come in: it holds the identities that its head names,
        all of them of raw events, and at the times that are named. O(bytes), in the core."""
        if not is_timely(head, bounds):
            return False
        sender = self._sender
        for source, _, _ in runs:
            if not is_source(source) or (sender is not None and self._objection(source, sender)):
                return False
        if head.columns:
            found = identities_in(block, head.inserts)
            times = native.times_of_claimed_columns(found.times, found.ids, found.codes, found.names, runs) if found else None
        else:
            times = native.times_of_claimed(block, head.inserts, runs)
        if times is None or not bounds.low < times[0] or times[1] > bounds.high:
            return False
        head.oldest, head.newest = times
        return True

    def _reject_events(self, reason: Reason, bound: int, change: str, events: Iterable[Event]) -> None:
        self.rejected += [
            RejectedEvent(reason, bound, change, name_of(event), event.ts, event.id, event.source, encode(event))
            for event in events
        ]

    def _reject_change(self, name: str, reason: Reason, bound: int, change: str, event: Event) -> None:
        """Reject a change that came at a wrong time, or that rests on one that did: the event stays as it was."""
        current = self.changed.current(name, IDENTITY(event))
        record = encode(event)
        self.rejected.append(RejectedEvent(reason, bound, change, name, event.ts, event.id, event.source, record, current))

    def _objection(self, source: str, sender: Sender) -> str:
        """Why a sender may not send this source; empty if it may. What a log holds was admitted."""
        if self._is_logged:
            self.owners.had(source, sender)
            return ""
        return self.owners.objection(source, sender)

    def _foreign(self, sources: Iterable[str]) -> dict[str, str]:
        """The sources that the sender may not send, each with the reason."""
        sender = self._sender
        if sender is None:
            return {}
        # events of sources without a proper name are dropped, and nobody has these: owners are remembered
        return {source: why for source in sources if is_source(source) and (why := self._objection(source, sender))}

    def _owned(self, name: str, delta: Delta) -> Delta:
        """The delta without changes to events of sources that belong to others. O(events), O(sources) in columns."""
        columns = delta.columns
        if columns is not None:
            sources: Collection[str] = columns.core_block.sources() if columns.core_block is not None else columns.sources()
        else:
            sources = set(map(_source, delta.inserts))
        if delta.revises or delta.retracts:
            changed = [event for pair in delta.revises for event in pair] + delta.retracts
            sources = {*sources, *map(_source, changed)}
        foreign = self._foreign(sources)
        if not foreign:
            return delta
        for change, events in (
            ("insert", delta.inserts),
            ("revise", [new for old, new in delta.revises if old.source in foreign or new.source in foreign]),
            ("retract", delta.retracts),
        ):
            for event in events:
                if why := foreign.get(event.source, "" if change != "revise" else "it is revised to another source"):
                    self._reject_foreign(name, change, event.ts, event.id, event.source, encode(event), why)
        return Delta(
            [event for event in delta.inserts if event.source not in foreign],
            [(old, new) for old, new in delta.revises if old.source not in foreign and new.source not in foreign],
            [event for event in delta.retracts if event.source not in foreign],
        )

    def _owned_rows(self, name: str, rows: list[list[Any]]) -> list[list[Any]]:
        """The rows of new events without those of sources that belong to others. O(rows)."""
        foreign = self._foreign({row[-2] for row in rows if is_stamped(row)})
        if not foreign:
            return rows
        for row in rows:
            if is_stamped(row) and (why := foreign.get(row[-2])):
                self._reject_foreign(name, "insert", row[-4], row[-3], row[-2], encode(row), why)
        return [row for row in rows if not is_stamped(row) or row[-2] not in foreign]

    def _reject_foreign(self, name: str, change: str, ts: int, number: int, source: str, record: bytes, why: str) -> None:
        self.owners.rejected(source)
        self.rejected.append(RejectedEvent("source", ts, change, name, ts, number, source, record, why=why))

    def reject(self, head: BlockHead, block: bytes, reason: Reason, why: str) -> None:
        """Reject all changes of a block that its publisher may not send. Their identities stay free. O(events)."""
        try:
            changes = list(changes_in(head, block))
        except BAD:
            self._drop("malformed block", max(head.count, 1), head.type)
            return
        sound = [(change, row) for change, row in changes if is_stamped(row)]
        if malformed := len(changes) - len(sound):
            self._drop("malformed event", malformed, head.type)
        for change, row in sound:
            ts, number, source, _ = row[-4:]
            self.rejected.append(RejectedEvent(reason, ts, change, head.type, ts, number, source, encode(row), why=why))

    def restore_rejection(self, rejected: RejectedEvent) -> None:
        """An event was rejected in a former life: it counts as seen, and nothing may rest on it."""
        if rejected.reason == "late":  # what was too far ahead may come again in its time
            self.seen.add(rejected.source, rejected.id)
        if rejected.current is not None:
            self.changed.refuse(
                rejected.type,
                (rejected.source, rejected.id),
                rejected.ts,
                rejected.current,
                "ahead" if rejected.reason == "ahead" else "late",
            )

    def _credible(self, delta: Delta, high: int) -> Delta:
        """The delta without new events too far ahead; these do not count as seen, so they may come again in their time."""
        if span(delta.inserts)[1] <= high:
            return delta
        self._reject_events("ahead", high, "insert", [event for event in delta.inserts if event.ts > high])
        return Delta([event for event in delta.inserts if event.ts <= high], delta.revises, delta.retracts)

    def _timely(self, name: str, delta: Delta, bounds: Bounds) -> Delta:
        """The delta without changes at or below what this node has promised, and without revisions that would move an event
        too far ahead."""
        low, high = bounds
        if not delta.revises and not delta.retracts and span(delta.inserts)[0] > low:
            return delta
        times = [event.ts for event in (*delta.inserts, *delta.retracts)] + [min(old.ts, new.ts) for old, new in delta.revises]
        if not times or (min(times) > low and all(new.ts <= high for _, new in delta.revises)):
            return delta
        self._reject_events("late", low, "insert", [event for event in delta.inserts if event.ts <= low])
        self._reject_events("late", low, "retract", [event for event in delta.retracts if event.ts <= low])
        revises = []
        for old, new in delta.revises:
            if min(old.ts, new.ts) > low and new.ts <= high:
                revises.append((old, new))
                continue
            reason: Refusal = "late" if min(old.ts, new.ts) <= low else "ahead"
            self.changed.refuse(name, IDENTITY(old), max(old.ts, new.ts), version(old), reason)
            self._reject_change(name, reason, low if reason == "late" else high, "revise", new)
        return Delta(
            [event for event in delta.inserts if event.ts > low], revises, [event for event in delta.retracts if event.ts > low]
        )

    def _fresh(self, name: str, delta: Delta, bounds: Bounds) -> Delta:
        """The delta without repeats, and without changes to events that never came. O(changes)."""
        seen, drops = self.seen, self._drops
        new = seen.take_named(delta.inserts)
        if len(new) < len(delta.inserts):
            left = skipped(delta.inserts, new)
            self._drop_misnamed(name, [event.source for event in left if not is_source(event.source)])
            if again := [event for event in left if is_source(event.source)]:
                here = {IDENTITY(event): (name, event.ts, encode(event)) for event in new}
                self.came_again(name, ((event.ts, event.id, event.source, encode(event)) for event in again), here)
        if not delta.revises and not delta.retracts:
            return Delta(new)
        known = [pair for pair in delta.revises if _identities(pair[0]) == _identities(pair[1]) in seen]
        gone = [event for event in delta.retracts if _identities(event) in seen]
        if strays := len(delta) - len(delta.inserts) - len(known) - len(gone):
            drops["change to an event never seen"] += strays
        retracts, revises = [], []
        self.copies.begin(self._to_read)
        for old, after in [*((event, None) for event in gone), *known]:
            if not self._is_of(name, old, after):
                continue
            outcome = self.changed.change(name, old, after)
            if outcome == "again":
                drops["change made before"] += 1
            elif outcome != "new":
                bound = bounds.low if outcome == "late" else bounds.high
                self._reject_change(name, outcome, bound, "retract" if after is None else "revise", after or old)
            elif after is None:
                retracts.append(old)
            else:
                revises.append((old, after))
        self._to_read = self.copies.left
        return Delta(new, revises, retracts)

    def _is_of(self, name: str, old: Event, after: Event | None) -> bool:
        """Whether an event is what its change says it was, as far as that is known; if not, the change is rejected: else
        readers would have different events. Reads no more bytes than have come in."""
        if self._is_logged:
            return True
        current = self.changed.is_of(name, old)
        if current or (current is not None and after is not None):  # ``changed`` looks at revisions
            return True
        first = self.copies.find(old.source, old.id) if current is None else None
        if current is None and (first is None or (first[0] == name and self._codec.same(name, first[2], encode(old)))):
            return True
        change, record = "retract" if after is None else "revise", encode(after or old)
        at, came = (_time(first[1]), (first[0], first[2])) if first is not None else (old.ts, None)
        self.rejected.append(RejectedEvent("clash", at, change, name, old.ts, old.id, old.source, record, first=came))
        return False

    def came_again(
        self, name: str, events: Iterable[tuple[int, int, str, bytes]], here: Mapping[Identity, Copy] | None = None
    ) -> None:
        """Count events (ts, id, source, record) whose identity had been seen: repeats if they equal what came first, or if
        that is not known any more; others clash. ``here``: new events of the same block. O(1) each, mostly.
        """
        self.copies.begin()
        for ts, number, source, record in events:
            first = (here or {}).get((source, number)) or self.copies.find(source, number)
            kind, at, was = first or (name, 0, record)
            if kind != name or (was != record and not self._codec.same(name, was, record)):
                self.rejected.append(
                    RejectedEvent("clash", _time(at), "insert", name, ts, number, source, record, first=(kind, was))
                )
                continue
            self._drops["duplicate"] += 1
            if first is None:
                self.uncompared += 1
                self._sample(Sample(UNCOMPARED, name, ts, number, source))

    def _admit_unknown(self, head: BlockHead, block: bytes, bounds: Bounds) -> list[Admitted]:
        """A broker without registered types still looks for duplicates: identities stand at the end of every record."""
        if head.columns:
            if (admitted := self._admit_unknown_columns(head, block, bounds)) is not None:
                return admitted
            head, block = as_rows(head, block)
        try:
            rows = read_rows(block) if head.plain else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            rows = None
            if head.plain:
                self._drop("malformed block", max(head.count, 1), head.type)
                return []
        if rows is None:
            return self._admit_unknown_changes(head, block, bounds)
        kept = self._admit_rows(self._owned_rows(head.type, rows), head.type, bounds)
        if not kept:
            return []
        return [left_of(head, block, rows, kept)]

    def _admit_unknown_changes(self, head: BlockHead, block: bytes, bounds: Bounds) -> list[Admitted]:
        """Admit a block with revisions or withdrawals of events that have come. O(changes)."""
        try:
            inserts, _, revises, retracts = read_parts(block)
        except BAD:
            self._drop("malformed block", max(head.count, 1), head.type)
            return []
        news = self._admit_rows(self._owned_rows(head.type, inserts), head.type, bounds)
        revised = [pair for pair in revises if self._may_change(head.type, "revise", *pair, bounds)]
        gone = [row for row in retracts if self._may_change(head.type, "retract", row, row, bounds)]
        if not (news or revised or gone):
            return []
        order = packed(arrival_order_of_kept(head, inserts, news))
        kept = msgspec.structs.replace(
            head, inserts=len(news), revises=len(revised), retracts=len(gone), oldest=None, newest=None, arrival_order=order
        )
        return [(kept, encode((news, None, revised, gone)), None)]

    def _may_change(self, name: str, change: str, old: list[Any], new: list[Any], bounds: Bounds) -> bool:
        """Whether a change of a row is admitted; if not, it is rejected, or counted."""
        if not (is_stamped(old) and is_stamped(new)):
            self._drop("malformed event", 1, name)
            return False
        ts, number, source, _ = new[-4:]
        if [number, source] != old[-3:-1] or (source, number) not in self.seen:
            self._drops["change to an event never seen"] += 1
            return False
        if why := self._foreign([source]).get(source):
            self._reject_foreign(name, change, ts, number, source, encode(new), why)
            return False
        reason: Reason | None = "late" if min(old[-4], ts) <= bounds.low else "ahead" if ts > bounds.high else None
        if reason is not None:
            bound = bounds.low if reason == "late" else bounds.high
            self.rejected.append(RejectedEvent(reason, bound, change, name, ts, number, source, encode(new)))
        return reason is None

    def _admit_unknown_columns(self, head: BlockHead, block: bytes, bounds: Bounds) -> list[Admitted] | None:
        """Admit a block in columns that names its times: only its identities are read, unless one is a repeat. None if
        all of it is to be looked at as rows: no identity counts as seen by then. O(events), in the core.
        """
        found = identities_in(block, head.inserts) if is_timely(head, bounds) else None
        if found is not None and self._foreign(found.names):
            return None
        new = self.seen.take_identities(found) if found is not None else None
        if new is None or 0 not in new:
            return None if new is None else [(head, block, None)]
        try:
            rows = records_of(unpack_columns(block, head.inserts))
        except WireError:
            self._drop("malformed block", max(head.count, 1), head.type)
            return []
        kept = list(compress(rows, new))
        self._rows_again(head.type, list(compress(rows, map(not_, new))), kept)
        return [left_of(msgspec.structs.replace(head, columns=False), block, rows, kept)] if kept else []

    def _admit_rows(self, rows: list[list[Any]], name: str, bounds: Bounds) -> list[list[Any]]:
        """The rows that are events, each for the first time: (..., ts, id, source, level) with level 0."""
        kept: list[list[Any]] = []
        again: list[list[Any]] = []
        malformed = 0
        misnamed: list[str] = []
        low, high = bounds
        adders: dict[str, Callable[[int], bool]] = {}
        for row in rows:
            if len(row) >= 4:
                ts, number, source, level = row[-4:]
                if (
                    source.__class__ is str
                    and source
                    and number.__class__ is ts.__class__ is int
                    and MIN_TS < ts < MAX_TS
                    and -(2**63) <= number < 2**63
                    and level.__class__ is int
                    and not level
                ):
                    add = adders.get(source)
                    if add is None:
                        if not is_source(source):
                            misnamed.append(source)
                            continue
                        add = adders[source] = self.seen.of(source).add
                    if ts > high:
                        self.rejected.append(RejectedEvent("ahead", high, "insert", name, ts, number, source, encode(row)))
                    elif add(number):
                        if ts > low:
                            kept.append(row)
                        else:
                            self.rejected.append(RejectedEvent("late", low, "insert", name, ts, number, source, encode(row)))
                    else:
                        again.append(row)
                    continue
            malformed += 1
        if malformed:
            self._drop("malformed event", malformed, name)
        self._drop_misnamed(name, misnamed)
        if again:
            self._rows_again(name, again, kept)
        return kept

    def _rows_again(self, name: str, again: list[list[Any]], kept: list[list[Any]]) -> None:
        """Count rows whose identity had been seen; ``kept``: the new ones of the same block."""
        here: dict[Identity, Copy] = {(row[-2], row[-3]): (name, row[-4], encode(row)) for row in kept}
        self.came_again(name, ((row[-4], row[-3], row[-2], encode(row)) for row in again), here)


def _time(at: int) -> int:
    """A time from bytes that were forwarded without a check, so it may be any number."""
    return min(max(at, MIN_TS), MAX_TS)
