"""Events that a barrier holds back in columns, as they came: none is made as long as nothing withdraws or revises it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from middleware import native
from middleware.model.arrays import to_array
from middleware.model.columns import EventColumns
from middleware.model.event import MAX_TS, Event, EventType, type_name


class HeldColumns:
    """Events by type: those that came in blocks of the core are held by the core, others as columns."""

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[EventType, native.HeldBlocks]] = {}
        self._plain: dict[str, PlainHeldBlocks] = {}

    def __len__(self) -> int:
        """How many events are held."""
        return sum(len(held) for _, held in self._blocks.values()) + sum(map(len, self._plain.values()))

    def put(self, columns: EventColumns, watermark: int) -> int:
        """Hold the events above the watermark; returns how many there are at or below it."""
        name = type_name(columns.event_type)
        if not (blocks := columns.blocks):
            return self._plain.setdefault(name, PlainHeldBlocks()).put(columns, watermark)
        if name not in self._blocks:
            self._blocks[name] = columns.event_type, native.HeldBlocks()
        return sum(self._blocks[name][1].put(block, watermark) for block in blocks)

    def pick(self, ids: Collection[int]) -> Iterator[Event]:
        """Take out the events that have these ids, of whatever source and type. O(events held) if there are ids."""
        if not ids:
            return
        for _, held in self._blocks.values():
            if (block := held.pick(list(ids))) is not None:
                yield from block.events(0, len(block))
        for plain in self._plain.values():
            if (columns := plain.pick(ids)) is not None:
                yield from columns.events()

    def spill(self) -> list[Event]:
        """Take out all events."""
        return [event for columns in self.released(MAX_TS).values() for event in columns.events()]

    def released(self, watermark: int) -> dict[str, EventColumns]:
        """Take out the events up to the watermark, by type, those of each in total order."""
        free: dict[str, EventColumns] = {}
        for name, (event_type, held) in self._blocks.items():
            if (block := held.release(watermark)) is not None:
                free[name] = EventColumns.from_block(event_type, block, in_time=True)
        for name, plain in self._plain.items():
            if (columns := plain.release(watermark)) is not None:
                free[name] = in_order(columns.joined([free[name]])) if name in free else columns
        return free


class PlainHeldBlocks:
    """Events of one type, whatever columns they came in: the twin of ``native.HeldBlocks``, which holds blocks of the core."""

    def __init__(self) -> None:
        self._parts: list[EventColumns] = []

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def put(self, columns: EventColumns, above: int) -> int:
        """Hold the events with ts > ``above``; returns how many others there are. O(n log n) in the core, O(n) here."""
        chosen = columns.times > above
        if not chosen.all():
            columns = columns.filter(chosen)
        if len(columns):
            self._parts.append(columns)
        return int((~chosen).sum())

    def pick(self, ids: Collection[int]) -> EventColumns | None:
        """Take out the events that have these ids, of whatever source; None if there are none. O(events held)."""
        import numpy as np

        wanted, picked = list(ids), list[EventColumns]()
        for at, part in enumerate(self._parts):
            if (chosen := np.isin(part.ids, wanted)).any():
                picked.append(part.filter(chosen))
                self._parts[at] = part.filter(~chosen)
        return picked[0].joined(picked[1:]) if picked else None

    def release(self, until: int) -> EventColumns | None:
        """Take out the events with ts <= ``until``, in total order; None if there are none.

        O(parts held, and events released); here O(events held), and O(n log n) for those released.
        """
        masks = [part.times <= until for part in self._parts]
        parts = list(zip(self._parts, masks, strict=True))
        free = [part if mask.all() else part.filter(mask) for part, mask in parts if mask.any()]
        if not free:
            return None
        self._parts = [part.filter(~mask) if mask.any() else part for part, mask in parts if not mask.all()]
        return in_order(free[0].joined(free[1:]))


def in_order(columns: EventColumns) -> EventColumns:
    """Events of one type in total order. O(n log n), O(n) if their times only grow."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    times = columns.times
    if (times[1:] > times[:-1]).all():
        return columns
    batch = columns.batch
    keys = {name: batch.column(name) for name in ("ts", "level", "source", "id") if name in batch.schema.names}
    keys["source"] = keys["source"].cast(pa.string())
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return columns.take(to_array(order).astype(np.int64))
