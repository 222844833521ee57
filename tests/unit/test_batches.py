"""The results of detectors on columns, and the errors where they are nothing that may be returned."""

from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from middleware.model.batch_results import rows_of
from middleware.model.block.block import Block
from middleware.model.detector import Detector, check_declaration
from middleware.model.errors import DetectorError, EventError
from middleware.model.event import Event
from middleware.ordering.lanes.batch_lane import EventBatch
from middleware.runtime.engine import run


class Seen(Event):
    sensor: int
    value: float
    label: str | None = None


class Found(Event):
    sensor: int
    value: float


FOUND = Found(1, 2.0, ts=3)


@pytest.mark.parametrize(
    "result",
    [
        [(1, FOUND)],
        ((np.int64(1), FOUND) for _ in range(1)),
        {"row": [1], "sensor": [1], "value": [2.0], "ts": [3]},
        {"row": np.array([1]), "sensor": np.array([1]), "value": np.array([2.0]), "ts": np.array([3])},
        pa.table({"sensor": [1], "value": [2.0], "ts": [3], "row": [1]}),
        pa.record_batch({"sensor": [1], "value": [2.0], "ts": [3], "row": [1]}),
    ],
)
def test_every_form_says_the_same(result: Any) -> None:
    assert rows_of("Finds", (Found,), 2, result) == [(1, FOUND)]


def test_results_come_in_order_of_rows_and_those_of_a_row_as_they_were_returned() -> None:
    first, second, third = (Found(number, 0.0, ts=1) for number in range(3))
    assert rows_of("Finds", (Found,), 2, [(1, second), (0, first), (1, third)]) == [(0, first), (1, second), (1, third)]
    assert rows_of("Finds", (Found,), 2, None) == []


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (FOUND, "on_batch returns None, pairs"),
        (7, "on_batch returns None, pairs"),
        ([FOUND], "among its results; on_batch gives pairs"),
        ([(1.5, FOUND)], "among its results; on_batch gives pairs"),
        ([(2, FOUND)], "a result for row 2, but was given 2 events"),
        ([(-1, FOUND)], "a result for row -1"),
        ({"sensor": [1], "ts": [3], "row": [1]}, "it has sensor, value, ts, row"),
        ({"sensor": [1], "value": [2.0, 3.0], "ts": [3], "row": [1]}, "differ in length: sensor 1, value 2"),
    ],
)
def test_what_is_no_result_is_an_error(result: Any, why: str) -> None:
    with pytest.raises(DetectorError, match=why):
        rows_of("Finds", (Found,), 2, result)


def test_a_table_says_of_one_type_only() -> None:
    with pytest.raises(DetectorError, match="publishes 2 types"):
        rows_of("Finds", (Found, Seen), 2, {"row": [0]})


class Plain(Detector):
    subscribes, publishes = (Seen,), (Found,)

    def on_batch(self, events: Block) -> None:
        return None


def test_what_does_not_go_with_batches_is_refused() -> None:
    check_declaration(Plain())
    both = type("Both", (Plain,), {"on_event": lambda self, event: None})
    two = type("Two", (Plain,), {"subscribes": (Seen, Found)})
    keyed = type("Keyed", (Plain,), {"key": staticmethod(lambda event: event.sensor)})
    for kind, why in ((both, "both on_event and on_batch"), (two, "reads 2 types"), (keyed, "a function as key")):
        with pytest.raises(DetectorError, match=why):
            check_declaration(kind())


def test_columns_are_the_same_from_events_and_from_arrow() -> None:
    events: list[Event] = [Seen(n, n / 2, None if n % 2 else "x", ts=n, id=n, source="a") for n in range(4)]
    from_events, from_arrow = Block(Seen, None, events), Block.from_events(Seen, events)
    for name in ("sensor", "value", "label", "ts", "id", "source", "level"):
        one, other = from_events.array(name), Block(Seen, from_arrow.batch).array(name)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist() == [getattr(event, name) for event in events]
        with pytest.raises(ValueError, match="read-only"):
            one[0] = one[1]
    assert from_events.batch.equals(from_arrow.batch)
    assert len(from_events) == 4


class Odd(Event):
    number: int
    share: float
    flag: bool


@pytest.mark.parametrize("odd", [{}, {"number": True}, {"share": 1}, {"number": np.int64(7)}, {"flag": np.True_}])
def test_the_native_core_reads_columns_as_python_does(odd: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"number": -(2**63), "share": float("nan"), "flag": False}
    events: list[Event] = [Odd(**fields, ts=1, id=5), Odd(**fields | odd, ts=2, id=6), Odd(3, -0.0, True, ts=3, id=2**63 - 1)]
    for name in ("number", "share", "flag", "ts", "id", "source", "level"):
        one, other = EventBatch(Odd, events).array(name), Block(Odd, None, events).array(name)
        assert (one.dtype, repr(one.tolist())) == (other.dtype, repr(other.tolist()))


def test_a_column_that_is_not_there_and_a_value_that_does_not_fit() -> None:
    with pytest.raises(EventError, match="has no 'colour'; it has sensor, value"):
        Block(Seen, None, [Seen(1, 2.0, ts=1)]).array("colour")
    for wrong in (1.5, 2**63, "1", None):
        with pytest.raises(EventError, match=r"Seen\.sensor: a value has no place in a column of int64"):
            Block(Seen, None, [Seen(wrong, 2.0, ts=1)]).array("sensor")  # type: ignore[arg-type]


class Told(Event):
    values: list[float]


class Telling(Detector):
    """Gives away what it changes later."""

    subscribes, publishes = (Seen,), (Told,)

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_batch(self, events: Block) -> Any:
        for row, event in enumerate(events):
            self.values.append(event.value)
            yield row, Told(self.values, ts=event.ts)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_what_is_yielded_is_taken_as_it_is_then(batch: int) -> None:
    events = [Seen(1, float(at), ts=at, id=at, source="s") for at in range(4)]
    found = run(events, [Telling()], batch=batch, watch=lambda _: None).finals["Telling"]
    assert [result.values for result in found] == [[0.0], [0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]]


class Side(Enum):
    BUY = "buy"


class Trade(Event):
    side: Side


def test_events_of_any_type_are_had_by_place_whether_arrow_has_columns_for_them_or_not() -> None:
    events = [Trade(Side.BUY, ts=at, id=at, source="s") for at in range(4)]
    columns = Block(Trade, None, events)
    assert (columns[1], columns[-1]) == (events[1], events[3])
    assert columns.slice(1, 3).events() == events[1:3]
    assert columns.take([3, 0]).events() == [events[3], events[0]]
    assert columns.filter([True, False, False, True]).events() == [events[0], events[3]]
    with pytest.raises(IndexError):
        columns[4]


def test_a_table_without_rows_has_no_types() -> None:
    column = pa.chunked_array([], pa.dictionary(pa.uint32(), pa.string_view()))
    assert len(Block.of(Seen, pa.table({"sensor": [], "value": [], "label": column, "ts": [], "id": [], "source": []}))) == 0
