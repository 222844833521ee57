"""Messages in Avro: what is written is read, by schema or by its number; what is damaged is no event, and says why."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.connect.messages.avro import Avro
from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import Message
from middleware.model.errors import EventError, ScenarioError, SinkError
from middleware.model.event import Event, EventTypes
from middleware.recordings.schemas.convert import avro_schema


class Place(Event):
    tag: str
    x: float
    floor: int | None = None
    seen: tuple[str, ...] = ()


class Other(Event):
    tag: str


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
PLACES = st.builds(
    Place,
    st.text(max_size=3),
    st.floats(allow_nan=False),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.lists(st.text(max_size=2), max_size=3).map(tuple),
    ts=st.integers(-(2**62) + 1, 2**62 - 1),
    id=st.integers(0, 2**63 - 1),
    source=st.sampled_from("ab"),
)


def written(folder: Path, name: str, schema: Any) -> str:
    (folder / name).write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return name


@pytest.fixture(scope="module", params=["bare", "numbered"])
def avro(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Avro:
    folder = tmp_path_factory.mktemp("schemas")
    file = written(folder, "place.avsc", avro_schema(Place))
    return Avro(file if request.param == "bare" else {"258": file, "1": written(folder, "o.avsc", avro_schema(Other))}, folder)


@given(PLACES)
def test_what_is_encoded_is_read(avro: Avro, event: Place) -> None:
    reader = MessageReader({"#": "Place"}, EventTypes([Place]), {"id": "id", "source": "source"}, decode=avro.decode)
    assert reader.read([Message("x", avro.encode(event), "s", 1, 0)]) == ([event], [])


@given(PLACES, st.integers(0, 200), st.binary(max_size=4), st.booleans())
def test_a_damaged_message_is_listed_and_the_others_are_read(
    avro: Avro, event: Place, at: int, into: bytes, is_cut: bool
) -> None:
    body = avro.encode(event)
    damaged = body[:at] + into + (b"" if is_cut else body[at + len(into) :])
    try:
        avro.decode(damaged)
    except EventError:
        is_event = False
    else:
        is_event = True
    reader = MessageReader({"#": "Place"}, EventTypes([Place]), {"id": "id", "source": "source"}, decode=avro.decode)
    messages = [Message("x", each, "s", number, 0) for number, each in enumerate([body, damaged, body])]
    found, unread = reader.read(messages)
    assert len(found) + len(unread) == 3
    assert [found[0], found[-1]] == [event, event]
    assert [each.message for each in unread] == ([] if len(found) == 3 else messages[1:2])
    assert is_event or len(unread) == 1


def test_the_number_in_front_says_the_schema(tmp_path: Path) -> None:
    files = {"258": written(tmp_path, "p.avsc", avro_schema(Place)), "1": written(tmp_path, "o.avsc", avro_schema(Other))}
    avro = Avro(files, tmp_path)
    body = avro.encode(Place("a", 1.5, ts=7, id=1, source="s"))
    assert body[:5] == b"\x00\x00\x00\x01\x02"
    assert avro.encode(Other("a", ts=7))[:5] == b"\x00\x00\x00\x00\x01"
    with pytest.raises(EventError, match="of schema 259, for which avro has no file: it has those of 1, 258"):
        avro.decode(b"\x00\x00\x00\x01\x03" + body[5:])
    with pytest.raises(EventError, match="no number of a schema in front"):
        avro.decode(b'{"tag": "a"}')
    with pytest.raises(SinkError, match="Stray: avro has no schema of this name; it has Place, Other"):
        avro.encode(type("Stray", (Event,), {})(ts=1))


def test_times_are_in_the_unit_of_the_schema_and_other_values_as_json_has_them(tmp_path: Path) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = {"tag": {"type": "enum", "name": "Tag", "symbols": ["a", "b"]}, "x": price, "ts": MILLIS}
    schema = {"type": "record", "name": "n.Place", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    avro = Avro(written(tmp_path, "s.avsc", schema), tmp_path)
    reader = MessageReader({"#": "Place"}, EventTypes([Place]), decode=avro.decode)
    body = b"\x02\x02\x4b" + b"\xd0\x0f"  # b, 75 hundredths, 1,000 ms
    events, unread = reader.read([Message("x", body, "s", 4, 0)])
    assert (events, unread) == ([Place("b", 0.75, ts=1_000_000_000, id=4, source="s")], [])


def test_an_event_that_has_no_place_in_the_schema_is_an_error(tmp_path: Path) -> None:
    avro = Avro(written(tmp_path, "s.avsc", avro_schema(Place)), tmp_path)
    with pytest.raises(SinkError, match=r"Other does not fit the schema of .*s\.avsc: .*x"):
        avro.encode(Other("a", ts=1))


@pytest.mark.parametrize(
    ("schemas", "message"),
    [
        ("none.avsc", "cannot be read"),
        ("bad.avsc", "cannot be read"),
        ("long.avsc", "none of a record"),
        ("endless.avsc", "has the type n.Node in itself"),  # the library would crash at a message of such a type
        ("nothing.avsc", "has an array of nothing"),
        ({"x": "good.avsc"}, "'x' is no number of a schema"),
        ({str(2**32): "good.avsc"}, "is no number of a schema"),
        ({}, "give the file of a schema"),
        (["good.avsc"], "give the file of a schema"),
        ({"1": 2}, "give the file of a schema"),
    ],
)
def test_what_is_no_schema_is_refused(tmp_path: Path, schemas: Any, message: str) -> None:
    written(tmp_path, "bad.avsc", '{"type": "record"}')
    written(tmp_path, "long.avsc", '"long"')
    written(tmp_path, "good.avsc", avro_schema(Other))
    nodes = {"type": "array", "items": ["null", "Node"]}
    endless = {"type": "record", "name": "n.Node", "fields": [{"name": "below", "type": {"type": "map", "values": nodes}}]}
    written(tmp_path, "endless.avsc", endless)
    nothing = [{"name": "seen", "type": {"type": "array", "items": "null"}}]
    written(tmp_path, "nothing.avsc", {"type": "record", "name": "Some", "fields": nothing})
    with pytest.raises(ScenarioError, match=message):
        Avro(schemas, tmp_path)


EMPTY = {"type": "fixed", "name": "Empty", "size": 0}
SHORT = {"type": "fixed", "name": "Short", "size": 1}


@pytest.mark.parametrize(
    ("items", "is_refused"),
    [
        ("null", True),
        ({"type": "null"}, True),
        (EMPTY, True),
        ({"type": "record", "name": "No", "fields": []}, True),
        ({"type": "record", "name": "Nulls", "fields": [{"name": "a", "type": "null"}, {"name": "b", "type": EMPTY}]}, True),
        ({"type": "array", "items": EMPTY}, True),
        ({"type": "map", "values": {"type": "array", "items": "null"}}, True),
        (SHORT, False),
        (["null", "string"], False),
        ({"type": "array", "items": "long"}, False),
        ({"type": "map", "values": "null"}, False),
        ({"type": "enum", "name": "One", "symbols": ["a"]}, False),
        ({"type": "record", "name": "Some", "fields": [{"name": "a", "type": "null"}, {"name": "b", "type": SHORT}]}, False),
    ],
)
@pytest.mark.parametrize("is_named", [False, True])
def test_an_array_whose_items_take_no_byte_is_refused(tmp_path: Path, items: Any, is_refused: bool, is_named: bool) -> None:
    fields = [{"name": "seen", "type": {"type": "array", "items": items}}]
    if is_named and isinstance(items, dict) and "name" in items:  # a type that came before is known by its name
        fields = [{"name": "first", "type": items}, {"name": "seen", "type": {"type": "array", "items": items["name"]}}]
    file = written(tmp_path, "s.avsc", {"type": "record", "name": "Row", "fields": fields})
    if is_refused:
        with pytest.raises(ScenarioError, match="an array of nothing, which may have any length"):
            Avro(file, tmp_path)
    else:
        with pytest.raises(EventError):  # a length of 2**40 without items ends at once
            Avro(file, tmp_path).decode(b"\x00" * 2 + b"\x80\x80\x80\x80\x80\x80\x01")


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("kind", ["timestamp", "local-timestamp"])
@pytest.mark.parametrize(("unit", "expected"), [("millis", 1_500), ("micros", 1_500_000)])
def test_time_is_written_in_the_unit_of_the_schema(tmp_path: Path, unit: str, expected: int, kind: str, nullable: bool) -> None:
    ts: Any = {"type": "long", "logicalType": f"{kind}-{unit}"}
    fields = [{"name": "ts", "type": ["null", ts] if nullable else ts}]
    file = written(tmp_path, "s.avsc", {"type": "record", "name": "Place", "fields": fields})
    body = Avro(file, tmp_path).encode(Place("a", 1.0, ts=1_500_000_999, id=1, source="s"))
    plain: Any = ["null", "long"] if nullable else "long"
    reader = fastavro.parse_schema({"type": "record", "name": "Place", "fields": [{"name": "ts", "type": plain}]})
    assert fastavro.schemaless_reader(io.BytesIO(body), reader) == {"ts": expected}


def test_a_time_of_another_kind_is_refused(tmp_path: Path) -> None:
    ts = {"type": "int", "logicalType": "time-millis"}
    file = written(tmp_path, "s.avsc", {"type": "record", "name": "Place", "fields": [{"name": "ts", "type": ts}]})
    with pytest.raises(ScenarioError, match="has ts as time-millis"):
        Avro(file, tmp_path)
