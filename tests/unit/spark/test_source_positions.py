"""From any position of a stream the same rows follow, however the node cuts what it sends, then and now."""

from __future__ import annotations

from functools import partial
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.link.codec import SinkPosition
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import ORDER, Event
from middleware.runtime.clients.subscriber import Consistency
from middleware.spark.source.change_rows import batch_of, columns
from middleware.spark.source.log_stream import LogPosition, Tail

CONSISTENCIES: tuple[Consistency, Consistency] = ("early", "final")


class Tick(Event):
    price: int


LOG = [[Tick(n, ts=n * 10 + m, id=n, source=str(m)) for m in range(n % 4)] for n in range(1, 40)]
"""New events by block of the log: none, one or several."""


class Cut:
    """Stands in for a log reader: gives the log from an offset on, in pieces of these numbers of blocks."""

    def __init__(self, start: LogPosition, pieces: list[int], final: bool) -> None:
        self.gaps = 0
        self.reached: tuple[int, int, SinkPosition | None] = (1, start.offset, start.mark)
        self._final, self._mark = final, start.mark
        ends = [min(start.offset + so_far, len(LOG)) for so_far in accumulate(pieces)]
        self._ends = [*ends, len(LOG)]

    @property
    def seen(self) -> int:
        return self.reached[1]

    def deltas(self, timeout: float) -> list[Delta]:
        if not self._ends:
            return []
        before, end = self.reached[1], self._ends.pop(0)
        blocks: list[list[Event]] = [list(block) for block in LOG[before:end]]
        if self._final:
            came = [event for block in blocks for event in block if self._mark is None or ORDER(event) > self._mark]
            self._mark = ORDER(came[-1]) if came else self._mark
            blocks = [came]
        self.reached = (1, end, self._mark)
        return [Delta(Block.from_events(Tick, block)) if at % 2 else Delta(block) for at, block in enumerate(blocks)]


class Busy:
    """Stands in for a reader of a log that never ends, a block each tenth of a second of ``now``: of each ten, so many
    hold an event."""

    def __init__(self, of_ten: int) -> None:
        self.gaps, self.seen, self.now, self._of_ten = 0, 0, 0.0, of_ten

    @property
    def reached(self) -> tuple[int, int, SinkPosition | None]:
        return 1, self.seen, None

    def deltas(self, timeout: float) -> list[Delta]:
        self.seen += 1
        self.now += 0.1
        assert self.now < 100
        return [Delta([Tick(1, ts=self.seen, id=self.seen, source="s")] if self.seen % 10 < self._of_ten else [])]


@pytest.mark.parametrize("of_ten", [0, 1, 10])
def test_a_batch_ends_although_the_log_continues(of_ten: int) -> None:
    reader = Busy(of_ten)
    tail = Tail(reader, LogPosition(1, 0), partial(batch_of, Tick, "early"), clock=lambda: reader.now)
    taken = [sum(map(len, tail.take(1_000))) for _ in range(5)]
    assert reader.now < 10
    assert sum(taken) == tail.position.rows == reader.seen * of_ten // 10
    assert sum(map(len, tail.take(1_000, until=500))) + sum(taken) == 500 * of_ten // 10, "up to an offset it takes its time"


def test_early_changes_are_rows_that_say_what_happened_and_how_the_event_is_now() -> None:
    old, new, gone = (Tick(price, ts=5, id=1, source="s") for price in (1, 2, 3))
    deltas = [Delta([old]), Delta(Block.from_events(Tick, [gone, old])), Delta([old], [(old, new)], [gone])]
    rows = batch_of(Tick, "early", deltas).to_pylist()
    inserts = [("insert", 1), ("insert", 3), ("insert", 1)]
    assert [(row["op"], row["price"]) for row in rows] == [*inserts, ("retract", 3), ("revise", 2), ("insert", 1)]
    assert batch_of(Tick, "final", []).schema.names == ["price", "ts", "id", "source", "level"]
    assert list(columns(Tick, "early")) == ["op", "price", "ts", "id", "source", "level"]
    assert batch_of(Tick, "early", []) == batch_of(Tick, "early", deltas).slice(0, 0)


class Reading(Event):
    whole: int
    real: float | None
    text: str | None
    truth: bool
    raw: bytes
    many: list[int]


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    own = draw(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(allow_nan=False),
            st.none() | st.text(),
            st.booleans(),
            st.binary(max_size=3),
            st.lists(st.integers(0, 3), max_size=2),
        )
    )
    return Reading(
        *own, ts=draw(st.integers(0, 9)), id=draw(st.integers(0, 9)), source=draw(st.text()), level=draw(st.integers(0, 1))
    )


@given(st.lists(st.tuples(st.lists(readings(), max_size=4), st.booleans()), max_size=5))
def test_rows_of_columns_are_those_of_events(blocks: list[tuple[list[Reading], bool]]) -> None:
    kept = [
        Delta(Block.from_events(Reading, events)) if in_columns else Delta(list[Event](events)) for events, in_columns in blocks
    ]
    made = [Delta([event for events, _ in blocks for event in events])]
    for consistency in CONSISTENCIES:
        assert batch_of(Reading, consistency, kept) == batch_of(Reading, consistency, made)


pieces = st.lists(st.integers(1, 9), max_size=12)


def keys(rows: list[pa.RecordBatch]) -> list[tuple[int, str]]:
    return [(row["ts"], row["source"]) for batch in rows for row in batch.to_pylist()]


@given(st.booleans(), st.lists(st.tuples(pieces, st.lists(st.integers(1, 30), min_size=1, max_size=4)), max_size=8), pieces)
def test_rows_resume_after_any_position(final: bool, lives: list[tuple[list[int], list[int]]], again: list[int]) -> None:
    whole = [(event.ts, event.source) for block in LOG for event in block]
    made = partial(batch_of, Tick, "final" if final else "early")

    def tail_at(position: LogPosition, cuts: list[int]) -> Tail:
        return Tail(Cut(position, cuts, final), position, made, clock=lambda: 0.0)

    position, given_rows = LogPosition(1, 0), 0
    for cuts, limits in lives:
        tail = tail_at(position, cuts)
        for most in limits:
            before, rows = tail.position, keys(tail.take(most))
            assert rows == whole[given_rows : given_rows + len(rows)]
            assert len(rows) == most or given_rows + len(rows) == len(whole)
            given_rows += len(rows)
            assert tail.position.rows == given_rows
            repeated = tail_at(before, again)
            found: list[tuple[int, str]] = []
            while len(found) < len(rows):
                found += keys(repeated.take(len(rows) - len(found)))
            assert found == rows
        position = tail.position
    rest: list[tuple[int, str]] = []
    tail = tail_at(position, again)
    while len(rest) < len(whole) - given_rows:
        rest += keys(tail.take(5))
    assert rest == whole[given_rows:]
