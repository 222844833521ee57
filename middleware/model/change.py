"""The change stream: what flows between producers and consumers, one by one or as consolidated deltas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from operator import not_
from typing import TYPE_CHECKING, Generic

import msgspec

from middleware.model.block.block import Block, as_block
from middleware.model.event import IDENTITY, NEVER, TS, Event, Identity, type_name
from middleware.model.values.state import same_event
from middleware.native import by_class, survey_events

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from middleware.model.block.arrays import ArrivalOrder
    from middleware.model.block.mixed_block import AnyBlock

    EventT_co = TypeVar("EventT_co", bound=Event, default=Event, covariant=True)
else:
    from typing import TypeVar

    # Before Python 3.13 a type variable has no default, which only checkers need.
    EventT_co = TypeVar("EventT_co", bound=Event, covariant=True)


class Insert(msgspec.Struct, Generic[EventT_co], frozen=True, tag=True):
    """A new event. ``k_plus``: how much earlier (ns) it came than plain buffering would have allowed (DEBS'13, 4.1)."""

    event: EventT_co
    k_plus: int = 0


class Revise(msgspec.Struct, Generic[EventT_co], frozen=True, tag=True):
    """The event published as ``old`` has new content: ``event``, with the same (source, id)."""

    event: EventT_co
    old: EventT_co


class Retract(msgspec.Struct, Generic[EventT_co], frozen=True, tag=True):
    """An event published before is withdrawn; ``event`` is its content as last published."""

    event: EventT_co


class Watermark(msgspec.Struct, frozen=True, tag=True):
    """No further change with ts <= ``ts`` will come on this stream."""

    ts: int


Change = Insert[EventT_co] | Revise[EventT_co] | Retract[EventT_co] | Watermark


class Delta:
    """A consolidated set of changes: each (type, source, id) occurs at most once, so their order does not matter.

    An identity that has changed its type is in ``retracts`` with the old type and in ``inserts`` with the new one: consumers
    take retracts first.

    ``new``
        new events as they came: a list, or columns of one type or of several.
    ``revises``, ``retracts``
        (old, new) pairs; withdrawn events.
    ``early``
        None if no new event came prematurely, else one K+ (ns) for each; or a time: then each came too early by as much as it
        is later than that.
    ``arrival_order``
        a number for each new event that rises with its arrival, over the events of all types that came together. Only the order
        of the numbers counts. None: the events came at once, as the results of one step do, or their order is unknown. An array
        if they are columns.
    """

    __slots__ = ("arrival_order", "early", "new", "retracts", "revises")

    def __init__(
        self,
        inserts: list[Event] | AnyBlock | None = None,
        revises: list[tuple[Event, Event]] | None = None,
        retracts: list[Event] | None = None,
        early: list[int] | int | None = None,
        arrival_order: ArrivalOrder | None = None,
    ) -> None:
        self.new: list[Event] | AnyBlock = inserts if inserts is not None else []
        self.revises = revises if revises is not None else []
        self.retracts = retracts if retracts is not None else []
        self.early, self.arrival_order = early, arrival_order

    @property
    def inserts(self) -> list[Event]:
        """New events as objects. Those of columns are made, once, and the list is not to be changed then."""
        new = self.new
        return new if isinstance(new, list) else new.events()

    @property
    def given(self) -> AnyBlock | None:
        """New events that came as columns, of one type or of several; None if they came as rows."""
        new = self.new
        return None if isinstance(new, list) else new

    @property
    def columns(self) -> Block | None:
        """New events that came as columns of one type; None if they did not."""
        new = self.new
        return new if type(new) is Block else None  # isinstance asks the abstract class, which takes as long as ten such looks

    @property
    def inserted(self) -> int:
        """How many events are new. O(1), and makes none."""
        return len(self.new)

    @property
    def k_plus(self) -> list[int] | None:
        """How much earlier (ns) each new event came than plain buffering would have allowed; None if none did. O(inserts)."""
        early = self.early
        return _above(self.new, early) if isinstance(early, int) else early

    @property
    def is_early(self) -> bool:
        """Whether a new event came prematurely, or a list says so of none. Makes no list."""
        early = self.early
        return early is not None and (not isinstance(early, int) or _newest(self.new) > early)

    def __bool__(self) -> bool:
        return bool(self.retracts or self.revises or len(self.new))

    def __len__(self) -> int:
        return len(self.new) + len(self.revises) + len(self.retracts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delta):
            return NotImplemented
        return (self.inserts, self.revises, self.retracts, self.k_plus) == (
            other.inserts,
            other.revises,
            other.retracts,
            other.k_plus,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Delta(inserts={self.inserts}, revises={self.revises}, retracts={self.retracts}, k_plus={self.k_plus})"

    def changes(self) -> Iterator[Change]:
        """Return single changes: retractions first, so that a consumer never holds more than it must."""
        for event in self.retracts:
            yield Retract(event)
        for old, new in self.revises:
            yield Revise(new, old)
        inserts = self.inserts
        for event, k_plus in zip(inserts, self.k_plus or [0] * len(inserts), strict=True):
            yield Insert(event, k_plus)

    def by_type(self) -> dict[str, Delta]:
        """Split the changes by event type name, for routing. O(changes)."""
        parts: dict[str, Delta] = {}
        early = self.early
        if (columns := self.columns) is not None:
            parts[type_name(columns.event_type)] = Delta(columns, early=early)
        else:
            for kind, own, places in by_class(self.inserts):
                parts[type_name(kind)] = Delta(own, early=early if places is None else early_at(early, places))
        for pair in self.revises:
            parts.setdefault(type_name(pair[1].__class__), Delta()).revises.append(pair)
        for event in self.retracts:
            parts.setdefault(type_name(event.__class__), Delta()).retracts.append(event)
        return parts


def _newest(new: list[Event] | AnyBlock) -> int:
    return max(map(TS, new), default=NEVER) if isinstance(new, list) else new.newest


def _above(new: list[Event] | AnyBlock, since: int) -> list[int] | None:
    """By how much (ns) each event is later than a time; None if none is. O(n), and makes no object of columns."""
    newest = _newest(new)
    if newest <= since:
        return None
    if isinstance(new, list):
        return [max(0, event.ts - since) for event in new]
    times = new.times
    if newest - since >= 2**63 or since > 2**62:  # times this far apart do not fit
        return [max(0, ts - since) for ts in times.tolist()]
    early = times - since
    early[early < 0] = 0
    return early.tolist()  # type: ignore[no-any-return]


class Batch(msgspec.Struct):
    """The input or output of one step of a node: changes and watermarks by event type, and the clock they were made at.

    ``deltas``
        changes by event type name.
    ``watermarks``
        by event type name: no further change of that type with ts <= this will come from the batch's origin.
    ``clock``
        largest raw occurrence time known at the batch's origin (a clock mark), or None.
    ``stopped``
        event types whose changes are missing from here on: their unit has stopped, and withdrawn what was not final.
    ``reached``
        the latest time that was final, or that an event has, in the streams that have ended at the batch's origin.
    ``floor``
        if given, streams that had ended resume before all else in this batch: everything up to it was final, and stays so.
    ``is_partial``
        only units that read what came take this step; for the others, clock and watermarks move with the next whole one.
    """

    deltas: dict[str, Delta] = {}
    watermarks: dict[str, int] = {}
    clock: int | None = None
    stopped: list[str] = []
    reached: int = NEVER
    floor: int | None = None
    is_partial: bool = False


def combined(deltas: Sequence[Delta]) -> Delta:
    """Several deltas with no identity in common as one. O(changes)."""
    if len(deltas) == 1:
        return deltas[0]
    new = _as_columns(deltas)
    whole = Delta(new if new is not None else list(chain.from_iterable(delta.inserts for delta in deltas)))
    for delta in deltas:
        whole.revises += delta.revises
        whole.retracts += delta.retracts
    whole.early = early_of(deltas)
    if any(delta.arrival_order is not None for delta in deltas):
        whole.arrival_order = _joined_arrival_order(deltas)
    return whole


def early_of(deltas: Iterable[Delta]) -> list[int] | int | None:
    """K+ of the new events of several deltas, as ``Delta.early`` has it. O(inserts); O(deltas) if one time serves all."""
    given = [delta for delta in deltas if delta.inserted]
    if not any(delta.is_early for delta in given):
        return None
    first = given[0].early
    if isinstance(first, int) and all(delta.early == first for delta in given[1:]):
        return first
    return [early for delta in given for early in delta.k_plus or [0] * delta.inserted]


def early_at(early: list[int] | int | None, places: Iterable[int]) -> list[int] | int | None:
    """K+ of the new events at these places, in this order. A time that serves all events serves any of them: then ``places``,
    which may be an array, are not looked at."""
    return list(map(early.__getitem__, places)) if isinstance(early, list) else early


def _as_columns(deltas: Sequence[Delta]) -> Block | None:
    """The new events of several deltas as columns, if they are of one type, and at least half of them came so."""
    columns = [own for delta in deltas if (own := delta.columns) is not None]
    count, total = sum(map(len, columns)), sum(delta.inserted for delta in deltas)
    if not columns or 2 * count < total or len(kinds := {each.event_type for each in columns}) > 1:
        return None
    if count < total:
        (kind,) = kinds
        rows = [event for delta in deltas if delta.columns is None for event in delta.inserts]
        if any(event.__class__ is not kind for event in rows):
            return None
        given = [delta.columns or as_block(kind, delta.inserts) for delta in deltas if delta.inserted]
        columns = [each for each in given if each is not None]
        if len(columns) < len(given):  # a value is not just as its field says: such a row stays what it is
            return None
    return columns[0].joined(columns[1:])


def _joined_arrival_order(deltas: Sequence[Delta]) -> ArrivalOrder:
    """The order of arrival of the events of several deltas. O(deltas) if all are columns."""
    arrays = [
        delta.arrival_order for delta in deltas if not (delta.arrival_order is None or isinstance(delta.arrival_order, list))
    ]
    if len(arrays) == len(deltas):
        import numpy as np

        return np.concatenate(arrays)
    numbers: list[int] = []
    for delta in deltas:
        own = delta.arrival_order
        if own is None:  # what was changed on its way came with what is before it
            own = [numbers[-1] if numbers else 0] * delta.inserted
        numbers += own if isinstance(own, list) else own.tolist()
    return numbers


def grouped(events: Sequence[Event]) -> dict[str, Delta]:
    """New events in the order in which they came, by type name; ``arrival_order`` keeps their order across types. O(events)."""
    found = by_class(events if isinstance(events, list) else list(events))
    return {type_name(kind): Delta(own, arrival_order=places) for kind, own, places in found}


def composed(deltas: Sequence[Delta]) -> Delta:
    """The net effect of deltas that came one after another. O(changes); insertions that are not changed later cost little.

    >>> e, f = Event(ts=5, id=1, source="a"), Event(ts=6, id=2, source="a")
    >>> composed([Delta([e, f]), Delta(retracts=[e])]).inserts == [f]
    True
    """
    touched = {IDENTITY(event) for delta in deltas for event in delta.retracts}
    touched.update(IDENTITY(new) for delta in deltas for _, new in delta.revises)
    if not touched or len(deltas) == 1:  # an identity is never inserted twice without a retraction
        return combined(deltas)
    unchanged: list[Delta] = []
    changes: list[Change] = []
    ids = {number for _, number in touched}
    for delta in deltas:
        if (columns := delta.columns) is not None:  # ids without their sources choose a few too many, at worst
            numbers = columns.ids.tolist()
            moves = [] if ids.isdisjoint(numbers) else [number in ids for number in numbers]
        else:
            moves = [IDENTITY(event) in touched for event in delta.inserts]
        changes += Delta(revises=delta.revises, retracts=delta.retracts).changes()
        if not any(moves):
            unchanged.append(Delta(delta.new, early=delta.early, arrival_order=delta.arrival_order))
            continue
        unchanged.append(some_inserts(delta, map(not_, moves)))
        changes += some_inserts(delta, moves).changes()
    return combined([*unchanged, consolidate(changes)])


def by_time(delta: Delta) -> Delta:
    """Return the delta with its insertions in order of time; those of one time keep their order. O(n) for runs that are in
    order."""
    early = delta.early
    if (columns := delta.columns) is not None:
        if columns.in_time:
            return delta
        times = columns.times
        if (times[1:] >= times[:-1]).all():
            return delta
        places = times.argsort(kind="stable")
        return Delta(columns.take(places), delta.revises, delta.retracts, early_at(early, places))
    inserts = delta.inserts
    if not survey_events(inserts, NEVER, NEVER, True)[3]:  # each is later than all before it
        return delta
    moments = list(map(TS, inserts))
    if sorted(moments) == moments:
        return delta
    order = sorted(range(len(inserts)), key=moments.__getitem__)
    return Delta([inserts[place] for place in order], delta.revises, delta.retracts, early_at(early, order))


def some_inserts(delta: Delta, chosen: Iterable[bool]) -> Delta:
    """The insertions of a delta that are chosen, each with its K+ and its place."""
    chosen, early = list(chosen), delta.early
    listed = list(compress(early, chosen)) if isinstance(early, list) else early
    order = None if delta.arrival_order is None else list(compress(delta.arrival_order, chosen))
    columns = delta.columns
    some = list(compress(delta.inserts, chosen)) if columns is None else columns.filter(chosen)
    return Delta(some, early=listed, arrival_order=order)


def consolidate(changes: Iterable[Change]) -> Delta:
    """The net effect of a run of changes per (source, id), for a consumer that saw none of them. O(changes).

    >>> e = Event(ts=5, id=1, source="a")
    >>> consolidate([Insert(e), Retract(e)])
    Delta(inserts=[], revises=[], retracts=[], k_plus=None)
    """
    first: dict[Identity, Event | None] = {}
    last: dict[Identity, tuple[Event | None, int]] = {}
    for change in changes:
        if isinstance(change, Watermark):
            continue
        identity = IDENTITY(change.event)
        match change:
            case Insert(event, ahead):
                first.setdefault(identity, None)
                last[identity] = (event, ahead)
            case Revise(event, old):
                first.setdefault(identity, old)
                last[identity] = (event, last[identity][1] if identity in last else 0)
            case Retract(event):
                first.setdefault(identity, event)
                last[identity] = (None, 0)
    inserts: list[Event] = []
    delta = Delta(inserts)
    k_plus: list[int] = []
    for identity, (now, ahead) in last.items():
        was = first[identity]
        if was is None and now is not None:
            inserts.append(now)
            k_plus.append(ahead)
        elif was is not None and now is None:
            delta.retracts.append(was)
        elif was is not None and now is not None and was.__class__ is not now.__class__:
            delta.retracts.append(was)
            inserts.append(now)
            k_plus.append(ahead)
        elif was is not None and now is not None and not same_event(was, now):
            delta.revises.append((was, now))
    if any(k_plus):
        delta.early = k_plus
    return delta
