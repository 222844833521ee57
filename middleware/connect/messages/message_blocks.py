"""Rows of events as blocks for a node: the content of messages stays bytes, and no event object is made on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from middleware.broker.ingress.seen import joined_runs
from middleware.link.codec import BLOCK_TARGET, BlockHead, Run, encode, packed
from middleware.model.event import EventType, type_name
from middleware.model.schema import form_of

Row = tuple[Any, ...]
"""The values of an event's fields, in their order: its own, then ts, id, source and level."""

Blocks = list[tuple[BlockHead, bytes]]
"""The blocks of one frame, see ``Publisher.publish_blocks``."""

TS_INDEX, _ID, _SOURCE = -4, -3, -2
_ROWS_A_FRAME = 4_096


def frames(types: Sequence[EventType], rows: Sequence[Row]) -> Iterator[Blocks]:
    """The blocks of rows that came in this order, each of the type beside it; a frame keeps their order. O(bytes)."""
    for start in range(0, len(rows), _ROWS_A_FRAME):
        yield from _frames(types[start : start + _ROWS_A_FRAME], rows[start : start + _ROWS_A_FRAME])


def _frames(types: Sequence[EventType], rows: Sequence[Row]) -> Iterator[Blocks]:
    if len(kinds := set(types)) == 1:
        blocks = [_block(kinds.pop(), rows, None)]
    else:
        by_type: dict[EventType, list[int]] = {}
        for index, event_type in enumerate(types):
            by_type.setdefault(event_type, []).append(index)
        blocks = [_block(kind, [rows[index] for index in own], own) for kind, own in by_type.items()]
    if len(rows) > 1 and sum(len(block) for _, block in blocks) > 2 * BLOCK_TARGET:
        middle = len(rows) // 2
        yield from _frames(types[:middle], rows[:middle])
        yield from _frames(types[middle:], rows[middle:])
    else:
        yield blocks


def _block(event_type: EventType, rows: Sequence[Row], positions: list[int] | None) -> tuple[BlockHead, bytes]:
    times, ids, sources = ([row[index] for row in rows] for index in (TS_INDEX, _ID, _SOURCE))
    head = BlockHead(type_name(event_type), len(rows), raw=True, runs=_runs(sources, ids), oldest=min(times), newest=max(times))
    head.arrival_order, head.form = packed(positions), form_of(event_type)
    return head, encode(rows)


def _runs(sources: list[str], ids: list[int]) -> list[Run] | None:
    """Identities as runs; None if they hardly are, or one occurs twice. O(n) if each source has consecutive ones, in order."""
    of: dict[str, list[int]] = {sources[0]: ids}
    if sources.count(sources[0]) < len(sources):
        of = {}
        for source, number in zip(sources, ids, strict=True):
            of.setdefault(source, []).append(number)
    most = len(ids) // 4 + 1
    if len(of) <= most and all(own == list(range(own[0], own[0] + len(own))) for own in of.values()):
        return [(source, own[0], own[-1]) for source, own in of.items()]
    return joined_runs(zip(sources, ids, strict=True), most)
