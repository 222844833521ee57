"""Identities of events, packed; and those in a block in columns, read where they lie: Arrow is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import error as StructError
from struct import pack, unpack, unpack_from
from typing import NamedTuple

from middleware.link.columnar import BATCH, DICTIONARY, SCHEMA, STAMP, Table, messages
from middleware.model.errors import WireError

_INTEGER, _TEXT = 2, 5
"""Kinds of types in Arrow's format."""

_NO_NAME = 2**32 - 1
"""The place of no source."""


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


class Identities(NamedTuple):
    """``names`` of sources; for each event the place of its own (``codes``, uint32), and its id (int64), little-endian.

    ``times``: the times of the events likewise, where they are known.
    """

    names: list[str]
    codes: bytes
    ids: bytes
    times: bytes = b""

    @classmethod
    def of(cls, identities: Iterable[tuple[str, int] | None]) -> Identities:
        """Those of events, one after another; None where one has none. O(events)."""
        names: dict[str, int] = {}
        codes, ids = [], []
        for source, number in (each if each is not None and _is_int64(each[1]) else (None, 0) for each in identities):
            codes.append(_NO_NAME if source is None else names.setdefault(source, len(names)))
            ids.append(number)
        return cls(list(names), pack(f"<{len(codes)}I", *codes), pack(f"<{len(ids)}q", *ids))

    def each(self) -> Iterator[tuple[str, int]]:
        """(source, id) of each event whose source has a name. O(events)."""
        count, names = len(self.ids) // 8, dict(enumerate(self.names))
        numbers = zip(map(names.get, unpack(f"<{count}I", self.codes)), unpack(f"<{count}q", self.ids), strict=True)
        return ((source, number) for source, number in numbers if source is not None)

    def index_of(self, source: str, number: int) -> int | None:
        """The first event of this identity; None if there is none. O(bytes), as fast as these can be searched."""
        if not _is_int64(number):
            return None
        packed_id, at, names = pack("<q", number), -1, self.names
        while (at := self.ids.find(packed_id, at + 1)) >= 0:
            code = unpack_from("<I", self.codes, at // 8 * 4)[0]
            if at % 8 == 0 and code < len(names) and names[code] == source:
                return at // 8
        return None


def identities_in(block: bytes, rows: int) -> Identities | None:
    """The identities of so many events. None if they are not as columns mostly are: the last three are ts, id and source, none
    is null, and sources are numbered; nothing else of the block is looked at. O(names), and a copy.
    """
    try:
        return _identities_in(block, rows)
    except (WireError, StructError, ValueError):
        return None


def _identities_in(block: bytes, rows: int) -> Identities | None:
    (first, schema, _), (second, dictionary, names_at), (third, batch, at), *more = messages(block)
    if [first, second, third] != [SCHEMA, DICTIONARY, BATCH] or more or not _is_usual(schema):
        return None
    coded = dictionary.table(1)
    if batch.has(3) or coded.has(3) or dictionary.number(2, "<B"):  # compressed, or in pieces
        return None
    lengths = {*batch.pairs(1, 3), (batch.number(0, "<q"), 0)}
    if lengths != {(rows, 0)} or coded.pairs(1, 1) != [(coded.number(0, "<q"), 0)]:
        return None
    (codes, size), _, (ids, size_of_ids), _, (times, size_of_times), *_ = batch.pairs(2, 6)
    names = _names(block, coded, names_at)
    if not all(names) or size < 4 * rows or min(size_of_ids, size_of_times) < 8 * rows or min(codes, ids, times) < 0:
        return None
    columns = (block[at + first : at + first + width * rows] for first, width in ((codes, 4), (ids, 8), (times, 8)))
    found = Identities(names, *columns)
    is_whole = len(found.codes) == 4 * rows and len(found.ids) == len(found.times) == 8 * rows
    return found if is_whole else None


def _is_usual(schema: Table) -> bool:
    """Whether the last columns are ts and id, int64, and source, texts numbered by int32; numbers are little-endian."""
    source, *numbers = schema.tables(1)[:3]
    if schema.number(0, "<h") or [each.text(0).decode() for each in (*reversed(numbers), source)] != STAMP:
        return False
    if source.number(2, "<B") != _TEXT or not source.has(4) or any(each.has(4) for each in numbers):
        return False
    coding = source.table(4)
    return (not coding.has(1) or _is_integer(coding.table(1), 32)) and all(
        each.number(2, "<B") == _INTEGER and _is_integer(each.table(3), 64) for each in numbers
    )


def _is_integer(kind: Table, bits: int) -> bool:
    return kind.number(0, "<i") == bits and kind.number(1, "<?") == 1


def _names(block: bytes, coded: Table, at: int) -> list[str]:
    count = coded.number(0, "<q")
    (text, _), (ends, size), _ = coded.pairs(2, 3)
    if count < 0 or size < 4 * (count + 1) or min(text, ends) < 0:
        raise StructError("names that lie outside their message")
    bounds = unpack_from(f"<{count + 1}i", block, at + ends)
    return [block[at + text + low : at + text + high].decode() for low, high in pairwise(bounds)]
