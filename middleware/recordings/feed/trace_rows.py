"""Rows of a trace as blocks of events in columns: the executor's reads, and the bytes on the wire. No event is made."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from middleware.broker.ingress.seen import runs_in
from middleware.link.codec import FEWEST_ROWS, LARGEST_BLOCK, MOST_ORDERED, BlockHead, encode
from middleware.link.columnar import in_wire_types, pack_columns, records_of
from middleware.model.event import END, NEVER
from middleware.model.schema import form_of_fields
from middleware.recordings.feed.groups import RowGroup, read_group, row_groups
from middleware.recordings.traces import Trace, wire_columns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[np.int64]

FRAME_ROWS = 4_096
"""Rows encoded at once: enough to make the cost per call negligible, few enough to stay in the cache."""

_WORTH_NAMING = 16
"""Events that a run must have in the mean for naming it to cost a node less than reading the identities in columns."""


class FeedFrame(NamedTuple):
    """All events that arrived within some time, by type; a node takes them in at once. ``last``: the last arrival."""

    blocks: list[tuple[BlockHead, bytes]]
    events: int
    last: int

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(len(block) for _, block in self.blocks)


class _Rows(NamedTuple):
    """Loaded rows: arrivals, and the columns on the wire. ``in_columns``: whether they can go as columns. ``in_runs``: whether
    their identities are few runs."""

    arrivals: Numbers
    wire: pa.RecordBatch
    in_columns: bool
    in_runs: bool


class TypeRows:
    """The events of one type, read by row group; the last one read stays loaded. ``read``: how many were read."""

    def __init__(self, path: Path, trace: Trace, name: str) -> None:
        self.name = name
        self.form = form_of_fields(trace.types[name].fields)
        self._groups = row_groups(path, trace, name)
        self._lasts = [group.last for group in self._groups]
        self._firsts = [group.first for group in self._groups]
        self._columns = ["arrival", *wire_columns(trace, name)]
        self._loaded: tuple[RowGroup, _Rows] | None = None
        self.read = 0

    def groups(self, low: int, high: int) -> list[RowGroup]:
        """The row groups that may hold arrivals from ``low`` to before ``high``."""
        return self._groups[bisect_left(self._lasts, low) : bisect_left(self._firsts, high)]

    def rows(self, group: RowGroup) -> _Rows:
        """The rows of a row group. O(rows), or O(1) for the group read last."""
        if self._loaded is None or self._loaded[0] is not group:
            whole = read_group(group, self._columns)
            self.read += 1
            wire = whole.drop_columns(["arrival"])
            columns = in_wire_types(wire)
            in_runs = runs_in(wire.slice(0, FRAME_ROWS), min(len(wire), FRAME_ROWS) // _WORTH_NAMING + 1) is not None
            wire = wire if columns is None else columns
            self._loaded = group, _Rows(whole["arrival"].to_numpy(), wire, columns is not None, in_runs)
        return self._loaded[1]


class RowStream:
    """The events of one type that arrived from ``low`` to before ``high``, in arrival order."""

    def __init__(self, rows: TypeRows, low: int = NEVER, high: int = END) -> None:
        self._type, self._low, self._high = rows, low, high
        self._groups = rows.groups(low, high)
        self._rows: _Rows | None = None
        self._position = self._end = 0
        self._load()

    def _load(self) -> None:
        """Load rows, unless this is the end."""
        while self._position == self._end and self._groups:
            self._rows = self._type.rows(self._groups.pop(0))
            arrivals = self._rows.arrivals
            self._position, self._end = (int(arrivals.searchsorted(bound)) for bound in (self._low, self._high))
        if self._position == self._end:
            self._rows = None

    @property
    def following(self) -> int | None:
        """Arrival of the next event; None at the end."""
        return int(self._rows.arrivals[self._position]) if self._rows else None

    def ahead(self, rows: int) -> Numbers:
        """The arrivals of up to ``rows`` next events, as far as they are loaded."""
        import numpy as np

        rows = min(self._end, self._position + rows)
        return self._rows.arrivals[self._position : rows] if self._rows else np.empty(0, np.int64)

    @property
    def known_until(self) -> int:
        """The last loaded arrival, if more follow; END if these are all."""
        return int(self._rows.arrivals[self._end - 1]) if self._rows and self._groups else END

    def count(self, bound: int, most: int) -> int:
        """How many of the loaded events arrived up to ``bound``, at most ``most``."""
        if self._rows is None:
            return 0
        end = bisect_right(self._rows.arrivals, bound, self._position, self._end)
        return min(most, end - self._position)

    def encoded(self, count: int) -> tuple[BlockHead, bytes]:
        """The next events as a block. Its head names their identities, if each is there once: then no broker need decode it.
        Many runs of columns are not named: a node reads the identities sooner.
        """
        rows = self._rows
        assert rows is not None, "there is something to encode"
        part = rows.wire.slice(self._position, count)
        times = part["ts"].to_numpy()
        head = BlockHead(
            self._type.name, count, raw=True, oldest=int(times.min()), newest=int(times.max()), form=self._type.form
        )
        head.columns = rows.in_columns and count >= FEWEST_ROWS
        head.runs = runs_in(part, count) if rows.in_runs or not head.columns else None
        return head, pack_columns(part) if head.columns else encode(records_of(part))

    def skip(self, count: int) -> int:
        """Skip the next ``count`` events; returns the arrival of the last of them."""
        assert self._rows is not None, "there is something to skip"
        self._position += count
        last = int(self._rows.arrivals[self._position - 1])
        self._load()
        return last


def frames(
    types: Sequence[TypeRows], window: int | None = None, low: int = NEVER, high: int = END, most: int = FRAME_ROWS
) -> Iterator[FeedFrame]:
    """The events that arrived from ``low`` to before ``high``, in arrival order, all types together: events after a frame
    arrived no earlier than any in it. A frame spans at most ``window`` (ns of arrival), and about ``most`` events.
    """
    import numpy as np

    streams = [RowStream(rows, low, high) for rows in types]
    while streams := [stream for stream in streams if stream.following is not None]:
        rows = most
        widest = END if window is None else min(stream.following or 0 for stream in streams) + window
        widest = min(widest, *(stream.known_until for stream in streams), END)
        while True:
            arrivals = np.concatenate([stream.ahead(rows) for stream in streams])
            bound = min(widest, int(np.partition(arrivals, rows - 1)[rows - 1])) if len(arrivals) > rows else widest
            counts = [stream.count(bound, rows) for stream in streams]
            parts = [(stream, count) for stream, count in zip(streams, counts, strict=True) if count]
            blocks = [stream.encoded(count) for stream, count in parts]
            if len(parts) > 1 and sum(counts) <= MOST_ORDERED:
                _write_arrival_order([head for head, _ in blocks], [stream.ahead(count) for stream, count in parts])
            if rows == 1 or sum(len(block) for _, block in blocks) <= LARGEST_BLOCK:
                break
            rows //= 2
        last = max(stream.skip(count) for stream, count in parts)
        yield FeedFrame(blocks, sum(counts), last)


def _write_arrival_order(heads: list[BlockHead], arrivals: list[Numbers]) -> None:
    """Write into each head the positions of its events in the common order of arrival."""
    import numpy as np

    order = np.argsort(np.concatenate(arrivals), kind="stable")
    positions = np.empty(len(order), "<u2")
    positions[order] = np.arange(len(order))
    start = 0
    for head in heads:
        head.arrival_order = positions[start : start + head.inserts].tobytes()
        start += head.inserts
