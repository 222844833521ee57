"""How messages become events, and how those that do not are reported."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import Message, matches
from middleware.model.errors import ScenarioError
from middleware.model.event import Event, EventTypes
from middleware.model.quantities import exact_time


class Place(Event):
    tag: str
    x: float
    floor: int = 3


class Switch(Event):
    type: str


class Pay(Event):
    amount: Decimal
    rate: float = 0.0


TYPES = EventTypes([Place, Switch, Pay])


def message(content: object, topic: str = "hub/7/location") -> Message:
    return Message(topic, content if isinstance(content, bytes) else json.dumps(content).encode(), "src", 5, 77)


def reader(**options: object) -> MessageReader:
    return MessageReader({"hub/+/location": "Place", "switch/#": "Switch", "pay": "Pay"}, TYPES, **options)  # type: ignore[arg-type]


def test_fields_are_found_by_name_and_the_message_gives_time_and_identity() -> None:
    events, unread = reader().read([message({"tag": "a", "x": 1, "id": "other", "source": 9, "level": 4, "more": []})])
    assert events == [Place("a", 1.0, ts=77, id=5, source="src")]
    assert not unread
    for key in ("type_", "type"):
        assert reader().read([message({key: "on"}, "switch/a/b")])[0] == [Switch("on", ts=77, id=5, source="src")]


def test_decimals_and_times_are_what_was_written() -> None:
    (pay,), _ = reader().read([message(b'{"amount": 12345678901234567.89, "rate": 0.1}', "pay")])
    assert (pay.amount, pay.rate) == (Decimal("12345678901234567.89"), 0.1)  # type: ignore[attr-defined]
    _, (unread,) = reader().read([message(b'{"amount": 1, "rate": 1e400}', "pay")])
    assert "out of range" in unread.reason
    timed = reader(fields={"ts": "t"}, unit="s")
    for content, topic in (
        (b'{"tag": "a", "x": 1, "t": 1772366400.1}', "hub/7/location"),
        (b'{"amount": 1, "t": 1772366400.1}', "pay"),
    ):
        assert timed.read([message(content, topic)])[0][0].ts == 1_772_366_400_100_000_000


def test_paths_lead_into_objects_and_lists() -> None:
    paths = {"tag": "who.0", "x": "at.x", "ts": "when", "id": "n", "source": "from"}
    content = {"who": ["a"], "at": {"x": 2.5}, "when": 7, "n": 12, "from": "tracker", "floor": 1}
    assert reader(fields=paths, unit="ms").read([message(content)])[0] == [
        Place("a", 2.5, 1, ts=7_000_000, id=12, source="tracker")
    ]
    assert reader(fields=paths).has_own_times and not reader().has_own_times


@pytest.mark.parametrize(
    ("content", "topic", "reason"),
    [
        (b"\xff{", "hub/7/location", "malformed"),
        (b"", "hub/7/location", "truncated"),
        ([1], "hub/7/location", "no object with fields by name"),
        ({"tag": "a"}, "hub/7/location", "Place needs a field 'x'"),
        ({"tag": "a", "x": "far"}, "hub/7/location", "Expected `float`"),
        ({"tag": "a", "x": 1, "floor": 2**70}, "hub/7/location", "Place"),
        ({"tag": "a", "x": 1, "ts": "noon"}, "hub/7/location", "'noon' is no time"),
        ({"tag": "a", "x": 1, "ts": True}, "hub/7/location", "True is no time"),
        ({"tag": "a", "x": 1, "ts": 2**70}, "hub/7/location", "ts"),
        (b"[" * 100_000, "hub/7/location", "recursion"),
        ({}, "hub/location", "no event type is given for the topic 'hub/location'"),
    ],
)
def test_what_is_no_event_is_named_with_its_reason_and_the_others_come(content: object, topic: str, reason: str) -> None:
    events, unread = reader().read([message(content, topic), message({"tag": "a", "x": 1})])
    assert len(events) == 1
    assert reason in unread[0].reason


def test_a_path_for_the_time_must_lead_somewhere() -> None:
    _, unread = reader(fields={"ts": "at.t"}).read([message({"tag": "a", "x": 1, "ts": 5})])
    assert unread[0].reason == "Place: the message has no at.t, for ts"


@given(st.integers(min_value=631_152_000 * 10**9, max_value=4_102_444_799 * 10**9))
def test_texts_of_times_are_exact_to_the_nanosecond(at: int) -> None:
    (event,), _ = reader().read([message({"tag": "a", "x": 1, "ts": exact_time(at)})])
    assert event.ts == at


def test_offsets_count_and_none_is_utc() -> None:
    texts = ["2026-03-01T13:00:00.5+01:00", "2026-03-01T12:00:00.5", "2026-03-01 12:00:00.500000000Z", "2026-03-01T12:00:00,5Z"]
    events, _ = reader().read([message({"tag": "a", "x": 1, "ts": text}) for text in texts])
    assert {event.ts for event in events} == {int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 10**9 + 500_000_000}


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"fields.speed: no type"):
        reader(fields={"speed": "v"})
    with pytest.raises(ScenarioError, match="there are omlox"):
        reader(mapping="gps")
    with pytest.raises(ScenarioError, match="give ns, us, ms or s"):
        reader(unit="eons")


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("+/b/#", "a/b", True),
        ("+/b/#", "a/b/c/d", True),
        ("+/b/#", "a/c/d", False),
        ("#", "a/b", True),
    ],
)
def test_patterns_are_those_of_mqtt(pattern: str, topic: str, fits: bool) -> None:
    assert matches(pattern, topic) is fits
