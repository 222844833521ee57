"""Fields that hold members of enums: in queries these are what they stand for, whatever the order of arrival."""

from __future__ import annotations

import random
from enum import Enum, IntEnum, StrEnum

import pytest
from slackline import Event, Lateness, Policies, run

from detectors.cql import compile_cql
from detectors.language.query_errors import QueryError
from detectors.sequence.sequence_operator import SequenceQuery
from middleware.model.event import EventTypes
from middleware.model.time import SECOND


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


class Venue(StrEnum):
    PARIS = "paris"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Trade(Event):
    side: Side
    venue: Venue | None
    urgency: Level
    price: float


class Report(Event):
    side: Side
    price: float


PATIENT = Policies(alpha=0.0, lateness=Lateness(floor=20 * SECOND))


def trades() -> list[Trade]:
    return [
        Trade((Side.BUY, Side.SELL)[n % 2], Venue.PARIS if n % 3 else None, Level(1 + n % 2), float(n), ts=n * SECOND, id=n)
        for n in range(1, 7)
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT price FROM Trade WHERE side = 'buy'", [(2.0,), (4.0,), (6.0,)]),
        ("SELECT price FROM Trade WHERE side <> 'buy' AND venue IN ('paris', 'rome')", [(1.0,), (5.0,)]),
        ("SELECT upper(venue) AS v, price FROM Trade WHERE urgency + 1 > 2", [("PARIS", 1.0), (None, 3.0), ("PARIS", 5.0)]),
        ("SELECT venue FROM Trade WHERE venue IS NULL", [(None,), (None,)]),
        ("SELECT side, sum(price) AS p FROM Trade [SIZE 10 s EVERY 10 s] GROUP BY side", [("buy", 12.0), ("sell", 9.0)]),
        ("SELECT * FROM Trade WHERE price = 1", [("sell", "paris", 2, 1.0)]),
        (
            "SELECT a.price AS p, b.price AS q FROM Trade a [SIZE 1 s] JOIN Trade b [SIZE 1 s] USING (side) WHERE a.price < 3",
            [(1.0, 1.0), (2.0, 2.0)],
        ),
    ],
)
def test_queries_read_what_members_stand_for(query: str, expected: list[tuple[object, ...]]) -> None:
    operators = compile_cql(f"{query} INTO Found", [Trade]).operators
    for seed in range(4):
        arrived = random.Random(seed).sample(trades(), 6) if seed else trades()
        found = run(arrived, operators, batch=2, policies=PATIENT).finals["Found"]
        rows = [tuple(getattr(each, name) for name in each.__struct_fields__[:-4]) for each in found]
        assert sorted(rows, key=repr) == sorted(expected, key=repr)
        assert {type(value) for row in rows for value in row} <= {str, float, int, type(None)}


def test_a_sequence_compares_members_by_what_they_stand_for_and_gives_them_as_they_are() -> None:
    text = (
        "EVENT SEQ(Trade a, Trade b) WHERE a.side = 'sell' AND b.side IN ('buy', 'hold') AND a.urgency > b.urgency "
        "WITHIN 1 s RETURN Pair(a.side, b.price)"
    )
    for seed in range(4):
        arrived = random.Random(seed).sample(trades(), 6) if seed else trades()
        found = run(arrived, [SequenceQuery(text, EventTypes([Trade]), "Pair")], policies=PATIENT).finals["Pair"]
        assert [(each.side, each.price) for each in found] == [(Side.SELL, price) for price in (2.0, 4.0, 6.0)]  # type: ignore[attr-defined]


def test_an_enum_is_only_read() -> None:
    with pytest.raises(QueryError, match="Report cannot be written: side of it is an enum, which is only read"):
        compile_cql("SELECT side, price FROM Trade INTO Report", [Trade, Report])
    with pytest.raises(QueryError, match="side of the event type Trade is an enum"):
        compile_cql("CREATE STREAM Trade (side String NOT NULL, price Double NOT NULL)", [Trade])
