"""The payloads of a publisher, in ``Publisher`` and in the simulation alike: events, watermarks, both again. Pure.

The owner sends over its link what ``payload_of`` and ``promise`` return, in that order. When the link has begun a new life, it
sends what ``restarted`` returns, after all that is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from middleware.broker.ingress.seen import runs_in
from middleware.link.codec import (
    BLOCK_TARGET,
    FEWEST_ROWS,
    LARGEST_BLOCK,
    BlockHead,
    Changes,
    Interest,
    Run,
    array_of,
    check_values,
    encode,
    length_of,
    name_of,
)
from middleware.link.encoding import as_rows, encode_delta, kind_of
from middleware.link.frames import Parts
from middleware.link.gathering import EVENTS_A_FRAME, Gathering
from middleware.model.block.arrays import to_array, to_column
from middleware.model.block.block import Block
from middleware.model.block.rows import source_codes
from middleware.model.change import Delta, grouped
from middleware.model.errors import EventError
from middleware.model.event import (
    END,
    IDENTITY,
    LEVEL,
    LONGEST_SOURCE,
    MAX_TS,
    MIN_TS,
    Event,
    EventType,
    is_source,
    type_name,
)
from middleware.model.words import listed, shown
from middleware.native import runs_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[np.int64]

_INDEX = "__index_level_0__"
"""Arrow's name for the index of a pandas frame that has no name."""

_HEADING = 64 << 10
"""Bytes of a block that are no values, at most."""

_UNFIT = (TypeError, ValueError, OverflowError, AttributeError, msgspec.ValidationError)
"""The errors at values that no message can have, and at objects that are no events."""

_head = msgspec.msgpack.Decoder(BlockHead).decode


class Frame(NamedTuple):
    """Blocks that go together, and the largest time among their events; None if they move no clock."""

    blocks: list[tuple[BlockHead, bytes]]
    clock: int | None

    @classmethod
    def of(cls, blocks: list[tuple[BlockHead, bytes]]) -> Frame:
        """Blocks of new events, some of which name their times."""
        return cls(blocks, max(head.newest for head, _ in blocks if head.newest is not None))

    @property
    def events(self) -> int:
        """How many events there are in it."""
        return sum([head.count for head, _ in self.blocks])

    @property
    def size(self) -> int:
        """Bytes of its events."""
        return sum([len(block) for _, block in self.blocks])

    def in_rows(self) -> Frame:
        """Return the frame for a node that takes no columns."""
        return self._replace(blocks=[as_rows(*block) if block[0].columns else block for block in self.blocks])


class Bundle:
    """Encoded events of one type that will go in one frame, a block for each time they were given, in that order."""

    def __init__(self) -> None:
        self._blocks: list[tuple[BlockHead, bytes]] = []
        self._size = 0
        self.events = 0

    @staticmethod
    def weight(frame: Frame) -> int:
        """The bytes that a frame of one block adds; 0 if it must go alone, because its block does not match its head: a
        node would refuse all frames that come with it, too.
        """
        ((head, block),) = frame.blocks
        try:
            encoded = encode(head)
            return len(encoded) + len(block) if 0 < head.inserts == length_of(block) and _head(encoded) else 0
        except (msgspec.MsgspecError, UnicodeError, OverflowError, TypeError):
            return 0

    def takes(self, frame: Frame, weight: int) -> bool:
        """Whether a frame can go with those held: it is of their type, and they are not too much."""
        blocks = self._blocks
        return not blocks or (blocks[0][0].type == frame.blocks[0][0].type and self._size + weight <= BLOCK_TARGET)

    def add(self, frame: Frame, weight: int) -> None:
        self._blocks += frame.blocks
        self._size += weight
        self.events += frame.events

    @property
    def is_full(self) -> bool:
        """Whether they are enough for a frame."""
        return self.events >= EVENTS_A_FRAME or self._size >= BLOCK_TARGET

    def take(self) -> Frame:
        """Take all of them out as one frame."""
        blocks, self._blocks, self._size, self.events = self._blocks, [], 0, 0
        return Frame.of(blocks)


class Publication:
    """See the module. ``types``: event types (or their names) that will be sent. ``held``, ``bundle``: new events that will go
    together; there are some in one of them at most.

    ``greeting``: the first payload of each life of the link. It names all types sent in former lives: otherwise a type that all
    other publishers have ended would have ended before it is sent again. All that makes a frame raises EventError for events
    that cannot be sent.
    """

    def __init__(self, types: Iterable[EventType | str] = ()) -> None:
        self._types = dict.fromkeys(_names(types))
        self._watermarks: dict[str, int] = {}
        self._clock: int | None = None
        self._numbers: dict[str, int] = {}
        self.held, self.bundle = Gathering(), Bundle()

    @property
    def waiting(self) -> int:
        """How many events are held to go together."""
        return len(self.held) + self.bundle.events

    @property
    def greeting(self) -> Parts:
        return [encode(Interest(1, raw=list(self._types)))]

    def frames(self, events: Sequence[Event], first: int = 0) -> Iterator[Frame]:
        """New events, in this order: of some thousands all or, if one of them cannot be sent, none: EventError tells which.
        ``first``: how many came before them in what was given."""
        for start in range(0, len(events), EVENTS_A_FRAME):
            some = events[start : start + EVENTS_A_FRAME]
            try:
                found = list(self._frames(some))
            except _UNFIT as error:
                for place, event in enumerate(some, first + start):
                    with _telling(f"event {place},", event):
                        list(self._frames([event]))
                raise EventError(f"these events cannot be sent: {error}") from error
            yield from found

    def gathered(self, in_columns: bool) -> Frame:
        """Take the gathered events out as one frame. Must not be empty. ``in_columns``: the node takes columns."""
        if self.bundle.events:
            return self.bundle.take()
        blocks = self.held.take(in_columns)
        return _checked(Frame.of(blocks))

    def hold(self, tables: Mapping[EventType, pa.RecordBatch], source: str, by_arrival: bool) -> bool:
        """Hold the rows of sound tables, to go with others, if the core takes all of them as they are: see ``Gathering``."""
        number = self.held.add_tables(tables, source, self._numbers.get(source, 0), by_arrival)
        if number is not None:
            self._numbers[source] = number
        return number is not None

    def number(self, source: str) -> int:
        """The next number for an event of this source without an id."""
        return self._numbers.get(source, 0)

    def number_back(self, source: str, reached: int, first: int) -> None:
        """Rows that got the numbers from ``first`` on will be given again, and get the same ones, if none came after them."""
        if self.number(source) == reached:
            self._numbers[source] = first

    def columns(self, table: pa.RecordBatch | pa.Table, event_type: EventType, source: str) -> Block:
        """The rows of a table as raw events, numbered if it has no ids: see ``Publisher.publish_table``."""
        import numpy as np

        first = self._numbers.get(source, 0)
        if is_numbered := not {"id", "source"}.intersection(table.schema.names):
            table = table.append_column("id", to_column(np.arange(first, first + len(table), dtype=np.int64)))
        columns = Block.of(event_type, table, source)
        names, _ = source_codes(columns.batch)
        if misnamed := next((name for name in names if name and not is_source(name)), None):
            raise EventError(f"{type_name(event_type)}: {_too_long(misnamed)}; nothing was sent")
        if "level" in columns.batch.schema.names and (to_array(columns.batch.column("level")) != 0).any():
            raise EventError(f"{type_name(event_type)}.level is not 0 everywhere: publishers send raw events only")
        self._numbers[source] = first + len(table) if is_numbered else first
        return columns

    def tables(self, tables: Mapping[EventType, pa.RecordBatch | pa.Table], source: str) -> tuple[list[Block], list[Numbers]]:
        """Tables of several types, and the order of their rows by ``arrival``: see ``Publisher.publish_tables``."""
        import numpy as np
        import pyarrow as pa

        if lacking := [type_name(kind) for kind, table in tables.items() if "arrival" not in table.schema.names]:
            raise EventError(f"tables of several types need a column arrival, which gives their order: {listed(lacking)}")
        for kind, table in tables.items():
            column = table["arrival"]
            is_whole = pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type)
            if column.null_count or not (is_whole or not len(column)):  # what has no rows may have no types
                what = "has nulls" if column.null_count else f"is of {column.type}, but must be of int64"
                raise EventError(f"{type_name(kind)}: the column arrival {what}")
        if not tables:
            return [], []
        arrivals = [np.asarray(table["arrival"].cast(pa.int64())) for table in tables.values()]
        if any((each[1:] < each[:-1]).any() for each in arrivals):
            raise EventError("a column arrival falls: sort each table by it")
        first = self.number(source)
        try:
            columns = [self.columns(table.drop_columns(["arrival"]), kind, source) for kind, table in tables.items()]
        except EventError:  # those before the one that is refused have got numbers
            self._numbers[source] = first
            raise
        places = np.empty(sum(map(len, arrivals)), np.int64)
        places[np.argsort(np.concatenate(arrivals), kind="stable")] = np.arange(len(places))
        return columns, np.split(places, np.cumsum(list(map(len, arrivals)))[:-1])

    def slices(
        self, tables: Sequence[Block], orders: Sequence[Numbers] | None = None, fewest: int = FEWEST_ROWS
    ) -> Iterator[Frame]:
        """New events in columns, each of a type of its own; fewer than ``fewest`` go as rows. ``orders``: the order
        of arrival of each table, over all tables, rising; None for a single type. Raises EventError for a row that is too
        large."""
        count, size = sum(map(len, tables)), sum(columns.batch.nbytes for columns in tables)
        rows = EVENTS_A_FRAME if size <= 2 * BLOCK_TARGET else max(1, min(EVENTS_A_FRAME, count * 2 * BLOCK_TARGET // size))
        spans = [(start, min(start + rows, count)) for start in range(0, count, rows)]
        if size > LARGEST_BLOCK // 2:  # some rows may be far larger than others: seen before anything is sent
            spans = [each for start, stop in spans for each in _cut(tables, orders, start, stop)]
        for start, stop in spans:
            blocks = []
            for part, own in _parts(tables, orders, start, stop):
                delta, runs = Delta(part, arrival_order=own), runs_in(part.batch, len(part) // 4 + 1)
                blocks += encode_delta(type_name(part.event_type), delta, raw=True, runs=runs, fewest=fewest)
            if orders:
                yield _checked(Frame.of(blocks))
            else:
                yield from (_checked(Frame([block], block[0].newest)) for block in blocks)

    def _frames(self, events: Sequence[Event]) -> Iterator[Frame]:
        """Events of all types in one frame, in their order: if one type went first, it would make the others late."""
        by_type = grouped(events)
        blocks = _blocks(by_type)
        is_large = len(blocks) > len(by_type) or sum(len(block) for _, block in blocks) > LARGEST_BLOCK
        if is_large and len(events) > 1:
            middle = len(events) // 2
            yield from self._frames(events[:middle])
            yield from self._frames(events[middle:])
        elif events:
            yield _checked(Frame.of(blocks))

    def retraction(self, event: Event) -> Frame:
        """An event that was published is withdrawn."""
        with _telling("", event):
            return _checked(Frame(_blocks({name_of(event): Delta(retracts=[event])}), None))

    def revision(self, old: Event, new: Event) -> Frame:
        """An event that was published gets new content: same type, source and id."""
        if IDENTITY(old) != IDENTITY(new) or old.__class__ is not new.__class__:
            raise EventError(f"a revision keeps type, source and id: {old!r} -> {new!r}")
        with _telling("revised as", new):
            return _checked(Frame(_blocks({name_of(new): Delta(revises=[(old, new)])}), new.ts))

    def encoded(
        self, type_name: str, records: list[bytes] | bytes, count: int, clock: int, runs: list[Run] | None = None
    ) -> Frame:
        """Events that are encoded already; see ``Publisher.publish_encoded``."""
        block = records if isinstance(records, bytes) else array_of(records)
        if misnamed := next((source for source, _, _ in runs or () if source and not is_source(source)), None):
            raise EventError(f"{type_name}: {_too_long(misnamed)}")
        return _checked(Frame([(BlockHead(type_name, count, raw=True, runs=runs, newest=clock), block)], clock))

    def given(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> Frame:
        """Blocks that are encoded already, of several types, in one frame; see ``Publisher.publish_blocks``."""
        return _checked(Frame.of(list(blocks)))

    def payload_of(self, frame: Frame) -> Parts:
        """The payload of a frame, which the owner sends now."""
        if frame.clock is not None and (self._clock is None or frame.clock > self._clock):
            self._clock = frame.clock
        for head, _ in frame.blocks:
            self._types[head.type] = None
        return [encode(Changes(self._clock, None, [head for head, _ in frame.blocks])), *[block for _, block in frame.blocks]]

    def promise(self, types: EventType | str | Iterable[EventType | str], watermark: int) -> Parts:
        """The payload that promises a watermark of these types, with all that was promised before."""
        try:
            watermark = index(watermark)
        except TypeError:
            raise EventError(f"a watermark is a whole number of nanoseconds, or END, not {watermark!r}") from None
        if not MIN_TS <= watermark <= END:
            raise EventError(f"a watermark lies between {MIN_TS} and END ({END} ns), not at {watermark}")
        for name in list(_names([types] if isinstance(types, str | type) else types)):
            self._watermarks[name] = max(watermark, self._watermarks.get(name, watermark))
        return [encode(Changes(None, self._watermarks, []))]

    def restarted(self) -> Parts | None:
        """A restarted node must get watermarks and clock again, after all that is sent again; None if there are none."""
        if not self._watermarks and self._clock is None:
            return None
        return [encode(Changes(self._clock, self._watermarks or None, []))]


def to_arrow(table: Any) -> pa.RecordBatch | pa.Table:
    """A frame as an Arrow table; tables and record batches as they are. The index of a pandas frame without a name is no
    column, unless it holds times and there is no ``ts``. Raises EventError if Arrow cannot hold it.
    """
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch | pa.Table):
        return table
    try:
        found = pa.table(table)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise EventError(f"the table cannot be read: {error}; give a table of Arrow, or a frame that speaks it") from None
    if _INDEX not in found.column_names:
        return found
    if pa.types.is_timestamp(found[_INDEX].type) and "ts" not in found.column_names:
        return found.rename_columns(["ts" if name == _INDEX else name for name in found.column_names])
    return found.drop_columns([_INDEX])


def _names(types: Iterable[EventType | str]) -> Iterator[str]:
    return (each if isinstance(each, str) else type_name(each) for each in types)


def _parts(
    tables: Sequence[Block], orders: Sequence[Numbers] | None, start: int, stop: int
) -> Iterator[tuple[Block, Numbers | None]]:
    """The part of each table of the events from ``start`` to before ``stop``, in order of arrival, with their numbers in it."""
    for at, columns in enumerate(tables):
        low, high = orders[at].searchsorted([start, stop]) if orders else (start, stop)
        if len(part := columns.slice(int(low), int(high))):
            yield part, orders[at][low:high] - start if orders else None


def _cut(tables: Sequence[Block], orders: Sequence[Numbers] | None, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """These events in spans of which no block is too large. Raises EventError if one of them is."""
    largest, name = max((part.batch.nbytes, type_name(part.event_type)) for part, _ in _parts(tables, orders, start, stop))
    if largest <= LARGEST_BLOCK // 2 or (stop - start == 1 and largest <= LARGEST_BLOCK - _HEADING):
        yield start, stop
    elif stop - start == 1:
        raise EventError(
            f"{name}: row {start} takes {largest:,} bytes, at most {LARGEST_BLOCK - _HEADING:,} go at once; nothing was sent"
        )
    else:
        middle = (start + stop) // 2
        yield from _cut(tables, orders, start, middle)
        yield from _cut(tables, orders, middle, stop)


@contextmanager
def _telling(what: str, event: object) -> Iterator[None]:
    """Raise EventError, with the event, for what cannot be encoded."""
    try:
        yield
    except (*_UNFIT, EventError) as error:
        why = error if isinstance(event, Event) else "it is no event: give instances of subclasses of slackline.Event"
        raise EventError(f"{what} {shown(event)}, cannot be sent: {why}".lstrip()) from error


def _checked(frame: Frame) -> Frame:
    for head, block in frame.blocks:
        for ts in (head.oldest, head.newest, frame.clock):
            if _is_time(ts):
                continue
            if not isinstance(ts, int):
                raise EventError(f"{head.type} with ts={ts!r}: times are whole numbers of nanoseconds; nothing was sent")
            raise EventError(f"{head.type} with ts={ts}: times lie between {MIN_TS} and {MAX_TS} ns; nothing was sent")
        if len(block) > LARGEST_BLOCK:
            raise EventError(
                f"{head.count} events {head.type} take {len(block)} bytes, at most {LARGEST_BLOCK} go at once: "
                "publish fewer, or smaller ones"
            )
    return frame


def _too_long(source: str) -> str:
    return f"the source {source[:40]!r}... is longer than {LONGEST_SOURCE} bytes: give it a shorter name, as nodes keep them"


def _is_time(ts: object) -> bool:
    """Whether it is none, or one that events may have."""
    return ts is None or (isinstance(ts, int) and MIN_TS < ts < MAX_TS)


def _blocks(deltas: Mapping[str, Delta]) -> list[tuple[BlockHead, bytes]]:
    """The blocks of changes by type, with the identities of what is new."""
    blocks = []
    for name, delta in deltas.items():
        inserts = delta.inserts
        runs = runs_of(inserts, len(inserts) // 4 + 1) if inserts else None
        made, kind = encode_delta(name, delta, raw=True, runs=runs), kind_of(delta)
        for head, block in made:  # readers take no other values than the fields say, and who hears of it then has lost them
            if kind is not None and _is_time(head.oldest) and _is_time(head.newest):  # else ``_checked`` tells more
                check_values(kind, head, block)
        if misnamed := next((event.source for event in inserts if not is_source(event.source) and event.source), None):
            raise ValueError(_too_long(misnamed))
        if derived := next(filter(LEVEL, chain(inserts, delta.retracts, *delta.revises)), None):
            raise ValueError(f"its level is {derived.level}, that of a derived event: leave it out, to publish a raw one")
        blocks += made
    return blocks
