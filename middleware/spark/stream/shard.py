"""A shard: the units of a group of detectors over the keys that are hashed to it, between two micro-batches only bytes. Pure.

A shard is taken up from its state, takes what has come, and gives its state back. The state is one small blob (units, clocks,
results that are held back) and the lanes of keyed detectors in buckets, of which only those that have changed are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import isfinite, isnan
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import xxhash

from middleware.delivery.barrier import Barrier
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.change import Batch, Delta
from middleware.model.errors import DetectorError, StateError
from middleware.model.event import IDENTITY, NEVER, Event, EventType, Identity, field_names, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.spark.archive.archive_plan import lane_text
from middleware.spark.stream.parcels import ParcelBatch
from middleware.spark.stream.stages import StreamPlan

BUCKETS, LANES = 32, 16
"""The least number of buckets for a shard's lanes, and above how many lanes a bucket, on average, it doubles.

A bucket is written when one of its lanes has changed.
"""

_TOGETHER = 1_000_000
FORMAT = "4"
"""The version of the state; another one is refused."""


class OutputRow(NamedTuple):
    """A row of the output. ``op``: insert, revise, retract, final, watermark, late, failed, clash.

    ``watermark``: that of its type; a watermark has its time as ``ts``, too. ``fields``: the event's own fields as JSON ("NaN",
    "Infinity" and "-Infinity" are texts there), or, of what is late or failed, where and why. ``body``: the whole event as
    msgpack.
    A clash is an event whose source and id another one had that came before in this shard, which leaves it out: others, to
    which only one of them is hashed, do not know. An event that comes again after it
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


class Shard:
    """One shard, in memory for the length of a micro-batch."""

    def __init__(self, plan: StreamPlan, number: int) -> None:
        self._plan, self._number, self._group = plan, number, plan.group_of(number)
        self._hierarchy = Hierarchy(plan.plan.detectors, self._group.names, plan.policies, resumes=False)
        self._barrier = Barrier(sorted(self._hierarchy.publications))
        self._seen: dict[Identity, tuple[int, int]] = {}  # the first of an identity: its ts and content, until it is final
        self._clashes: list[Event] = []
        self._outside: dict[str, int] = {}  # watermarks of what comes from outside
        self._watermarks_below: dict[str, dict[int, int]] = {}  # by type, those of the shards below that publish it
        self._buckets = BUCKETS
        self._written: dict[int, int] = {}
        raw = set(map(type_name, plan.plan.raw))
        self._raw = raw & self._hierarchy.subscriptions
        self._below = {
            name: [shard for group in plan.publishers[name] if group is not self._group for shard in group.shards]
            for name in self._hierarchy.subscriptions - raw
        }
        self.published: list[Batch] = []
        """The outputs of the last ``take``, in sequence."""

    @property
    def watermarks(self) -> dict[str, int]:
        """The watermark of each type that is published here."""
        return self._hierarchy.promised

    def take(self, came: ParcelBatch) -> list[OutputRow]:
        """Take what has come in a micro-batch; returns rows of the output, in order."""
        fresh = []
        for known, event in sorted(zip(map(_content, came.events), came.events, strict=True), key=itemgetter(0)):
            first = self._seen.setdefault(IDENTITY(event), known)
            if first is known:
                fresh.append(event)
            elif first != known:
                self._clashes.append(event)
        of_type: dict[EventType, list[Event]] = {}
        for event in fresh:
            of_type.setdefault(event.__class__, []).append(event)
        raw = {type_name(event_type): Delta(inserts) for event_type, inserts in of_type.items()}
        *early, last = came.rounds or [{}]
        self.published = []
        rows = [row for deltas in early for row in self._step(Batch(deltas, dict(self._outside)))]
        self._note_watermarks(came)
        clock = max(came.clock, fresh[-1].ts if fresh else NEVER)
        rows += self._step(Batch(last | raw, dict(self._outside), clock if clock != NEVER else None))
        return rows + list(self._skipped())

    def _note_watermarks(self, came: ParcelBatch) -> None:
        """Note the watermarks of what comes from outside; of types from below, the least of all shards that publish them."""
        if came.watermark != NEVER:
            self._outside |= {name: max(came.watermark, self._outside.get(name, NEVER)) for name in self._raw}
        for name, by_shard in came.watermarks_by_type.items():
            self._watermarks_below.setdefault(name, {}).update(by_shard)
        for name, shards in self._below.items():
            if shards:
                known = self._watermarks_below.get(name, {})
                self._outside[name] = min(known.get(shard, NEVER) for shard in shards)

    def _step(self, batch: Batch) -> list[OutputRow]:
        rows: list[OutputRow] = []
        for published in self._hierarchy.process(batch):
            rows += self._rows(published)
            self.published.append(published)
        if halted := self._hierarchy.halted:
            name, why = next(iter(halted.items()))
            raise DetectorError(f"{name} raised, and nothing more comes of it\n\n{why}")
        return rows

    def _rows(self, batch: Batch) -> Iterator[OutputRow]:
        """The changes in a batch of results, then its watermarks; or what they make final."""
        for name, delta in batch.deltas.items():
            if name in self._hierarchy.subscriptions:
                self._check_shard([*delta.inserts, *(new for _, new in delta.revises)])
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
            yield OutputRow(self._number, "watermark", name, until, 0, "", 0, until, "{}", b"")

    def _check_shard(self, events: Iterable[Event]) -> None:
        for event in events:
            if not self._group.belongs(event, self._number):
                raise DetectorError(
                    f"{event.source} publishes {type_name(event.__class__)} with another {self._group.by} than its cause, "
                    "and its readers are in another shard: give shards=1, or run them in a stream of their own"
                )

    def _row(self, op: str, event: Event, fields: str | None = None) -> OutputRow:
        name = type_name(event.__class__)
        values = fields if fields is not None else _json(event)
        until = self._hierarchy.promised.get(name, NEVER)
        body = msgspec.msgpack.encode(event)
        return OutputRow(self._number, op, name, event.ts, event.id, event.source, event.level, until, values, body)

    def _skipped(self) -> Iterator[OutputRow]:
        """Clashes, events that came too late for a unit, and those at which a detector raised: each is reported once."""
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
        raw = [unit for unit in self._hierarchy.units if not self._raw.isdisjoint(map(type_name, unit.detector.subscribes))]
        final = min((unit.final for unit in raw), default=NEVER)
        self._seen = {identity: known for identity, known in self._seen.items() if known[0] > final}  # older ones would be late
        base = self._hierarchy.state()
        parts = self._hierarchy.parts(_TOGETHER)
        while sum(map(len, parts.values())) > LANES * self._buckets:
            self._buckets *= 2
        buckets: dict[int, list[Any]] = {}
        for name, lanes in parts.items():
            for lane in lanes:
                bucket = xxhash.xxh3_64_intdigest(lane_text(lane[0]).encode()) % self._buckets  # shards have another hash
                buckets.setdefault(bucket, []).append((name, lane))
        types = self._plan.types
        encoded = {bucket: encode_state(sorted(lanes, key=_lane_order), types) for bucket, lanes in buckets.items()}
        hashes = {bucket: xxhash.xxh3_64_intdigest(data) for bucket, data in encoded.items()}
        before = self._written
        changed = {bucket: encoded.get(bucket, b"") for bucket in hashes | before if hashes.get(bucket) != before.get(bucket)}
        self._written = hashes
        whole = (
            FORMAT,
            self._plan.layout,
            base,
            self._barrier,
            self._seen,
            self._outside,
            self._watermarks_below,
            self._buckets,
            hashes,
        )
        return encode_state(whole, types), changed

    def restore(self, base: bytes, buckets: Mapping[int, bytes]) -> None:
        """Become the shard that gave this state. Raises StateError, DetectorError if it is of another hierarchy."""
        types = self._plan.types
        version, *rest = decode_state(base, types)
        if version != FORMAT:
            raise StateError(
                "the checkpoint is of another version of Slackline: resume with that one, or with a new checkpoint"
            )
        layout, state, self._barrier, self._seen, self._outside, self._watermarks_below, self._buckets, self._written = rest
        if layout != self._plan.layout:
            raise StateError(
                f"the checkpoint is of a stream {'; '.join(layout)}, this one is {'; '.join(self._plan.layout)}: "
                "start it as it was, or with a new checkpoint"
            )
        parts: dict[str, list[Any]] = {}
        for data in buckets.values():
            for name, lane in decode_state(data, types) if data else ():
                parts.setdefault(name, []).append(lane)
        self._hierarchy.restore(state, [parts])


_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def _content(event: Event) -> tuple[int, int]:
    """An event's time, and a hash of its type and fields: what repeats have in common, and clashes have not."""
    return event.ts, xxhash.xxh3_64_intdigest(_encode(event), _seed(event.__class__))


@cache
def _seed(event_type: EventType) -> int:
    return xxhash.xxh3_64_intdigest(type_name(event_type).encode())


def _lane_order(named: tuple[str, Any]) -> tuple[str, str]:
    return named[0], lane_text(named[1][0])


def _json(event: Event) -> str:
    own = {name: getattr(event, name) for name in field_names(event.__class__)}
    encoded = msgspec.json.encode(own)
    if b"null" in encoded:  # which stands for a float that is no number, too
        encoded = msgspec.json.encode(_spelled(msgspec.to_builtins(own)))
    return encoded.decode()


def _spelled(value: Any) -> Any:
    """Return the value with floats that JSON does not know as texts."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _spelled(each) for key, each in value.items()}
    return [_spelled(each) for each in value] if isinstance(value, list | tuple) else value
