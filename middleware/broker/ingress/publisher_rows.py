"""Blocks from publishers as rows, whether their type is known here or not: what is in them, and between which times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from middleware.link.codec import BlockHead, arrival_order_of_kept, encode, packed
from middleware.link.columnar import records_of, unpack_columns
from middleware.model.change import Delta
from middleware.model.errors import WireError
from middleware.model.event import MAX_TS, MIN_TS, NEVER, is_source
from middleware.native import span

read_rows = msgspec.msgpack.Decoder(list[list[Any]]).decode
read_row = msgspec.msgpack.Decoder(list[Any]).decode
read_parts = msgspec.msgpack.Decoder(tuple[list[list[Any]], Any, list[tuple[list[Any], list[Any]]], list[list[Any]]]).decode
BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, WireError)


Admitted = tuple[BlockHead, bytes, Delta | None]
"""An admitted block, and the changes in it if they had to be decoded."""


class Bounds(NamedTuple):
    """Times of events that may come in: above ``low``, up to ``high``."""

    low: int = NEVER
    high: int = MAX_TS


def changes_in(head: BlockHead, block: bytes) -> Iterator[tuple[str, list[Any]]]:
    """(kind of change, row) for each change in a block, whether its type is known here or not; of a revision the new event.

    Raises one of ``BAD``.
    """
    if head.columns:
        yield from (("insert", row) for row in records_of(unpack_columns(block, head.inserts)))
    elif head.plain:
        yield from (("insert", row) for row in read_rows(block))
    else:
        inserts, _, revises, retracts = read_parts(block)
        yield from (("insert", row) for row in inserts)
        yield from (("revise", new) for _, new in revises)
        yield from (("retract", row) for row in retracts)


def is_stamped(row: list[Any]) -> bool:
    """Whether a row ends with the ts, id, source and level of a raw event."""
    if len(row) < 4:
        return False
    ts, number, source, level = row[-4:]
    if not (number.__class__ is ts.__class__ is level.__class__ is int and source.__class__ is str and is_source(source)):
        return False
    return MIN_TS < ts < MAX_TS and -(2**63) <= number < 2**63 and not level


def newest_in(head: BlockHead, block: bytes, delta: Delta | None, high: int) -> int:
    """The latest time in an admitted block: as it says, or as was read. NEVER if there is none up to ``high``.

    O(1), but for revisions.
    """
    newest = head.newest if head.newest is not None else NEVER
    if delta is None:
        return newest if head.plain else max([newest, *(ts for ts in _times_of_changes(head, block) if ts <= high)])
    if delta.inserted:  # a head may say any time
        newest = delta.columns.newest if delta.columns is not None else span(delta.inserts)[1]
    return max([newest if delta.inserted else NEVER, *(new.ts for _, new in delta.revises)])


def _times_of_changes(head: BlockHead, block: bytes) -> list[int]:
    """The times to which revisions of a type that is not known here lead, and those of new events beside them."""
    try:
        inserts, _, revises, _ = read_parts(block)
        return [row[-4] for row in (*inserts, *(new for _, new in revises)) if row[-4].__class__ is int]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IndexError):
        return []


def is_timely(head: BlockHead, bounds: Bounds) -> bool:
    """Whether a block of new events may come in, by the times that it names."""
    if not head.plain or head.newest is None or head.newest > bounds.high:
        return False
    return bounds.low == NEVER or (head.oldest is not None and head.oldest > bounds.low)


def left_of(head: BlockHead, block: bytes, rows: list[list[Any]], kept: list[list[Any]]) -> Admitted:
    """The block of the rows that are kept of those that came in one."""
    times = [row[-4] for row in kept]
    head.oldest, head.newest = min(times), max(times)
    head.arrival_order = packed(arrival_order_of_kept(head, rows, kept))
    head.inserts = len(kept)
    return head, block if len(kept) == len(rows) else encode(kept), None
