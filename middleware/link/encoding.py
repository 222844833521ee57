"""Changes as blocks: those of one type, as rows or as columns, each small enough for a frame."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple

from middleware import native
from middleware.link.codec import BLOCK_TARGET, FEWEST_ROWS, LARGEST_BLOCK, BlockHead, Run, encode, packed
from middleware.link.columnar import MOST_ROWS, pack_columns, records_of, unpack_columns
from middleware.model.block.block import Block
from middleware.model.block.rows import reader_of
from middleware.model.change import Delta
from middleware.model.errors import WireError
from middleware.model.event import MAX_TS, MIN_TS, EventType
from middleware.model.schema import form_of
from middleware.model.values.carried import settled, takes_any
from middleware.model.values.nesting import check_nesting, may_nest

if TYPE_CHECKING:
    from middleware.model.block.arrays import ArrivalOrder


def encode_delta(
    name: str, delta: Delta, raw: bool = False, runs: list[Run] | None = None, fewest: int = FEWEST_ROWS
) -> list[tuple[BlockHead, bytes]]:
    """The blocks for the changes of one type: one, or several where one would be too large. O(changes).

    ``fewest``: so many events at least go as columns, if they are columns.
    """
    columns, early = delta.columns, delta.early if delta.is_early else None
    since = early if isinstance(early, int) and MIN_TS <= early <= MAX_TS else None
    if columns is not None and len(columns) >= fewest and early == since:  # the head of columns has no room for a list
        changed = Delta(revises=delta.revises, retracts=delta.retracts)  # mostly few, beside many new ones
        others = encode_delta(name, changed, raw) if changed else []
        return others + _encode_columns(name, columns, raw, runs, delta.arrival_order, since)
    k_plus = delta.k_plus
    plain = not (delta.revises or delta.retracts or k_plus is not None)
    head = BlockHead(name, len(delta.inserts), len(delta.revises), len(delta.retracts), plain, raw, runs)
    if raw and plain and delta.inserts:
        times = [event.ts for event in delta.inserts]
        head.oldest, head.newest = min(times), max(times)
    kind = kind_of(delta)
    head.arrival_order, head.form = packed(delta.arrival_order), form_of(kind) if kind is not None else None
    given = delta.inserts if plain else (delta.inserts, k_plus, delta.revises, delta.retracts)
    if raw and kind is not None and may_nest(kind):
        for event in chain(delta.inserts, delta.retracts, *delta.revises):
            check_nesting(kind, astuple(event))
    block = encode(settled(given) if raw and kind is not None and takes_any(kind) else given)
    if len(block) <= 2 * BLOCK_TARGET or len(delta) <= 1:
        return [(head, block)]
    return [part for half in _halves(delta) for part in encode_delta(name, half, raw)]


def _encode_columns(
    name: str, columns: Block, raw: bool, runs: list[Run] | None, arrival_order: ArrivalOrder | None, since: int | None = None
) -> list[tuple[BlockHead, bytes]]:
    """New events in columns, as one block, or as slices of about BLOCK_TARGET bytes. O(bytes)."""
    count, size = len(columns), columns.size
    rows = min(count, MOST_ROWS) if size <= 2 * BLOCK_TARGET else max(1, count * BLOCK_TARGET // size)
    blocks = []
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        own = None if arrival_order is None else arrival_order[start:stop]
        head = BlockHead(
            name, stop - start, raw=raw, runs=runs if rows == count else None, arrival_order=packed(own), columns=True
        )
        head.since, head.form = since, form_of(columns.event_type)
        if raw:
            times = columns.times[start:stop]
            head.oldest, head.newest = int(times.min()), int(times.max())
        blocks.append((head, _block(columns, start, stop)))
    return blocks


def kind_of(delta: Delta) -> EventType | None:
    """The type of which all these are; None if there are none."""
    some = next(chain(delta.inserts, delta.retracts, (new for _, new in delta.revises)), None)
    return some.__class__ if some is not None else None


def _block(columns: Block, start: int, stop: int) -> bytes:
    """Some of the events in columns: by the core, if their columns are just as the type's, else by Arrow. O(values)."""
    whole, reader = columns.core_block, reader_of(columns.event_type)
    if whole is not None and stop - start == len(whole):
        return whole.columns()
    block = native.pack(reader, columns.in_core, start, stop) if reader is not None else None
    return block if block is not None else pack_columns(columns.slice(start, stop).batch)


def as_rows(head: BlockHead, block: bytes) -> tuple[BlockHead, bytes]:
    """A block in columns as rows, for a peer that takes no columns. If they cannot be read, the block stays malformed.
    O(values)."""
    head = msgspec.structs.replace(head, columns=False)
    try:
        if len(rows := encode(records_of(unpack_columns(block, head.inserts)))) <= LARGEST_BLOCK:
            return head, rows
    except WireError:
        pass
    return head, b"\xc1" * max(head.count, 1)


def _halves(delta: Delta) -> tuple[Delta, Delta]:
    """Retractions before revisions before inserts, as consumers take them within one delta."""

    def half(pick: slice, columns: tuple[list[Any], list[Any], list[Any]]) -> Delta:
        retracts, revises, inserts = columns
        early = delta.early[pick] if isinstance(delta.early, list) else delta.early
        order = None if delta.arrival_order is None else delta.arrival_order[pick]
        return Delta(inserts[pick], revises[pick], retracts[pick], early if inserts else None, order if inserts else None)

    if delta.inserts and (delta.revises or delta.retracts):
        return Delta(revises=delta.revises, retracts=delta.retracts), Delta(
            delta.inserts, early=delta.early, arrival_order=delta.arrival_order
        )
    if delta.revises and delta.retracts:
        return Delta(retracts=delta.retracts), Delta(revises=delta.revises)
    middle = len(delta) // 2
    columns = (delta.retracts, delta.revises, delta.inserts)
    return half(slice(None, middle), columns), half(slice(middle, None), columns)
