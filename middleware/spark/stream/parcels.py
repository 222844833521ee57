"""Parcels: the messages between the stages of a stream, each in a row of a DataFrame, to the shard that it is for.

Raw events come to shards in blocks. A shard sends its results to the shards of higher stages that read them, and to all
of these its watermarks, in every micro-batch: so each knows what may still come. Rows of the output go up unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from middleware.model.change import Batch, Delta, by_time
from middleware.model.event import NEVER, Event, EventType, type_name
from middleware.spark.schemas import schema_of
from middleware.spark.spark_blocks import columns_of, opened, sealed, split_rows
from middleware.spark.stream.stages import ShardGroup, StreamPlan

if TYPE_CHECKING:
    import pyarrow as pa

Value = TypeVar("Value")

TIMES, WATERMARKS, CHANGES, ROWS = -1, -2, -3, -4
"""Kinds of parcels; raw events have the number of their type instead."""

_MANY = 16_384
"""The most events in one parcel."""


class Parcel(NamedTuple):
    """``shard``: where it goes; rows of the output have -1 - ``origin``. ``origin``: the shard that sent it, -1 for raw events.

    ``number``: its place among those from there. ``watermark``, ``clock``: in ``TIMES``, that no raw event at or below it will
    come, and the largest time of a raw event, ns; else NEVER.
    """

    shard: int
    origin: int
    number: int
    kind: int
    block: bytes
    watermark: int = NEVER
    clock: int = NEVER


PARCEL = "shard int, origin int, number int, kind int, block binary, watermark bigint, clock bigint"


def of_raw(plan: StreamPlan, type_number: int, batch: pa.RecordBatch) -> Iterator[Parcel]:
    """Raw events of one type, hashed to the shards of each group that reads them."""
    event_type = plan.plan.types[type_number]
    for group in plan.readers(event_type):
        for shard, own in split_rows(batch, group.shards_of(schema_of(event_type), batch)):
            for start in range(0, len(own), _MANY):
                yield Parcel(shard, -1, 0, type_number, sealed(own.slice(start, _MANY)))


def of_times(plan: StreamPlan, watermark: int, clock: int) -> Iterator[Parcel]:
    """Watermark and clock for every shard: so each is called in every micro-batch."""
    for shard in range(plan.shards):
        yield Parcel(shard, -1, 0, TIMES, b"", watermark, clock)


class _ResultChange(NamedTuple):
    """A change of a result: its round, the number of its type, and the event before and after it."""

    round: int
    type: int
    old: bytes | None
    new: bytes | None


def of_results(plan: StreamPlan, origin: int, batches: list[Batch], watermarks: Mapping[str, int]) -> Iterator[Parcel]:
    """The results of a shard in a micro-batch, and its watermarks, for the shards of higher stages that read them."""
    stage = plan.group_of(origin).stage
    changes: dict[int, list[_ResultChange]] = {}
    by_shard: dict[int, dict[str, int]] = {}
    for number, event_type in enumerate(plan.plan.types):
        name = type_name(event_type)
        for group in plan.readers(event_type):
            if name not in watermarks or group.stage <= stage:
                continue
            for shard in group.shards:
                by_shard.setdefault(shard, {})[name] = watermarks[name]
            for at, batch in enumerate(batches):
                for change in _pairs(batch.deltas.get(name)):
                    for shard, (old, new) in _by_shard(group, change):
                        changes.setdefault(shard, []).append(_ResultChange(at, number, old, new))
    for shard, names in by_shard.items():
        yield Parcel(shard, origin, 0, WATERMARKS, _encode(names))
        for at, some in enumerate(_some(changes.get(shard, [])), 1):
            yield Parcel(shard, origin, at, CHANGES, _encode(some))


def of_rows(origin: int, rows: Sequence[tuple[Any, ...]]) -> Iterator[Parcel]:
    """Rows of the output, in their order."""
    for at, some in enumerate(_some(rows)):
        yield Parcel(-1 - origin, origin, at, ROWS, _encode(some))


def rows_in(parcels: Iterable[Parcel]) -> Iterator[list[Any]]:
    """The rows of the output of one shard, in their order."""
    for parcel in sorted(parcels):
        yield from msgspec.msgpack.decode(parcel.block)


@dataclass
class ParcelBatch:
    """The input of a shard in a micro-batch.

    ``events``
        raw events, in any order.
    ``rounds``
        changes to the results of lower stages by type, one round after another.
    ``watermark``, ``clock``
        as in ``Parcel``.
    ``watermarks_by_type``
        the watermark of each type by the shard that publishes it.
    """

    events: list[Event] = field(default_factory=list)
    rounds: list[dict[str, Delta]] = field(default_factory=list)
    watermark: int = NEVER
    clock: int = NEVER
    watermarks_by_type: dict[str, dict[int, int]] = field(default_factory=dict)


def arrived(plan: StreamPlan, parcels: Iterable[Parcel]) -> ParcelBatch:
    """The content of the parcels of a micro-batch to one shard, whatever order they come in."""
    found = ParcelBatch()
    rounds: dict[int, dict[str, Delta]] = {}
    types = plan.plan.types
    for parcel in sorted(parcels):
        if parcel.kind >= 0:
            found.events += schema_of(types[parcel.kind]).events(columns_of(opened(parcel.block)))
        elif parcel.kind == TIMES:
            found.watermark, found.clock = max(found.watermark, parcel.watermark), max(found.clock, parcel.clock)
        elif parcel.kind == WATERMARKS:
            for name, until in msgspec.msgpack.decode(parcel.block).items():
                found.watermarks_by_type.setdefault(name, {})[parcel.origin] = until
        else:
            for change in _decode(parcel.block):
                _add(rounds.setdefault(change.round, {}), types[change.type], change)
    found.rounds = [{name: by_time(delta) for name, delta in rounds[at].items()} for at in sorted(rounds)]
    return found


def _add(deltas: dict[str, Delta], event_type: EventType, change: _ResultChange) -> None:
    delta, decode = deltas.setdefault(type_name(event_type), Delta()), _decoder(event_type).decode
    if change.old is not None and change.new is not None:
        delta.revises.append((decode(change.old), decode(change.new)))
    elif change.old is not None:
        delta.retracts.append(decode(change.old))
    elif change.new is not None:
        delta.inserts.append(decode(change.new))


def _by_shard(group: ShardGroup, change: tuple[Event | None, Event | None]) -> Iterator[tuple[int, list[bytes | None]]]:
    """The sides of a change that each shard of a group gets: both, or one each if the key has changed."""
    found: dict[int, list[bytes | None]] = {}
    for side, event in enumerate(change):
        if event is not None:
            found.setdefault(group.shard_of(event), [None, None])[side] = _encode(event)
    yield from found.items()


def _pairs(delta: Delta | None) -> Iterator[tuple[Event | None, Event | None]]:
    """Each change as the event before it and after it."""
    if delta is not None:
        yield from ((event, None) for event in delta.retracts)
        yield from delta.revises
        yield from ((None, event) for event in delta.inserts)


def _some(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    return (values[at : at + _MANY] for at in range(0, len(values), _MANY))


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(list[_ResultChange]).decode


@cache
def _decoder(event_type: EventType) -> msgspec.msgpack.Decoder[Event]:
    return msgspec.msgpack.Decoder(event_type)
