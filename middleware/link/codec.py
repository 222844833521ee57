"""Payloads between brokers and clients, and events as bytes.

A payload is one header part and one part per *block*, the changes of one event type. The header names type and counts,
so a broker routes on it and forwards the blocks unchanged; only readers of the events decode them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from struct import pack, unpack
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from middleware import native
from middleware.link.columnar import takes_columns, unpack_columns
from middleware.link.frames import Count, Name, Parts
from middleware.model.block.arrays import to_array
from middleware.model.block.block import Block, has_own_form
from middleware.model.block.rows import reader_of
from middleware.model.change import Delta
from middleware.model.errors import EventError, WireError
from middleware.model.event import (
    END,
    MAX_TS,
    MIN_TS,
    NEVER,
    Event,
    EventType,
    EventTypes,
    Timestamp,
    field_names,
    type_name,
)
from middleware.model.schema import Form, can_read, fields_of, form_of, plain_type, same_names
from middleware.model.values import carried
from middleware.model.values.first_use import prepare
from middleware.model.values.nesting import checked_nesting, may_nest
from middleware.native import span

if TYPE_CHECKING:
    import pyarrow as pa

    from middleware.model.block.arrays import Array, ArrivalOrder

MAX_FRAME = 8 * 2**20
"""Bytes of payload beyond which a frame is refused."""

LARGEST_BLOCK = MAX_FRAME - 64 * 1024
"""Most bytes in a block, which leaves room for the header."""

BLOCK_TARGET = 256 * 1024
"""Bytes at which senders begin another block or frame: small beside the credit of a link, so that frames flow."""

FEWEST_ROWS = 32
"""Fewer events than this are sent as rows, even where they are at hand in columns."""

FEWEST_IN_COLUMNS = 128
"""Fewer events than this that came as rows stay rows: what is done once for columns would cost more than it saves."""

MOST_TYPES = 10_000
"""Types, or patterns of types, that one peer may name; a node widens the patterns of its readers until they fit."""

MOST_NAME_BYTES = 2**20
"""Most bytes of patterns that a node names, so that its Interest fits into a frame."""

OTHER_FIELDS = "other fields"
"""The reason for which a node skips events whose class has other fields here than where they were made."""

MOST_ORDERED = 2**16
"""Most events in a payload that keeps their order across types."""

OnSlow = Literal["block", "disconnect"]
TypeName = Annotated[str, msgspec.Meta(max_length=256)]
TypeNames = Annotated[list[TypeName], msgspec.Meta(max_length=MOST_TYPES)]
WatermarkTime = Annotated[int, msgspec.Meta(ge=MIN_TS, le=MAX_TS)]
Drops = Counter[str]
"""Events (or frames) dropped, by reason."""

Run = tuple[str, int, int]
"""Identities (source, first, last): all ids from first to last, both included."""


class BlockHead(msgspec.Struct, array_like=True, gc=False):
    """The head of a block. ``plain``: a bare array of inserted events, without K+, revisions and retractions.

    ``raw``: comes from a publisher, so every level must be 0. ``runs``: the identities inserted, if the publisher gave
    them; with them the broker finds duplicates without decoding. ``oldest``, ``newest``: the least and the largest
    time in a plain block from a publisher, for the same reason; events later than ``newest`` are not taken.
    ``arrival_order``: the place of each inserted event in the order of arrival over all blocks of its payload, 2 bytes each,
    little-endian. None: they came in this order.
    ``arrival``: number of the payload at the node where it came in; 0 if its blocks have no order.
    ``columns``: the block is an Arrow record batch of inserted events (see ``columnar``). Only peers that say so get any.
    ``since``: events of a plain block that lie above this time came too early, by so much (K+).
    ``form``: which fields the type has where its events were made (``schema.form_of``), if that is known there: values are sent
    without names, so a receiver whose class has others, of other kinds, or in another order, would misread them.
    """

    type: TypeName
    inserts: Count
    revises: Count = 0
    retracts: Count = 0
    plain: bool = True
    raw: bool = False
    runs: list[Run] | None = None
    oldest: Timestamp | None = None
    newest: Timestamp | None = None
    arrival_order: bytes | None = None
    arrival: Count = 0
    columns: bool = False
    since: WatermarkTime | None = None
    form: Form | None = None

    @property
    def count(self) -> int:
        return self.inserts + self.revises + self.retracts


class Changes(msgspec.Struct, array_like=True, tag=0, gc=False):
    """Blocks of changes, then watermarks: ``watermarks`` replaces all that this sender promised before, None keeps it.

    ``line``, ``offset``: the offset in the sender's log that this leads to; 0 if it keeps none. ``generation``: to a
    subscriber, that of the node: from these blocks on, streams that had ended in an earlier generation resume.
    """

    clock: Timestamp | None
    watermarks: Annotated[dict[TypeName, WatermarkTime], msgspec.Meta(max_length=MOST_TYPES)] | None
    blocks: list[BlockHead]
    line: Count = 0
    offset: Count = 0
    generation: Count = 0


SinkPosition = tuple[Timestamp, Count, str, int]
"""The order key of an event: a barrier has delivered everything up to it."""


class Interest(msgspec.Struct, array_like=True, tag=1):
    """The types that the sender subscribes to or may send: always complete, so it replaces the Interest before.

    ``raw``, ``derived``: types it may send. ``paused``: patterns it has no room for at the moment.
    ``line``, ``offset``: the offset it has reached in the receiver's log; 0 if it has received nothing yet.
    ``keeps``: it has a log itself, so its state survives a restart. ``resumes``: it resumes at the offset kept under its name
    or, if all it has is finals up to ``after`` (a sink that was restored from an older copy), at the offset it had then.
    ``generation``: the one in which it promises from now on. ``reached``: the latest time that was final there by then;
    ``backdate``: how far earlier than raw events results may be; ``floor``: the time from which on all streams resume, if it is
    known; ``before``: the floor of the last generation.
    ``logged``: types that no publisher there sends any more, but of which its log may hold events the receiver has yet to get.
    ``final``: whether it reads finals, or changes as they come; None: it does not say.
    """

    number: Count
    subscriptions: TypeNames = []
    on_slow: OnSlow = "block"
    raw: TypeNames = []
    derived: TypeNames = []
    paused: TypeNames = []
    line: Count = 0
    offset: Count = 0
    keeps: bool = False
    resumes: bool = False
    after: SinkPosition | None = None
    generation: Count = 0
    reached: WatermarkTime = NEVER
    backdate: Count = 0
    floor: WatermarkTime | None = None
    logged: TypeNames = []
    before: WatermarkTime | None = None
    final: bool | None = None


class Cover(msgspec.Struct, array_like=True, tag=10):
    """A node has taken the Interest of this number: it waits for all types that it names. ``floors``: by type, up to which
    time the node has called it final, if it has; the receiver lets nothing as old come in (see ``covering``).
    """

    number: Count
    floors: Annotated[dict[TypeName, WatermarkTime], msgspec.Meta(max_length=MOST_TYPES)]


class Ready(msgspec.Struct, array_like=True, tag=2):
    """To a subscriber: all nodes have taken the Interest of this number, so what they send from now on will arrive.
    To a node: this one has, and all that it sends behind this is by that Interest.
    """

    number: Count


class Commit(msgspec.Struct, array_like=True, tag=3):
    """From a subscriber with a name: it has read the log ``line`` up to ``offset``, and has finals up to ``position``."""

    line: Count
    offset: Count
    position: SinkPosition | None = None


class LastCommit(msgspec.Struct, array_like=True, tag=7):
    """To a subscriber that resumes its name: the position up to which its last life had finals."""

    position: SinkPosition | None


class Gap(msgspec.Struct, array_like=True, tag=4):
    """Changes are missing after the offset that the receiver had reached: of these types, or (none) of all that the sender has.

    ``stopped``
        the unit that made these types has stopped, and withdrawn what was not final: all that was sent before stands.
    """

    line: Count
    offset: Count
    types: list[str] = []
    stopped: bool = False


class Question(msgspec.Struct, array_like=True, tag=5):
    """Please tell what your streams wait for (``waiting``); from a publisher: what became of what it sent (``Tally``)."""

    number: Count


class Answer(msgspec.Struct, array_like=True, tag=6):
    """The answer to a question: a ``NodeStatus`` as JSON."""

    number: Count
    body: bytes


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """A change that was rejected: as much of it as is known. ``details``: where the reason does not say enough."""

    reason: str
    type: str
    ts: int | None = None
    id: int | None = None
    source: str | None = None
    details: str = ""


class Tally(msgspec.Struct, array_like=True, tag=8):
    """To a publisher that asks (``Question``): what became of all that it has sent before, in this life of the link.

    ``taken``: changes that were admitted. ``rejected``: how many were not, by reason, with some samples. A node older than
    this payload sends an ``Answer``; a publisher of that age ignores all that it is sent.
    """

    number: Count
    taken: Count
    rejected: dict[str, Count] = {}
    samples: list[Sample] = []


class Release(msgspec.Struct, array_like=True, tag=9):
    """From a subscriber: the node is to keep the places of these named subscriptions no longer. ``names``: a name, or the
    beginning of names and a ``*``. It keeps those that are attached, and those that belong to another key."""

    names: Annotated[list[Name], msgspec.Meta(max_length=MOST_TYPES)]


Payload = Changes | Interest | Cover | Ready | Commit | Gap | LastCommit | Question | Answer | Tally | Release


encode = carried.encode
encode_alike = carried.encode_alike

_decode_payload: Callable[[bytes], Payload] = msgspec.msgpack.Decoder(Payload).decode
_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_any = msgspec.msgpack.Decoder().decode
_parts = msgspec.msgpack.Decoder(tuple[msgspec.Raw, list[int] | None, list[msgspec.Raw], msgspec.Raw]).decode
_BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_payload(parts: Parts, limit: int = MAX_FRAME) -> Payload:
    """The header of a payload. Raises WireError if it is malformed, too large, or does not fit the parts after it."""
    size = sum(map(len, parts))
    if size > limit:
        raise WireError(f"oversized frame: {size} bytes, at most {limit} are taken; send smaller batches")
    try:
        payload = _decode_payload(parts[0])
    except IndexError:
        raise WireError("malformed payload: empty") from None
    except _BAD as error:
        raise WireError(f"malformed payload: {error}") from None
    heads = payload.blocks if isinstance(payload, Changes) else []
    if len(heads) != len(parts) - 1:
        raise WireError(f"malformed payload: its header names {len(heads)} blocks, {len(parts) - 1} follow")
    for at, head in enumerate(heads, 1):
        if head.inserts + head.revises + head.retracts > len(parts[at]):  # else what is counted could be any number
            raise WireError(f"malformed payload: a block of {len(parts[at])} bytes cannot hold {head.count} changes")
    return payload


def is_interest(header: bytes) -> bool:
    """Whether the header of a payload, well formed or not, is meant as an Interest."""
    return len(header) > 1 and header[0] >> 4 == 0x9 and header[1] == 1


def array_of(records: list[bytes]) -> bytes:
    """Encoded records as one msgpack array."""
    return array_header(len(records)) + b"".join(records)


def array_header(count: int) -> bytes:
    """The bytes that open a msgpack array of ``count`` elements."""
    if count < 16:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2, "big") if count < 65_536 else b"\xdd" + count.to_bytes(4, "big")


def length_of(array: bytes) -> int:
    """How many elements a msgpack array claims to have; -1 if this is no array. O(1)."""
    first = array[0] if array else 0
    if 0x90 <= first <= 0x9F:
        return first & 0x0F
    if first == 0xDC:
        return int.from_bytes(array[1:3], "big")
    return int.from_bytes(array[1:5], "big") if first == 0xDD else -1


class _TypeCodec:
    """Decoders for one event type."""

    def __init__(self, event_type: EventType) -> None:
        prepare(event_type)  # who publishes need not have registered it
        self.event_type, self.form = event_type, form_of(event_type)
        self.plain: Callable[[bytes], list[Event]] = msgspec.msgpack.Decoder(list[event_type]).decode  # type: ignore[valid-type]
        self.full: Callable[[bytes], Any] = msgspec.msgpack.Decoder(
            tuple[list[event_type], list[int] | None, list[tuple[event_type, event_type]], list[event_type]]  # type: ignore[valid-type]
        ).decode
        self._reader = reader_of(event_type) if not may_nest(event_type) else None
        self.event: Callable[[bytes], Event] = msgspec.msgpack.Decoder(event_type).decode
        self.pair: Callable[[bytes], tuple[Event, Event]] = msgspec.msgpack.Decoder(tuple[event_type, event_type]).decode  # type: ignore[valid-type]
        checked = partial(checked_nesting, event_type)
        self.plain, self.full, self.event, self.pair = map(checked, (self.plain, self.full, self.event, self.pair))

    def fits(self, head: BlockHead) -> bool:
        """Whether a block has the fields that the type has here, as far as its maker says which it has."""
        return head.form is None or head.form == self.form or can_read(head.form, self.form)

    def fields(self, head: BlockHead) -> str:
        """The fields of the type here, for a block with other fields, or other kinds of fields."""
        names = field_names(self.event_type)
        if head.form is None or not same_names(head.form, self.form):
            return f"the fields {', '.join(names) or 'none'}, in this order"
        kinds = [plain_type(hint) for hint in fields_of(self.event_type).values()]
        named = [f"{name} ({getattr(kind, '__name__', kind)})" for name, kind in zip(names, kinds, strict=True)]
        return f"fields of other kinds: {', '.join(named)}"

    def read(self, head: BlockHead, block: bytes) -> native.CoreBlock | None:
        """A block of insertions, read by the native core. None if it cannot: another way reads it, or says why. O(bytes)."""
        if self._reader is None:
            return None
        return self._reader.read_columns(block, head.inserts) if head.columns else self._reader.read(block, head.inserts)

    def accept(self, block: bytes, batch: pa.RecordBatch) -> None:
        """Note that this block in columns is sound: the core reads others of its schema, if that is the type's own."""
        if self._reader is not None and has_own_form(self.event_type, batch.schema):
            self._reader.accept(block, batch.schema.names[-1] == "level")


_type_codec = cache(_TypeCodec)


def check_values(event_type: EventType, head: BlockHead, block: bytes) -> None:
    """Raise msgspec.ValidationError for a value in a block of rows that its field does not take: readers would leave it out."""
    codec = _type_codec(event_type)
    _ = codec.plain(block) if head.plain else codec.full(block)


def packed(order: ArrivalOrder | None) -> bytes | None:
    """An order of arrival as bytes; None if it is unknown, or too long for the wire."""
    if order is None or len(order) > MOST_ORDERED:
        return None
    return pack(f"<{len(order)}H", *order) if isinstance(order, list) else order.astype("<u2").tobytes()


def arrival_order_of(head: BlockHead, count: int) -> list[int] | None:
    """The order of arrival of ``count`` events, if the head gives as many numbers."""
    order = head.arrival_order
    return list(unpack(f"<{count}H", order)) if order is not None and len(order) == 2 * count else None


def arrival_order_of_columns(head: BlockHead, count: int) -> Array:
    """Return the order of arrival as an array; that of the block itself if the head gives none."""
    import numpy as np

    order = head.arrival_order
    return np.frombuffer(order, "<u2") if order is not None and len(order) == 2 * count else np.arange(count)


def arrival_order_of_kept(head: BlockHead, came: list[Any], kept: list[Any]) -> list[int] | None:
    """The order of arrival of those events of a block that are kept."""
    order = arrival_order_of(head, len(came))
    if order is None or len(came) == len(kept):
        return order
    left = set(map(id, kept))
    return [place for place, each in zip(order, came, strict=True) if id(each) in left]


class EventCodec:
    """Events to and from blocks, against the registered types. Decoders are made once per type.

    ``in_columns``: blocks of many rows become columns, too, where this process can read those.
    """

    def __init__(self, types: EventTypes, in_columns: bool = False) -> None:
        self.types = types
        self._fewest = FEWEST_IN_COLUMNS if in_columns and takes_columns() else END
        self._codecs: dict[str, _TypeCodec] = {}

    def decode(self, head: BlockHead, block: bytes, drops: Drops) -> Delta:
        """The changes in a block. Malformed events are skipped and counted in ``drops``; the others are returned. O(bytes)."""
        codec = self._codec(head.type)
        if codec is None:
            drops["unknown type"] += head.count
            return Delta()
        if not codec.fits(head):
            drops[OTHER_FIELDS] += max(head.count, 1)
            return Delta()
        try:
            read = codec.read(head, block) if head.columns or (head.plain and head.inserts >= FEWEST_ROWS) else None
            if read is not None and not (head.raw and _needs_look(head, read)):
                if head.columns or head.inserts >= self._fewest:
                    return Delta(Block.from_core(codec.event_type, read), early=head.since)
                return Delta(read.events(0, len(read)), early=head.since)
            if head.columns:
                return _of_columns(head, _columns(codec, head, block), drops)
            delta = Delta(codec.plain(block), early=head.since) if head.plain else _full(codec, block)
        except (WireError, EventError):
            drops["malformed block"] += max(head.count, 1)
            return Delta()
        except msgspec.ValidationError:
            delta = _salvaged(codec, head, block, drops)
        except _BAD:
            drops["malformed block"] += max(head.count, 1)
            return Delta()
        return _raw(head, delta, drops) if head.raw else delta

    def complaint(self, head: BlockHead, block: bytes) -> str:
        """The fault of the first event of a block that cannot be taken; empty if none is known."""
        codec = self._codec(head.type)
        if codec is not None and not codec.fits(head):
            return f"where it is taken, {head.type} has {codec.fields(head)}"
        try:
            if codec is not None and head.columns:
                _columns(codec, head, block)
            elif codec is not None and head.plain:
                codec.plain(block)
        except (*_BAD, WireError, EventError) as error:
            return str(error)
        return ""

    def fits(self, head: BlockHead) -> bool:
        """Whether a block has the fields that its type has here, as far as both are known."""
        codec = self._codec(head.type)
        return codec is None or codec.fits(head)

    def same(self, name: str, one: bytes, other: bytes) -> bool:
        """Whether two records of a type are equal events, however they were encoded. False if one cannot be read."""
        codec = self._codec(name)
        try:
            first, second = (codec.event(each) if codec is not None else _any(each) for each in (one, other))
        except _BAD:
            return False
        return bool(first == second) or repr(first) == repr(second)  # NaN is not equal to itself

    def _codec(self, name: str) -> _TypeCodec | None:
        codec = self._codecs.get(name)
        if codec is None and name in self.types:
            codec = self._codecs[name] = _type_codec(self.types[name])
        return codec


def _columns(codec: _TypeCodec, head: BlockHead, block: bytes) -> Block:
    """The events in a block in columns. Raises WireError, EventError: such a block is refused as a whole."""
    if head.count != head.inserts:
        raise WireError("malformed columns: they hold new events only")
    batch = unpack_columns(block, head.inserts)
    found = Block.of(codec.event_type, batch)
    codec.accept(block, batch)
    return found


def _needs_look(head: BlockHead, block: native.CoreBlock) -> bool:
    """Whether a block from a publisher may hold what publishers may not send: see ``_raw``."""
    return block.has_levels or (head.newest is not None and block.newest > head.newest)


def _of_columns(head: BlockHead, columns: Block, drops: Drops) -> Delta:
    """The delta of a block in columns, without what a publisher may not send: see ``_raw``."""
    newest, batch = head.newest, columns.batch
    if head.raw and newest is not None and len(columns) and (beyond := columns.times > newest).any():
        drops["later than its block says"] += int(beyond.sum())
        columns = columns.filter(~beyond)
    if head.raw and "level" in batch.schema.names:
        derived = to_array(columns.batch.column("level")) != 0
        if count := int(derived.sum()):
            drops["level of a derived event"] += count
            columns = columns.filter(~derived)
        columns = Block(columns.event_type, columns.batch.drop_columns(["level"]))
    return Delta(columns, early=head.since)


def _full(codec: _TypeCodec, block: bytes) -> Delta:
    inserts, k_plus, revises, retracts = codec.full(block)
    if k_plus is not None and len(k_plus) != len(inserts):
        raise msgspec.ValidationError("one K+ per insert")
    return Delta(inserts, revises, retracts, k_plus)


def _salvaged(codec: _TypeCodec, head: BlockHead, block: bytes, drops: Drops) -> Delta:
    """Record by record, because at least one of them is bad."""

    def good(decode: Callable[[bytes], Any], records: list[msgspec.Raw]) -> list[Any]:
        kept = []
        for record in records:
            try:
                kept.append(decode(bytes(record)))
            except _BAD:
                drops["malformed event"] += 1
        return kept

    try:
        if head.plain:
            return Delta(good(codec.event, _raws(block)))
        inserts, _, revises, retracts = _parts(block)  # K+ is advice to the consumer: not worth a realignment
        return Delta(good(codec.event, _raws(inserts)), good(codec.pair, revises), good(codec.event, _raws(retracts)))
    except _BAD:
        drops["malformed block"] += max(head.count, 1)
        return Delta()


def _raw(head: BlockHead, delta: Delta, drops: Drops) -> Delta:
    """The delta without what a publisher may not send: derived events, and events later than its block says."""
    newest, (_, latest, are_raw) = head.newest, span(delta.inserts)
    if newest is not None and latest > newest:
        kept = [event for event in delta.inserts if event.ts <= newest]
        drops["later than its block says"] += len(delta.inserts) - len(kept)
        delta = Delta(kept, delta.revises, delta.retracts)
    return delta if are_raw and not delta.revises and not delta.retracts else _of_level_zero(delta, drops)


def _of_level_zero(delta: Delta, drops: Drops) -> Delta:
    """The delta without events that claim to be derived: publishers send raw events only."""
    kept = Delta(
        [event for event in delta.inserts if event.level == 0],
        [pair for pair in delta.revises if pair[0].level == pair[1].level == 0],
        [event for event in delta.retracts if event.level == 0],
    )
    if len(kept) == len(delta):
        return delta
    drops["level of a derived event"] += len(delta) - len(kept)
    return kept


def name_of(event: Event) -> str:
    """The type name of an event."""
    return type_name(event.__class__)
