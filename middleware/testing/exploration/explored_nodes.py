"""A node under exploration: the broker that ships, with or without its log, and a detector that only passes watermarks on."""

from __future__ import annotations

import copyreg
import io
import pickle
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from middleware.broker.broker import Broker
from middleware.broker.effects import Effects
from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import Record
from middleware.durability.durable_core import DurableCore
from middleware.durability.recovery import recover
from middleware.link.codec import EventCodec
from middleware.link.frames import Parts
from middleware.link.gathering import Gathering
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.native import Intervals
from middleware.testing.exploration.exploration_plan import PublisherPlan, SubscriberPlan

copyreg.pickle(Intervals, lambda intervals: (Intervals, intervals.bounds()))  # so that a node can be copied

_T = TypeVar("_T")

RAW, DERIVED = "Raw", "Derived"


class Raw(Event):
    """The raw type of all plans."""

    value: int


class Derived(Event):
    """The results that the detectors would publish; they only promise."""

    value: int


TYPES = EventTypes([Raw, Derived])


class BrokenPromise(AssertionError):
    """A promise does not hold."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        if type(value) not in _SHARED:
            return None
        self.shared.append(value)
        return len(self.shared) - 1


_SHARED = frozenset({EventTypes, EventCodec, Record, PublisherPlan, SubscriberPlan, Gathering})
"""Types of what never changes, of caches of what follows from the event types, and of what is not used here."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, pid: Any) -> Any:
        return self._shared[pid]


def copied(state: _T) -> _T:
    """A copy that shares nothing that changes."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(state)
    file.seek(0)
    copy: _T = _Unpickler(file, pickler.shared).load()
    return copy


def _nobody(channel: Hashable) -> None:
    """There are no keys."""


class StoredRecords:
    """The records that a node has stored."""

    def __init__(self) -> None:
        self.kept: list[Record] = []

    def after(self, offset: int, size: int) -> Iterator[Record]:
        """The records with blocks after an offset."""
        for record in self.kept:
            if max((number for number, *_ in record.blocks()), default=record.first) > offset:
                yield record


class Relay:
    """In place of detectors: it is final as far as its input is promised, and promises that on.

    ``bound``: nothing at or before it may come any more; None until something is promised. ``given``: what came, by identity.
    """

    def __init__(self) -> None:
        self.final = self.newest = NEVER
        self.bound: int | None = None
        self.given: Counter[tuple[str, int]] = Counter()

    def process(self, batch: Batch, finals: Mapping[str, int | None] | None = None) -> list[Batch]:
        """Take a step: check that nothing comes late, then take the new watermark."""
        until = batch.watermarks.get(RAW)
        if batch.floor is not None and self.bound == END:
            self.final = self.bound = batch.floor
        for event in batch.deltas[RAW].inserts if RAW in batch.deltas else ():
            self.given[event.source, event.id] += 1
            self.newest = max(event.ts, self.newest)
            if self.bound is not None and event.ts <= self.bound:
                raise BrokenPromise(
                    f"the event of {event.ts} from {event.source} is late: up to {as_bound(self.bound)} was promised"
                )
        if until is not None and self.bound != END:  # only the floor of a new generation takes an end back
            if self.bound is not None and until < self.bound:
                raise BrokenPromise(f"the watermark goes back from {as_bound(self.bound)} to {as_bound(until)}")
            self.bound, self.final = until, max(until, self.final)
        if finals is not None and finals.get("relay") is not None:
            self.final = max(self.final, finals["relay"] or NEVER)
        return [Batch({}, dict(self.promised), reached=self.reached)]

    def finals(self) -> dict[str, int]:
        return {"relay": self.final}

    def provisional(self) -> list[Event]:
        return []

    @property
    def promised(self) -> dict[str, int]:
        return {DERIVED: self.final}

    def promised_without(self, names: Collection[str]) -> dict[str, int]:
        return self.promised

    @property
    def reached(self) -> int:
        return self.newest if self.final == END else NEVER

    @property
    def halted_at(self) -> Mapping[str, int]:
        return {}

    @property
    def halted(self) -> Mapping[str, str]:
        return {}

    @property
    def code(self) -> dict[str, Any]:
        return {}

    @property
    def code_identities(self) -> dict[str, str]:
        return {}

    def set_aside(self, faults: Mapping[str, str]) -> list[Batch]:
        return []

    def halt(self, names: Collection[str]) -> list[Delta]:
        return []

    def state(self) -> dict[str, Any]:
        return {}

    def parts(self, count: int) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> None: ...


def as_bound(at: int) -> str:
    """A time as people read it."""
    return {END: "the end", NEVER: "nothing"}.get(at, str(at))


class ExploredNode:
    """One node, over all its lives. ``rejected``: the events that it has rejected."""

    def __init__(self, name: str, peers: Collection[str], reads: bool, durable: bool) -> None:
        self.name, self.life = name, 1
        self.rejected: list[RejectedEvent] = []
        self.relay: Relay | None = None
        self.broker: Broker
        self.core: DurableCore | None = None
        self._peers, self._reads = tuple(peers), reads
        self._records = StoredRecords() if durable else None
        self.start(0)

    def start(self, now: int) -> None:
        """Begin a life; one with a log resumes from it."""
        log = Log(1, self._records.after) if self._records is not None else None
        self.relay = Relay() if self._reads else None
        self.broker = Broker(
            self.name,
            self.life << 20,
            now,
            types=TYPES,
            subscriptions=[RAW] if self._reads else [],
            publications=[DERIVED] if self._reads else [],
            derivations={RAW: [DERIVED]} if self._reads else {},
            peers=self._peers,
            log=log,
            rights=_nobody,
        )
        if self._records is not None:
            _, correction = recover(self.broker, self.relay, TYPES, None, self._records.kept)
            self.core = DurableCore(self.broker, self.relay, TYPES)
            self.broker.publish(correction, now)

    @property
    def keeps(self) -> bool:
        """Whether it has a log."""
        return self._records is not None

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """Take what has arrived; returns what is to be sent."""
        batch = self.broker.take(now)
        if batch is not None and self.relay is not None:
            for result in self.relay.process(batch):
                self.broker.publish(result, now)
        if self.core is None or self._records is None:
            return self._done(self.broker.settle(now))
        effects, write = self.core.settle(now)
        sends = self._done(effects)
        if write is not None:
            self._records.kept.append(write.record)
            sends += self._done(self.core.stored(write.record.number))
        return sends

    def _done(self, effects: Effects) -> list[tuple[Hashable, Parts]]:
        self.rejected += effects.rejected
        return effects.sends

    @property
    def floor(self) -> int:
        """Nothing at or before this may come in here any more."""
        return max(promises.floor(RAW) for promises in self.broker.tracker.publishers)

    def copy(self) -> ExploredNode:
        """A copy that shares nothing that changes."""
        return copied(self)
