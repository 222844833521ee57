"""Events that a publisher holds to send them together, given as such or in tables: in the core, as columns of each type.

A frame costs both its ends the same however much there is in it, so small batches that follow close on each other go in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from middleware import native
from middleware.link.codec import BLOCK_TARGET, FEWEST_IN_COLUMNS, BlockHead
from middleware.model.block.rows import reader_of
from middleware.model.event import Event, EventType, type_name
from middleware.model.schema import form_of

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS_A_FRAME = 8_192
"""Events that are enough for a frame, as are BLOCK_TARGET bytes of them; the core holds no more than twice as many."""


class Gathering:
    """See the module."""

    def __init__(self) -> None:
        self._held = native.Gathering()
        self._met: set[type] = set()
        self._names: dict[native.BlockReader, tuple[str, str]] = {}

    def __len__(self) -> int:
        """How many events are held."""
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether they are enough for a frame."""
        return len(self._held) >= EVENTS_A_FRAME or self._held.size >= BLOCK_TARGET

    def add(self, events: list[Event]) -> bool:
        """Hold these, too. False, and none is held, if there is one with a value that its type does not name, or of a type that
        the core cannot hold, or if they would be too many. O(values)."""
        return self._held.add(events) or (self._meet({event.__class__ for event in events}) and self._held.add(events))

    def add_tables(self, tables: Mapping[EventType, pa.RecordBatch], source: str, number: int, by_arrival: bool) -> int | None:
        """Hold the rows of these, too, each a sound table of a type: the next number for an event of this source. None, and
        none is held, if the core cannot take one of the tables as it is, or if they would be too many. O(values).

        ``source``, ``number``: for rows without a source; those without an id, too, are numbered. ``by_arrival``: in the order
        of a column ``arrival``.
        """
        self._meet(set(tables))
        given = [(reader, table) for kind, table in tables.items() if (reader := reader_of(kind)) is not None]
        return self._held.add_tables(given, source, number, by_arrival) if len(given) == len(tables) else None

    def _meet(self, types: set[type[Event]]) -> bool:
        """Whether there is a new type among these that the core can hold."""
        known = len(self._names)
        for kind in types - self._met:
            self._met.add(kind)
            if issubclass(kind, Event) and (reader := reader_of(kind)) is not None:
                self._held.include(reader)
                self._names[reader] = type_name(kind), form_of(kind)
        return len(self._names) > known

    def take(self, in_columns: bool) -> list[tuple[BlockHead, bytes]]:
        """The blocks of all that is held, which are to go in one frame; nothing is held any more. O(values).

        ``in_columns``: blocks of many events are to be columns.
        """
        blocks = []
        parts = self._held.take()
        for reader, block, runs, order in parts:
            name, form = self._names[reader]
            head = BlockHead(name, len(block), raw=True, runs=runs, oldest=block.oldest, newest=block.newest, form=form)
            head.arrival_order = order if len(parts) > 1 else None
            head.columns = in_columns and len(block) >= FEWEST_IN_COLUMNS
            blocks.append((head, block.columns() if head.columns else block.rows()))
        return blocks
