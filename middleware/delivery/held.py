"""Events that a barrier holds back in columns, as they came: none is made as long as nothing withdraws or revises it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from middleware.model.arrays import to_array
from middleware.model.columns import EventColumns
from middleware.model.event import Event, type_name


class HeldColumns:
    """See the module."""

    def __init__(self) -> None:
        self._parts: dict[str, list[EventColumns]] = {}

    def __len__(self) -> int:
        """How many events are held."""
        return sum(len(part) for parts in self._parts.values() for part in parts)

    def __bool__(self) -> bool:
        """Whether it has held any since it last gave them all. O(1)."""
        return bool(self._parts)

    def put(self, columns: EventColumns, watermark: int) -> int:
        """Hold the events above the watermark; returns how many there are at or below it."""
        above = columns.times > watermark
        if not above.all():
            columns = columns.filter(above)
        if len(columns):
            self._parts.setdefault(type_name(columns.event_type), []).append(columns)
        return int((~above).sum())

    def pick(self, ids: Collection[int]) -> Iterator[Event]:
        """Take out the events that have these ids, of whatever source and type. O(events held) if there are ids."""
        import numpy as np

        for parts in self._parts.values() if ids else ():
            for at, part in enumerate(parts):
                if (chosen := np.isin(part.ids, list(ids))).any():
                    yield from part.filter(chosen).events()
                    parts[at] = part.filter(~chosen)

    def spill(self) -> Iterator[Event]:
        """Take out all events."""
        parts, self._parts = self._parts, {}
        return (event for same in parts.values() for part in same for event in part.events())

    def released(self, watermark: int) -> dict[str, EventColumns]:
        """Take out the events up to the watermark, by type, those of each in the order in which they came."""
        free: dict[str, EventColumns] = {}
        for name, parts in self._parts.items():
            masks = [part.times <= watermark for part in parts]
            gone = [part if mask.all() else part.filter(mask) for part, mask in zip(parts, masks, strict=True) if mask.any()]
            if gone:
                free[name] = gone[0].joined(gone[1:])
                stay = zip(parts, masks, strict=True)
                self._parts[name] = [part.filter(~mask) if mask.any() else part for part, mask in stay if not mask.all()]
        return free


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
