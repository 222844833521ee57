"""What a publisher refuses before anything is sent, and what it takes of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from middleware.delivery.publication import Publication, to_arrow
from middleware.model.errors import EventError
from middleware.model.event import END, Event


class Reading(Event):
    k: int
    x: float


class Tagged(Event):
    tag: str


ROWS: dict[str, Any] = {"ts": [1, 2, 3], "k": [1, 2, 3], "x": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize("wrong", [pd.Timestamp("2024-01-01"), "x", 1.5, 2**63 - 1, 2**70, -(2**63)])
def test_a_wrong_watermark_is_refused_and_not_kept(wrong: Any) -> None:
    publication = Publication([Reading])
    with pytest.raises(EventError, match="a watermark"):
        publication.promise(Reading, wrong)
    expected = Publication([Reading]).promise(Reading, END)
    assert publication.promise(Reading, np.int64(END)) == expected


@pytest.mark.parametrize("ts", [9.0, 1.5])
def test_a_time_that_is_no_whole_number_keeps_nothing_else_from_being_sent(ts: float) -> None:
    with pytest.raises(EventError, match="times are whole numbers of nanoseconds; nothing was sent"):
        list(Publication([Reading]).frames([Reading(1, 1.0, ts=5, id=1, source="a"), Reading(2, 2.0, ts=ts, id=2, source="a")]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"ts": None}, {"ts": "x"}, {"ts": 2**70}, {"id": 1.5}, {"id": 2**70}, {"source": 3}, {"source": "\ud800"}, {"k": 2**70}],
)
def test_what_cannot_be_sent_is_reported_with_its_place(wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {"k": 1, "x": 1.0, "ts": 5, "id": 1, "source": "a"}
    publication, event = Publication([Reading]), Reading(**good | wrong)
    with pytest.raises(EventError, match=r"event 1, Reading\(.*cannot be sent"):
        list(publication.frames([Reading(**good), event, Reading(**good | {"id": 2})]))


def test_so_are_changes_that_cannot_be_sent() -> None:
    publication, event = Publication([Reading]), Reading(2**70, 1.0, ts=5, id=1, source="a")
    for change in (lambda: publication.retraction(event), lambda: publication.revision(event, event)):
        with pytest.raises(EventError, match=r"Reading\(k=1180591620717411303424.*cannot be sent"):
            change()


@pytest.mark.parametrize("wrong", [7, None, "x"])
def test_what_is_no_event_is_reported(wrong: Any) -> None:
    with pytest.raises(EventError, match=f"event 0, {wrong!r}, cannot be sent: it is no event"):
        list(Publication([Reading]).frames([wrong]))


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (pa.table([[1], [1], [1.0], [2.0]], names=["ts", "k", "x", "x"]), "columns that no field has: two of one name"),
        (pa.table({"ts": [1], "k": [1], "x": [1.0], "z": [3]}), "columns that no field has: z;"),
        (pd.DataFrame({"ts": pd.period_range("2024-01", periods=2, freq="M"), "k": 1, "x": 1.0}), "but must be of int64"),
        (pd.DataFrame(ROWS).assign(k=[1, "b", 3]), "the table cannot be read"),
        (pd.concat([pd.DataFrame(ROWS), pd.DataFrame(ROWS)[["x"]]], axis=1), "the table cannot be read"),
        (None, "the table cannot be read"),
    ],
)
def test_what_is_no_table_of_a_type_is_reported(table: Any, complaint: str) -> None:
    with pytest.raises(EventError, match=complaint):
        Publication().columns(to_arrow(table), Reading, "s")


def test_an_index_without_a_name_is_no_column_unless_it_holds_the_times() -> None:
    frame = pd.DataFrame(ROWS)
    some = Publication().columns(to_arrow(frame[frame.k > 1]), Reading, "s").events()
    assert [(event.ts, event.k) for event in some] == [(2, 2), (3, 3)]  # type: ignore[attr-defined]
    timed = frame.drop(columns="ts").set_index(pd.to_datetime([1, 2, 3]))
    assert [event.ts for event in Publication().columns(to_arrow(timed), Reading, "s").events()] == [1, 2, 3]


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b"])])
def test_texts_by_number_are_spelled_out_whatever_holds_them(kind: Any) -> None:
    frame = pl.DataFrame({"ts": [1, 2, 3], "tag": ["a", "b", "a"]}).with_columns(pl.col("tag").cast(kind))
    events = Publication().columns(to_arrow(frame), Tagged, "s").events()
    assert [event.tag for event in events] == ["a", "b", "a"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("arrival", [["1", "2", "3"], [1.0, float("nan"), 0.0], [5, None, 7]])
def test_the_order_of_arrival_is_whole_numbers(arrival: list[Any]) -> None:
    with pytest.raises(EventError, match=r"the column arrival (is of|has nulls)"):
        Publication().tables({Reading: pa.table(ROWS | {"arrival": arrival})}, "s")


def test_no_tables_are_nothing_to_send() -> None:
    assert Publication().tables({}, "s") == ([], [])
