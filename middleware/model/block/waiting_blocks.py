"""Events in columns that wait until their time has passed: none is made as long as nothing withdraws or revises it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from middleware import native
from middleware.model.block.block import Block
from middleware.model.event import MAX_TS, NEVER, ORDER, Event, EventType, type_name

SPARSE = 8
"""Where fewer than one in so many events of some columns are left, they are copied: then the others need not live as long."""


class WaitingBlocks:
    """Events by type, as blocks of the core. Events of types that it has no blocks for wait as objects, elsewhere.

    ``count``: how many events wait; units look at it several times in each push.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[EventType, native.HeldBlocks]] = {}
        self.count = 0

    def __len__(self) -> int:
        """How many events are held. O(1)."""
        return self.count

    def put(self, columns: Block, above: int = NEVER) -> int:
        """Hold the events later than ``above``; returns how many others there are. O(n log n) in the core.

        ``columns``: such as the core has blocks for (``Block.as_core_blocks``).
        """
        name = type_name(columns.event_type)
        if name not in self._held:
            self._held[name] = columns.event_type, native.HeldBlocks()
        held = self._held[name][1]
        refused = sum([held.put(block, above) for block in columns.as_core_blocks()])
        self.count += len(columns) - refused
        return refused

    def pick(self, ids: Collection[int]) -> Iterator[Event]:
        """Take out the events that have these ids, of whatever source and type. O(events held) if there are ids."""
        for _, held in self._held.values() if ids else ():
            if (block := held.pick(list(ids))) is not None:
                self.count -= len(block)
                yield from block.events(0, len(block))

    def spill(self) -> list[Event]:
        """Take out all events."""
        return [event for columns in self.released(MAX_TS).values() for event in columns.events()]

    def first(self) -> Event | None:
        """The first event in total order. O(blocks)."""
        blocks = [block for _, held in self._held.values() if (block := held.first()) is not None]
        return min((block.events(0, 1)[0] for block in blocks), key=ORDER, default=None)

    def released(self, until: int) -> dict[str, Block]:
        """Take out the events with times up to ``until``, by type, those of each in total order. O(blocks held, and events
        released)."""
        free: dict[str, Block] = {}
        for name, (event_type, held) in self._held.items():
            if (block := held.release(until)) is not None:
                self.count -= len(block)
                free[name] = Block.from_core(event_type, block, in_time=True)
        return free


def in_order(columns: Block) -> Block:
    """Events of one type in total order. O(n log n) in the core, O(n) if their times only grow."""
    if not columns.as_core_blocks():
        return Block.from_events(columns.event_type, sorted(columns.events(), key=ORDER))
    held = WaitingBlocks()
    held.put(columns)
    return held.released(MAX_TS).get(type_name(columns.event_type), columns)
