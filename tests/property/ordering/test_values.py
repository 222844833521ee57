"""A value is the same wherever it is read: in a run, in the oracle, on the node where it was made, and behind a wire."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import make_dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline import Detector, Event, EventTypes, Policies, run

from detectors.window import CONCAT, FIRST, LAST, MAX, MIN, Tumbling, Windows
from middleware.link.codec import Drops, EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.change import Delta
from middleware.model.errors import EventError
from middleware.model.event import type_name
from middleware.model.values.carried import carried
from middleware.testing.oracle import oracle


class Gear(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Pair(NamedTuple):
    x: float
    y: Any = None


class Stat(msgspec.Struct, frozen=True):
    x: float
    of: Any = None


class Kind(NamedTuple):
    """A type for a field, and values that people give for it: some in another form, some that no wire carries."""

    annotation: Any
    values: st.SearchStrategy[Any]


WHOLE = st.integers(-(2**63), 2**64 - 1) | st.just(Number.ONE) | st.integers(0, 9).map(np.int64)
REAL = st.floats(allow_nan=False) | WHOLE | st.just(np.float32(0.5))
TEXT = st.text(max_size=3) | st.just(Text("t")) | st.just(np.str_("n"))
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=2))])
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=ZONES)
DATES = st.dates(date(1900, 1, 1), date(2200, 1, 1))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=2)
PLAIN = [Kind(int, WHOLE), Kind(float, REAL), Kind(str, TEXT), Kind(bool, st.booleans()), Kind(Gear, st.sampled_from(Gear))]
PLAIN += [Kind(date, DATES), Kind(datetime, TIMES), Kind(Decimal, DECIMALS), Kind(bytes, st.binary(max_size=3))]
PLAIN += [Kind(UUID, st.uuids()), Kind(timedelta, st.timedeltas(timedelta(-9), timedelta(9))), Kind(Literal["a"], st.just("a"))]

UNCARRIED = st.sampled_from([2**64, -(2**70), "\ud800", object(), {"a": [2**99]}, Stat(1, {"\udc00"})])
LEAVES = st.one_of(WHOLE, REAL, TEXT, TIMES, DATES, DECIMALS, st.none(), st.booleans(), st.uuids(), st.sampled_from(Gear))
HASHABLE = st.recursive(LEAVES, lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=3), max_leaves=4)
ANYTHING = st.recursive(
    LEAVES | UNCARRIED,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.builds(Stat, st.integers(0, 9), inner),
        st.builds(Pair, st.integers(0, 9), inner),
        st.just(np.arange(3)),
    ),
    max_leaves=6,
)


def grown(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Types that hold others, and their values."""

    def several(kind: Kind) -> st.SearchStrategy[list[Any]]:
        return st.lists(kind.values, max_size=3)

    def record(kind: Kind, make: Callable[[Any], Any]) -> Kind:
        made = make(kind.annotation)
        return Kind(made, st.builds(made, kind.values))

    plain = st.sampled_from(PLAIN)
    return st.one_of(
        inner.map(lambda kind: Kind(list[kind.annotation], several(kind) | several(kind).map(tuple))),  # type: ignore[name-defined]
        inner.map(lambda kind: Kind(tuple[kind.annotation, ...], several(kind).map(tuple) | several(kind))),  # type: ignore[name-defined]
        st.tuples(inner, inner).map(
            lambda two: Kind(tuple[two[0].annotation, two[1].annotation], st.tuples(two[0].values, two[1].values))
        ),
        plain.map(lambda kind: Kind(set[kind.annotation], st.sets(kind.values, max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda kind: Kind(dict[str, kind.annotation], st.dictionaries(TEXT, kind.values, max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda kind: Kind(dict[int, kind.annotation], st.dictionaries(WHOLE, kind.values, max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda kind: Kind(kind.annotation | None, kind.values | st.none())),
        inner.map(lambda kind: record(kind, lambda of: msgspec.defstruct("Made", [("x", of)], frozen=True))),
        inner.map(lambda kind: record(kind, lambda of: msgspec.defstruct("Flat", [("x", of)], array_like=True, gc=False))),
        inner.map(lambda kind: record(kind, lambda of: make_dataclass("Data", [("x", of)]))),
    )


UNIONS = [
    Kind(int | str | None, WHOLE | TEXT | st.none()),
    Kind(float | Decimal, REAL | DECIMALS),
    Kind(int | Decimal, st.integers(0, 9) | DECIMALS | st.just(0.5)),
    Kind(date | int, DATES | WHOLE),
    Kind(list[float] | Stat | int, st.lists(REAL, max_size=2) | st.builds(Stat, st.integers(0, 9), ANYTHING) | WHOLE),
    Kind(dict[str, Any] | list[Any], ANYTHING.filter(lambda value: isinstance(value, dict | list))),
    Kind(frozenset[int] | float, st.frozensets(WHOLE, max_size=3) | REAL),
]
OPEN = [Kind(Any, ANYTHING), Kind(Stat, st.builds(Stat, REAL, ANYTHING)), Kind(Pair, st.builds(Pair, REAL, ANYTHING))]
KINDS = st.recursive(st.sampled_from([*PLAIN, *UNIONS, *OPEN]), grown, max_leaves=3)


def shown(value: Any) -> str:
    """All that a detector can see of a value, but for the order of a set, which is no part of it."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}{sorted(map(shown, value))}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{list(map(shown, value))}"
    if isinstance(value, dict):
        return f"{type(value).__name__}{[(shown(key), shown(item)) for key, item in value.items()]}"
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
    return f"{type(value).__name__}({[shown(getattr(value, name)) for name in names] if names else repr(value)})"


class Start(Event):
    number: int


class Told(Event):
    number: int
    text: str


def over_a_wire(events: list[Any], raw: bool = False) -> list[Any]:
    """Events as another process reads them; those that cannot be sent are skipped."""
    read = []
    for event in events:
        drops, name = Drops(), type_name(type(event))
        try:
            blocks = encode_delta(name, Delta([event]), raw=raw)
        except (OverflowError, ValueError, TypeError):
            continue
        codec = EventCodec(EventTypes([type(event)]))
        read += [event for head, block in blocks for event in codec.decode(head, block, drops).inserts]
    return read


@given(st.data())
def test_a_value_is_the_same_wherever_it_is_read(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    values = data.draw(st.lists(kind.values, min_size=1, max_size=4))
    Holder: Any = msgspec.defstruct("Holder", [("number", int), ("of", kind.annotation)], bases=(Event,), frozen=True)

    class Makes(Detector):
        subscribes, publishes = (Start,), (Holder,)

        def on_event(self, event: Start) -> Any:
            return Holder(event.number, values[event.number], ts=event.ts)

    class Tells(Detector):
        subscribes, publishes = (Holder,), (Told,)

        def on_event(self, event: Any) -> Told:
            return Told(event.number, shown(event.of), ts=event.ts)

    detectors = {"Makes": Makes(), "Tells": Tells()}
    starts = [Start(number, ts=number, id=number, source="s") for number in range(len(values))]
    result = run(starts, detectors, failing="skip")
    texts = {event.number: event.text for event in result.finals["Tells"]}  # type: ignore[attr-defined]

    made = [Holder(number, value, ts=number, id=number, source="s") for number, value in enumerate(values)]
    behind = {event.number: shown(event.of) for event in over_a_wire(made, raw=True)}
    assert texts == behind, "the node where a value was made, and a reader on another"
    assert {failure.event.id for failure in result.failures.get("Makes", ())} == set(range(len(values))) - texts.keys()

    again = run(over_a_wire(list(result.finals["Makes"])), {"Tells": Tells()}).finals["Tells"]
    assert {event.number: event.text for event in again} == texts, "two nodes"  # type: ignore[attr-defined]
    assert {e.number: e.text for e in oracle(starts, detectors)["Tells"]} == texts  # type: ignore[attr-defined]
    late = run(starts[::-1], detectors, batch=1, failing="skip", policies=Policies(alpha=0.0))
    assert {e.number: e.text for e in late.finals["Tells"]} == {e: t for e, t in texts.items() if e in _kept(late, starts)}  # type: ignore[attr-defined]

    for event in made:  # given by users
        if event.number in texts:
            (only,) = run([event], {"Tells": Tells()}).finals["Tells"]
            assert only.text == texts[event.number] == oracle([event], {"Tells": Tells()})["Tells"][0].text  # type: ignore[attr-defined]
        else:
            with pytest.raises(EventError):
                run([event], {"Tells": Tells()})


def _kept(result: Any, starts: list[Start]) -> set[int]:
    return {event.number for event in starts} - {entry.event.number for entry in result.late["Makes"]}


@given(st.data())
def test_what_windows_give_is_the_same_wherever_it_is_read(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([each for each in PLAIN if each.annotation is not datetime]) | st.sampled_from(UNIONS))
    values = data.draw(st.lists(kind.values, min_size=1, max_size=4))
    has_order = kind.annotation in (int, float, str, bool, date, Decimal, bytes, timedelta)
    aggregates = {"all": (CONCAT, "of"), "first": (FIRST, "of"), "last": (LAST.of(object), lambda event: event.of)}
    aggregates |= {"least": (MIN, "of"), "most": (MAX, "of")} if has_order else {}
    Holder: Any = msgspec.defstruct("Held", [("of", kind.annotation)], bases=(Event,), frozen=True)
    events = over_a_wire([Holder(value, ts=at, id=at, source="s") for at, value in enumerate(values, 1)], raw=True)
    windows = Windows(Holder, Tumbling(10), aggregates, name="W")  # type: ignore[arg-type]
    found = run(events, [windows], failing="skip")  # of whole numbers beyond int64 there are no windows
    results, failures = list(found.finals["W"]), [failure.event for failure in found.failures.get("W", ())]
    failed = {event.id for event in failures if event.source == "s"}
    assert list(map(shown, over_a_wire(results))) == list(map(shown, results))
    firsts = [shown(event.of) for event in events if event.id not in failed and event.of is not None]
    due = firsts[:1] if len(failed) == len(failures) else []  # else the window itself has a value that no event carries
    assert [shown(each.first) for each in results if firsts] == due  # type: ignore[attr-defined]
    assert list(map(shown, map(carried, results))) == list(map(shown, results)), "and stays so"
