"""The events that a unit gives its detector in one step."""

from __future__ import annotations

from itertools import chain

import msgspec

from middleware.model.block.block import Block
from middleware.model.block.mixed_block import AnyBlock, MixedBlock
from middleware.model.change import Delta
from middleware.model.event import NEVER, TS, Event
from middleware.model.operator import Operation


class ReadyEvents(msgspec.Struct):
    """Events to emit.

    ``ahead`` are strictly in order and later than any emitted before; ``behind`` are the others, in any order. ``columns``
    are more of them, in any order. ``is_ordered``: each of the columns is later than all events before it.
    """

    ahead: list[Event]
    behind: list[Event]
    columns: AnyBlock | None = None
    is_ordered: bool = False

    def __bool__(self) -> bool:
        return bool(self.ahead or self.behind or self.columns is not None)

    def __len__(self) -> int:
        return len(self.ahead) + len(self.behind) + (0 if self.columns is None else len(self.columns))

    def events(self) -> list[Event]:
        """All of them, those in columns made."""
        if self.columns is not None:
            made = chain.from_iterable(piece.events() for piece in self.columns.pieces)
            return [*self.behind, *self.ahead, *made]
        if self.ahead:
            return self.behind + self.ahead if self.behind else self.ahead
        return self.behind

    def deltas(self, removed: list[Event], operation: Operation) -> list[Delta]:
        """Them, and ``removed`` events, as an operation takes them, one after another: rows, then columns, all types at once or
        each by itself; all as one delta of rows, if there are several and it does not take each of the columns as it is."""
        rows, columns = self.behind + self.ahead if self.behind else self.ahead, self.columns
        if columns is None:
            return [Delta(rows, [], removed)]
        if not rows and isinstance(columns, Block):
            return [Delta(columns, [], removed)]
        pieces = columns.pieces
        if not all(map(operation.takes, pieces)):
            return [Delta(self.events(), [], removed)]
        if isinstance(columns, MixedBlock) and operation.takes_several:
            given = [Delta(columns)]
        else:
            given = [Delta(piece) for piece in pieces]
        if rows:
            given.insert(0, Delta(rows))
        given[0].retracts = removed
        return given

    def newest(self) -> int:
        """The latest time among them; NEVER if there are none. O(n)."""
        newest = max(chain(map(TS, self.behind), map(TS, self.ahead[-1:])), default=NEVER)
        return newest if self.columns is None else max(newest, self.columns.newest)


NOTHING = ReadyEvents([], [])
