"""A shard: the units of a hierarchy over the keys that are hashed to it, between two micro-batches only bytes. Pure.

A shard is taken up from its state, takes what has come, and gives its state back. The state is one small blob (units, clocks,
results that are held back) and the lanes of keyed detectors in buckets, of which only those that have changed are written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import xxhash

from middleware.delivery.barrier import Barrier
from middleware.durability.encoding import decode_state, encode_state
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError, StateError
from middleware.model.event import IDENTITY, NEVER, Event, EventType, EventTypes, Identity, type_name
from middleware.model.operator import Operator, result_fields
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.kslack import Lateness
from middleware.ordering.policies import Policies
from middleware.spark.archive.plan import Plan, lane_text
from middleware.spark.blocks import columns_of, is_plain

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from middleware.spark.schemas import EventSchema

BUCKETS, LANES = 64, 8
"""The least number of buckets for a shard's lanes, and above how many lanes a bucket, on average, it doubles.

A bucket is written when one of its lanes has changed.
"""

_TOGETHER = 1_000_000
FORMAT = "3"
"""Of the state; another one is refused."""


class Row(NamedTuple):
    """A row of the output. ``op``: insert, revise, retract, final, watermark, late, failed, clash.

    ``watermark``: that of its type; a watermark has its time as ``ts``, too. ``fields``: the event's own fields as JSON (NaN is
    null there), or, of what is late or failed, where and why. ``body``: the whole event as msgpack, exact.
    A clash is an event whose source and id another one had that came before; it is left out. An event that comes again after it
    has become final is ``late``: older identities are not kept.
    """

    shard: int
    op: str
    type: str
    ts: int
    id: int
    source: str
    level: int
    watermark: int
    fields: str
    body: bytes


SCHEMA = (
    "shard int, op string, type string, ts bigint, id bigint, source string, level bigint, watermark bigint, "
    "fields string, body binary"
)


@dataclass(frozen=True)
class StreamPlan:
    """What all shards share. ``by``: the field by which events are hashed to shards; None: there is one shard.

    ``lateness``: ns. ``finals``: whether only final results come out.
    """

    plan: Plan
    by: str | None
    shards: int
    lateness: int
    finals: bool

    def shard_of(self, event: Event) -> int:
        """The shard of an event: the same for all equal keys. Raises DetectorError for what cannot be a key."""
        return self._hashed(getattr(event, self.by)) if self.by is not None else 0

    def shards_of(self, schema: EventSchema, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        """The shard of each row of a batch of raw events."""
        import numpy as np

        if self.by is None:
            return np.zeros(len(batch), np.int64)
        if not is_plain(schema, (self.by,)):
            return np.array([self.shard_of(event) for event in schema.events(columns_of(batch))], np.int64)
        coded = batch.column(self.by).dictionary_encode(null_encoding="encode")
        shards = np.array([self._hashed(key) for key in coded.dictionary.to_pylist()], np.int64)
        return shards[coded.indices.to_numpy()]  # type: ignore[no-any-return]

    def _hashed(self, key: Any) -> int:
        return zlib.crc32(lane_text(key).encode()) % self.shards

    @property
    def policies(self) -> Policies:
        """How units behave: early results only where somebody gets them."""
        return Policies(1.0 if self.finals else 0.0, lateness=Lateness(1.0, self.lateness))

    @cached_property
    def types(self) -> EventTypes:
        """All event types."""
        return EventTypes(self.plan.types)

    @cached_property
    def layout(self) -> tuple[str, str | None, int]:
        """What stored state depends on besides the detectors."""
        return FORMAT, self.by, self.shards


def common_key(detectors: Iterable[Detector]) -> str | None:
    """A field that is a part of every detector's key, so that events that differ in it never meet; None if there is none."""
    common: list[str] | None = None
    for detector in detectors:
        key = detector.parted_by if isinstance(detector, Operator) else type(detector).key
        fields = (key,) if isinstance(key, str) else key if isinstance(key, tuple) else ()
        common = [name for name in (fields if common is None else common) if name in fields]
    return common[0] if common else None


class Shard:
    """One shard, in memory for the length of a micro-batch."""

    def __init__(self, plan: StreamPlan, number: int) -> None:
        self._plan, self._number = plan, number
        self._hierarchy = Hierarchy(plan.plan.detectors, policies=plan.policies)
        self._barrier = Barrier(sorted(self._hierarchy.publications))
        self._seen: dict[Identity, tuple[int, int]] = {}  # the first of an identity: its ts and content, until it is final
        self._clashes: list[Event] = []
        self._promised: dict[str, int] = {}
        self._buckets = BUCKETS
        self._written: dict[int, int] = {}
        self._read = {type_name(t) for t, readers in plan.plan.readers.items() if readers}

    def take(self, events: list[Event], watermark: int = NEVER) -> list[Row]:
        """Take what has come, in any order; ``watermark``: no event at or below it will come. Returns the changes, in order."""
        fresh = []
        for known, event in sorted(zip(map(_content, events), events, strict=True), key=itemgetter(0)):
            first = self._seen.setdefault(IDENTITY(event), known)
            if first is known:
                fresh.append(event)
            elif first != known:
                self._clashes.append(event)
        return self._stepped(fresh, watermark)

    def _stepped(self, fresh: list[Event], watermark: int) -> list[Row]:
        if watermark != NEVER:
            raw = map(type_name, self._plan.plan.raw)
            self._promised = {name: max(watermark, self._promised.get(name, NEVER)) for name in raw}
        of_type: dict[EventType, list[Event]] = {}
        for event in fresh:
            of_type.setdefault(event.__class__, []).append(event)
        deltas = {type_name(event_type): Delta(inserts) for event_type, inserts in of_type.items()}
        rows: list[Row] = []
        for batch in self._hierarchy.process(Batch(deltas, dict(self._promised), fresh[-1].ts if fresh else None)):
            rows += self._rows(batch)
        if halted := self._hierarchy.halted:
            name, why = next(iter(halted.items()))
            raise DetectorError(f"{name} raised, and nothing more comes of it\n\n{why}")
        return rows + list(self._left_out())

    def _rows(self, batch: Batch) -> Iterator[Row]:
        """The changes in a batch of results, then its watermarks; or what they make final."""
        for name, delta in batch.deltas.items():
            if name in self._read:
                self._check_place([*delta.inserts, *(new for _, new in delta.revises)])
        released = self._barrier.take(batch)
        if self._barrier.violations:
            raise StateError(f"final results were changed, which must never happen: {dict(self._barrier.violations)}")
        if self._plan.finals:
            yield from (self._row("final", event) for event in released)
            return
        for delta in batch.deltas.values():
            yield from (self._row("retract", event) for event in delta.retracts)
        for delta in batch.deltas.values():
            yield from (self._row("revise", new) for _, new in delta.revises)
            yield from (self._row("insert", event) for event in delta.inserts)
        for name, until in batch.watermarks.items():
            yield Row(self._number, "watermark", name, until, 0, "", 0, until, "{}", b"")

    def _check_place(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._plan.shard_of(event) != self._number:
                raise DetectorError(
                    f"{event.source} publishes {type_name(event.__class__)} with another {self._plan.by} than its cause, "
                    "and its readers are in another shard: give shards=1, or run them in a stream of their own"
                )

    def _row(self, op: str, event: Event, fields: str | None = None) -> Row:
        name = type_name(event.__class__)
        told = fields if fields is not None else _json(event)
        until = self._hierarchy.promised.get(name, NEVER)
        body = msgspec.msgpack.encode(event)
        return Row(self._number, op, name, event.ts, event.id, event.source, event.level, until, told, body)

    def _left_out(self) -> Iterator[Row]:
        """Clashes, events that came too late for a unit, and those at which a detector raised: each is told once."""
        for event in self._clashes:
            yield self._row("clash", event)
        self._clashes = []
        for unit in self._hierarchy.units:
            if (listed := unit.take_listed()) is None:
                continue
            for late in listed.late:
                yield self._row("late", late.event, msgspec.json.encode({"detector": unit.name, "final": late.final}).decode())
            for failed in listed.failed:
                why = {"detector": unit.name, "why": failed.failure}
                yield self._row("failed", failed.cause, msgspec.json.encode(why).decode())

    def state(self) -> tuple[bytes, dict[int, bytes]]:
        """The shard as bytes: its base, and the buckets of lanes that have changed since it was taken up."""
        final = min((unit.final for unit in self._hierarchy.units if unit.level == 1), default=NEVER)
        self._seen = {identity: known for identity, known in self._seen.items() if known[0] > final}  # older ones would be late
        base = self._hierarchy.state()
        parts = self._hierarchy.parts(_TOGETHER)
        while sum(map(len, parts.values())) > LANES * self._buckets:
            self._buckets *= 2
        buckets: dict[int, list[Any]] = {}
        for name, lanes in parts.items():
            for lane in lanes:
                bucket = zlib.crc32(lane_text(lane[0]).encode()) % self._buckets
                buckets.setdefault(bucket, []).append((name, lane))
        types = self._plan.types
        encoded = {bucket: encode_state(sorted(lanes, key=_place), types) for bucket, lanes in buckets.items()}
        hashes = {bucket: xxhash.xxh3_64_intdigest(data) for bucket, data in encoded.items()}
        before = self._written
        changed = {bucket: encoded.get(bucket, b"") for bucket in hashes | before if hashes.get(bucket) != before.get(bucket)}
        self._written = hashes
        whole = (self._plan.layout, base, self._barrier, self._seen, self._promised, self._buckets, hashes)
        return encode_state(whole, types), changed

    def restore(self, base: bytes, buckets: Mapping[int, bytes]) -> None:
        """Become the shard that gave this state. Raises StateError, DetectorError if it is of another hierarchy."""
        types = self._plan.types
        layout, *rest = decode_state(base, types)
        if layout[0] != FORMAT:
            raise StateError("the checkpoint is of another version of Slackline: go on with that one, or with a new checkpoint")
        if layout != self._plan.layout:
            raise StateError(
                f"the checkpoint is of a stream by {layout[1]} in {layout[2]} shards, this one is by {self._plan.by} in "
                f"{self._plan.shards}: start it as it was, or with a new checkpoint"
            )
        parts: dict[str, list[Any]] = {}
        for data in buckets.values():
            for name, lane in decode_state(data, types) if data else ():
                parts.setdefault(name, []).append(lane)
        state, self._barrier, self._seen, self._promised, self._buckets, self._written = rest
        self._hierarchy.restore(state, [parts])


_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def _content(event: Event) -> tuple[int, int]:
    """An event's time, and a hash of its type and fields: what repeats have in common, and clashes have not."""
    return event.ts, xxhash.xxh3_64_intdigest(_encode(event), _seed(event.__class__))


@cache
def _seed(event_type: EventType) -> int:
    return xxhash.xxh3_64_intdigest(type_name(event_type).encode())


def _place(named: tuple[str, Any]) -> tuple[str, str]:
    return named[0], lane_text(named[1][0])


def _json(event: Event) -> str:
    return msgspec.json.encode({name: getattr(event, name) for name in result_fields(event.__class__)}).decode()
