"""Events in columns that wait until their time has passed: none is made as long as nothing withdraws or revises it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from middleware import native
from middleware.model.columns.arrays import to_array
from middleware.model.columns.columns import EventColumns
from middleware.model.columns.rows import reader_of
from middleware.model.event import MAX_TS, NEVER, ORDER, Event, EventType, type_name

MOST_PARTS = 32
"""So many parts of columns that the core has no block for are put together: to look at each takes longer than to sort them."""

SPARSE = 8
"""Where fewer than one in so many events of some columns are left, they are copied: then the others need not live as long."""


class HeldColumns:
    """Events by type: the core holds those that it can, which are nearly all."""

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[EventType, native.HeldBlocks]] = {}
        self._plain: dict[str, PlainHeldBlocks] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many events are held. O(1)."""
        return self._count

    def put(self, columns: EventColumns, above: int = NEVER) -> int:
        """Hold the events later than ``above``; returns how many others there are. O(n log n) in the core."""
        name = type_name(columns.event_type)
        if not (blocks := columns.blocks or _converted(columns)):
            refused = self._plain.setdefault(name, PlainHeldBlocks()).put(columns, above)
        else:
            if name not in self._blocks:
                self._blocks[name] = columns.event_type, native.HeldBlocks()
            held = self._blocks[name][1]
            refused = sum([held.put(block, above) for block in blocks])
        self._count += len(columns) - refused
        return refused

    def pick(self, ids: Collection[int]) -> Iterator[Event]:
        """Take out the events that have these ids, of whatever source and type. O(events held) if there are ids."""
        if not ids:
            return
        for _, held in self._blocks.values():
            if (block := held.pick(list(ids))) is not None:
                self._count -= len(block)
                yield from block.events(0, len(block))
        for plain in self._plain.values():
            if (columns := plain.pick(ids)) is not None:
                self._count -= len(columns)
                yield from columns.events()

    def spill(self) -> list[Event]:
        """Take out all events."""
        return [event for columns in self.released(MAX_TS).values() for event in columns.events()]

    def first(self) -> Event | None:
        """The first event in total order. O(blocks)."""
        blocks = [block for _, held in self._blocks.values() if (block := held.first()) is not None]
        firsts = [block.events(0, 1)[0] for block in blocks]
        firsts += [event for plain in self._plain.values() if (event := plain.first()) is not None]
        return min(firsts, key=ORDER, default=None)

    def released(self, until: int) -> dict[str, EventColumns]:
        """Take out the events with times up to ``until``, by type, those of each in total order. O(blocks held, and events
        released)."""
        free: dict[str, EventColumns] = {}
        for name, (event_type, held) in self._blocks.items():
            if (block := held.release(until)) is not None:
                self._count -= len(block)
                free[name] = EventColumns.from_block(event_type, block, in_time=True)
        for name, plain in self._plain.items():
            if (columns := plain.release(until)) is not None:
                self._count -= len(columns)
                free[name] = in_order(columns.joined([free[name]])) if name in free else columns
        return free


def _converted(columns: EventColumns) -> list[native.Block]:
    """Columns of Arrow as a block of the core, if it has one for their type. O(values)."""
    reader = reader_of(columns.event_type)
    block = native.block_of(reader, columns.in_core) if reader is not None else None
    return [] if block is None else [block]


class PlainHeldBlocks:
    """Events of one type of which the core has no blocks: for others, ``native.HeldBlocks`` does the same."""

    def __init__(self) -> None:
        self._parts: list[tuple[EventColumns, int]] = []
        """In total order, and how many of each have gone."""

    def __len__(self) -> int:
        return sum(len(part) - gone for part, gone in self._parts)

    def put(self, columns: EventColumns, above: int) -> int:
        """Hold the events with ts > ``above``; returns how many others there are. O(n log n), and now and then for all held."""
        chosen = columns.times > above
        if not chosen.all():
            columns = columns.filter(chosen)
        if len(columns):
            self._parts.append((plain_in_order(columns), 0))
        if len(self._parts) > MOST_PARTS:
            first, *others = (part.slice(gone, len(part)) for part, gone in self._parts)
            self._parts = [(plain_in_order(first.joined(others)), 0)]
        return int((~chosen).sum())

    def pick(self, ids: Collection[int]) -> EventColumns | None:
        """Take out the events that have these ids, of whatever source; None if there are none. O(events held)."""
        import numpy as np

        wanted, picked, parts = list(ids), list[EventColumns](), list[tuple[EventColumns, int]]()
        for part, gone in self._parts:
            left = part.slice(gone, len(part))
            if (chosen := np.isin(left.ids, wanted)).any():
                picked.append(left.filter(chosen))
                left = left.filter(~chosen)
            if len(left):
                parts.append((left, 0))
        self._parts = parts
        return picked[0].joined(picked[1:]) if picked else None

    def first(self) -> Event | None:
        """The first event in total order; None if there is none. O(parts held). The core gives it as a block."""
        earliest = min((part.times[gone] for part, gone in self._parts), default=NEVER)
        return min((part[gone] for part, gone in self._parts if part.times[gone] == earliest), key=ORDER, default=None)

    def release(self, until: int) -> EventColumns | None:
        """Take out the events with ts <= ``until``, in total order; None if there are none.

        O(parts held, and events released), O(n log n) for those of several parts.
        """
        free, parts = list[EventColumns](), list[tuple[EventColumns, int]]()
        for part, gone in self._parts:
            end = int(part.times.searchsorted(until, "right"))
            if end > gone:
                free.append(part.slice(gone, end))
            if end < len(part):
                is_sparse = SPARSE * (len(part) - end) < len(part)
                parts.append((part.rest(end), 0) if is_sparse else (part, max(gone, end)))
        self._parts = parts
        return plain_in_order(free[0].joined(free[1:])) if free else None


def in_order(columns: EventColumns) -> EventColumns:
    """Events of one type in total order. O(n log n), O(n) if their times only grow."""
    if not (blocks := columns.blocks or _converted(columns)):
        return plain_in_order(columns)
    held = native.HeldBlocks()
    for block in blocks:
        held.put(block, NEVER)
    whole = held.release(MAX_TS)
    return columns if whole is None else EventColumns.from_block(columns.event_type, whole, in_time=True)


def plain_in_order(columns: EventColumns) -> EventColumns:
    """The same without the core. Where times do not only grow, it loads a module of Arrow first: 60 ms."""
    times = columns.times
    if (times[1:] > times[:-1]).all():
        return columns
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    batch = columns.batch
    keys = {name: batch.column(name) for name in ("ts", "level", "source", "id") if name in batch.schema.names}
    keys["source"] = keys["source"].cast(pa.string())
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return columns.take(to_array(order).astype(np.int64))
