"""From any position of a stream the same rows follow, however the node cuts what it sends, then and now."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from middleware.link.codec import Mark
from middleware.model.change import Change, Delta, Insert, Retract, Revise, Watermark
from middleware.model.event import ORDER, Event
from middleware.spark.source.rows import batch_of, batch_of_deltas, columns
from middleware.spark.source.stream import Position, Tail


class Tick(Event):
    price: int


LOG = [[Insert(Tick(n, ts=n * 10 + m, id=n, source=str(m))) for m in range(n % 4)] for n in range(1, 40)]
"""Changes by block of the log: none, one or several."""


class Cut:
    """Stands in for a log reader: gives the log from an offset on, in pieces of these numbers of blocks."""

    def __init__(self, start: Position, pieces: list[int], final: bool) -> None:
        self.gaps = 0
        self.reached: tuple[int, int, Mark | None] = (1, start.offset, start.mark)
        self._final, self._mark = final, start.mark
        ends = [min(start.offset + so_far, len(LOG)) for so_far in accumulate(pieces)]
        self._ends = [*ends, len(LOG)]

    @property
    def seen(self) -> int:
        return self.reached[1]

    def changes(self, timeout: float) -> list[Change]:
        if not self._ends:
            return []
        before, end = self.reached[1], self._ends.pop(0)
        came: list[Insert] = [change for block in LOG[before:end] for change in block]
        if self._final:
            came = [change for change in came if self._mark is None or ORDER(change.event) > self._mark]
            self._mark = ORDER(came[-1].event) if came else self._mark
        self.reached = (1, end, self._mark)
        return [*came, Watermark(end)]


def test_early_changes_are_rows_that_say_what_happened_and_how_the_event_is_now() -> None:
    old, new, gone = (Tick(price, ts=5, id=1, source="s") for price in (1, 2, 3))
    changes: list[Change] = [Insert(old), Revise(new, old), Watermark(4), Retract(gone)]
    rows = batch_of(Tick, "early", changes).to_pylist()
    assert [(row["op"], row["price"]) for row in rows] == [("insert", 1), ("revise", 2), ("retract", 3)]
    deltas = [Delta([old], [(old, new)], [gone]), Delta([gone])]
    single = [change for delta in deltas for change in delta.changes()]
    assert batch_of_deltas(Tick, deltas) == batch_of(Tick, "early", single)
    assert batch_of(Tick, "final", []).schema.names == ["price", "ts", "id", "source", "level"]
    assert list(columns(Tick, "early")) == ["op", "price", "ts", "id", "source", "level"]


pieces = st.lists(st.integers(1, 9), max_size=12)


@given(st.booleans(), st.lists(st.tuples(pieces, st.lists(st.integers(1, 30), min_size=1, max_size=4)), max_size=8), pieces)
def test_rows_go_on_after_any_position(final: bool, lives: list[tuple[list[int], list[int]]], again: list[int]) -> None:
    whole: list[Change] = [change for block in LOG for change in block]
    position, given_rows = Position(1, 0), 0
    for cuts, wanted in lives:
        tail = Tail(Cut(position, cuts, final), position)
        for most in wanted:
            before, rows = tail.position, tail.take(most)
            assert rows == whole[given_rows : given_rows + len(rows)]
            assert len(rows) == most or given_rows + len(rows) == len(whole)
            given_rows += len(rows)
            assert tail.position.rows == given_rows
            repeated = Tail(Cut(before, again, final), before)
            found: list[Change] = []
            while len(found) < len(rows):
                found += repeated.take(len(rows) - len(found))
            assert found == rows
        position = tail.position
    rest: list[Change] = []
    tail = Tail(Cut(position, again, final), position)
    while len(rest) < len(whole) - given_rows:
        rest += tail.take(5)
    assert rest == whole[given_rows:]
