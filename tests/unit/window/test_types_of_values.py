"""What windows choose of values is one of them, of its own type; what cannot be aggregated is refused where it is written."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, NewType

import pytest
from slackline import Event, Lateness, Policies, run

from detectors.window import (
    ARGMAX,
    FIRST,
    LAST,
    MAX,
    MAXCOUNT,
    MEAN,
    MEDIAN,
    MIN,
    RANGE,
    SUM,
    Tumbling,
    Windows,
    exact_quantile,
)
from middleware.model.errors import WindowError

Number = NewType("Number", int)
PATIENT = Policies(alpha=0.0, lateness=Lateness(floor=1_000))


class Color(Enum):
    RED = "r"
    GREEN = "g"


class Level(IntEnum):
    LOW = 2**60 + 1
    HIGH = 2**60 + 3


class Seen(Event):
    open: bool
    state: Literal["on", "off"]
    code: Literal[1, 9007199254740993]
    user: Number | None
    amount: Decimal
    color: Color
    level_: Level
    at: datetime
    pair: tuple[int, str]
    loose: Any
    price: float | None
    mixed: int | str = 0
    table: dict[str, int] | None = None


def seen(number: int) -> Seen:
    return Seen(
        number % 2 == 0,
        ("on", "off")[number % 2],  # type: ignore[arg-type]
        (1, 9007199254740993)[number % 2],  # type: ignore[arg-type]
        Number(2**53 + number) if number % 3 else None,
        Decimal(f"12345678901234567.{number:02}"),
        (Color.RED, Color.GREEN)[number % 2],
        (Level.LOW, Level.HIGH)[number % 2],
        datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=number),
        (number, "a"),
        2**53 + number,
        float(number) if number % 3 else None,
        ts=number,
        id=number,
        source="s",
    )


def found(monoid: Any, field: Any) -> list[Any]:
    """The values of two windows, whatever the order of arrival."""
    events = [seen(number) for number in (3, 4, 5, 7, 12, 14, 16, 17)]
    windows = [Windows(Seen, Tumbling(10), {"x": (monoid, field)}, name="W")]
    results = run(events, windows, batch=1, policies=PATIENT).finals["W"]
    for seed in range(3):
        arrived = random.Random(seed).sample(events, len(events))
        assert run(arrived, windows, batch=2, policies=PATIENT).finals["W"] == results
    return [each.x for each in results]  # type: ignore[attr-defined]


@pytest.mark.parametrize("field", ["open", "state", "code", "user", "amount", "color", "level_", "at", "pair", "loose"])
def test_the_first_and_the_last_are_values_of_events(field: str) -> None:
    first = [4, 14] if field == "user" else [3, 12]  # None is skipped
    for monoid, numbers in ((FIRST, first), (LAST, [7, 17])):
        expected = [getattr(seen(number), field) for number in numbers]
        values = found(monoid, field)
        assert values == expected
        assert list(map(type, values)) == list(map(type, expected))


def test_the_least_and_the_largest_are_values_of_events() -> None:
    assert found(MAX, "amount") == [Decimal("12345678901234567.07"), Decimal("12345678901234567.17")]
    assert found(MIN, "user") == [2**53 + 4, 2**53 + 14]
    assert found(MAX, "loose") == [2**53 + 7, 2**53 + 17]
    assert found(MAXCOUNT, "level_") == [(Level.HIGH, 3), (Level.HIGH, 1)]
    assert found(RANGE, "at") == [timedelta(hours=4), timedelta(hours=5)]
    assert found(MAX, "pair") == [(7, "a"), (17, "a")]


def test_what_is_computed_is_a_number() -> None:
    assert found(SUM, "open") == [1, 3]
    assert found(SUM, "user") == [3 * 2**53 + 16, 3 * 2**53 + 47]
    assert found(MEAN, "open") == [0.25, 0.75]


@pytest.mark.parametrize(
    ("monoid", "field", "message"),
    [
        (SUM, "at", "sum takes numbers, and at is of datetime"),
        (MEAN, "state", "mean takes numbers, and state is of str"),
        (MAX, "color", "max takes what has an order, and color is of Color"),
        (RANGE, "state", "range takes what has differences, and state is of str"),
        (ARGMAX, "price", "argmax takes pairs"),
        (MIN, "mixed", "min takes what has an order, and mixed is of int and str: between them there is none"),
        (MAXCOUNT, "table", "maxcount takes what has an order, and table is of dict"),
        (exact_quantile(0.5), "color", "takes what has an order, and color is of Color"),
        (MEDIAN, "at", "median takes numbers, and at is of datetime"),
    ],
)
def test_what_cannot_be_aggregated_is_refused_where_it_is_written(monoid: Any, field: str, message: str) -> None:
    with pytest.raises(WindowError, match=message):
        Windows(Seen, Tumbling(10), {"x": (monoid, field)})


def test_numbers_of_several_types_have_an_order() -> None:
    class Mixed(Event):
        value: int | float | Decimal | None

    events = [Mixed(value, ts=at, id=at, source="s") for at, value in enumerate((2, 3.5, None, Decimal(1)), 1)]
    aggregates = {"most": (MAX, "value"), "middle": (exact_quantile(0.5), "value")}
    (only,) = run(events, [Windows(Mixed, Tumbling(10), aggregates, name="W")]).finals["W"]
    assert (only.most, only.middle) == (3.5, 2)  # type: ignore[attr-defined]


def test_a_pair_without_a_number_is_left_out_and_what_is_no_pair_costs_its_event_alone() -> None:
    assert found(ARGMAX, lambda event: (event.price, event.id)) == [(7.0, 7), (17.0, 17)]
    windows = Windows(Seen, Tumbling(10), {"x": (ARGMAX, lambda e: e.id if e.id == 4 else (e.price, e.id))}, name="W")
    result = run([seen(number) for number in (1, 4, 11)], [windows], failing="skip")
    assert [each.x for each in result.finals["W"]] == [(1.0, 1), (11.0, 11)]  # type: ignore[attr-defined]
    assert [each.event.id for each in result.failures["W"]] == [4]


def test_windows_that_aggregate_otherwise_now_are_other_ones_for_a_node_with_state() -> None:
    """A tree of floats is not taken up by one of whole numbers."""
    of = {field: Windows(Seen, Tumbling(10), {"x": (SUM, field)}).definition for field in ("user", "price")}
    assert of["user"].endswith("('sum', 'user', 'int')}")
    assert of["price"].endswith("('sum', 'price')}")
