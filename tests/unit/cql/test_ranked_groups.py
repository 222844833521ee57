"""ORDER BY over groups of a window: by columns, by what is none, and with DISTINCT."""

from __future__ import annotations

import pytest
from slackline import Event, run

from detectors.cql import compile_cql
from middleware.model.time import SECOND


class Tick(Event):
    symbol: str
    quantity: int
    sort_key_1: int = 0


EVENTS = [Tick(symbol, at, ts=at * SECOND, id=at, source="s") for at, symbol in enumerate("AABCCCD", 1)]


@pytest.mark.parametrize(
    ("what", "order", "expected"),
    [
        ("DISTINCT count(*) AS n", "n LIMIT 2", [(1,), (2,)]),
        ("DISTINCT count(*) AS n", "1 DESC LIMIT 1", [(3,)]),
        ("DISTINCT count(*) AS n", "count(*) LIMIT 1 OFFSET 1", [(2,)]),
        ("symbol, count(*) AS n", "max(quantity) DESC LIMIT 2", [("C", 3), ("D", 1)]),
        ("symbol, count(*) AS n", "n DESC, max(quantity) DESC LIMIT 3", [("A", 2), ("C", 3), ("D", 1)]),
        ("count(*) AS sort_key_1, symbol", "sort_key_1 DESC LIMIT 1", [(3, "C")]),
    ],
)
def test_groups_are_ranked_by_columns_and_by_what_is_none(what: str, order: str, expected: list[tuple[object, ...]]) -> None:
    query = f"SELECT {what} FROM Tick [SIZE 10 seconds] GROUP BY symbol ORDER BY {order}"
    finals = list(run(EVENTS, compile_cql(query, [Tick]).operators).finals.values())[-1]
    names = finals[0].__struct_fields__[: len(expected[0])]
    assert sorted(tuple(getattr(event, name) for name in names) for event in finals) == sorted(expected)
