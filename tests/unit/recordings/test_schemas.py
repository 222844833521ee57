"""Event types from schemas and back, and what a scenario's streams are as AsyncAPI."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
import pytest
from slackline import Event, SlacklineError
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.model.errors import TraceError
from middleware.model.event import type_name
from middleware.model.schema import arrow_schema, fields_of
from middleware.recordings.files.mapping import load_mappings
from middleware.recordings.schemas.convert import avro_schema, event_type_from, json_schema, pydantic_model
from middleware.runtime.json_records import as_record


class Reading(Event):
    namespace = "weather"

    station: int
    celsius: float
    note: str
    dry: bool
    samples: list[float]
    remark: str | None = None


PLAIN = {"station": int, "celsius": float, "note": str, "dry": bool, "samples": list[float]}


def test_avro_and_json_schema_lead_back_to_the_type() -> None:
    for schema in (avro_schema(Reading), json_schema(Reading)):
        made = event_type_from(json.loads(json.dumps(schema)))
        assert type_name(made) == "weather.Reading"
        assert fields_of(made) == fields_of(Reading)


def test_arrow_and_pydantic_lead_back_to_the_type() -> None:
    schema = arrow_schema(Reading)
    assert schema.names == [*PLAIN, "remark", "ts", "id", "source"]
    assert fields_of(event_type_from(schema, "weather.Reading")) == {**PLAIN, "remark": str}
    made = event_type_from(pydantic_model(Reading))
    assert fields_of(made) == fields_of(Reading)


def test_a_pydantic_model_becomes_an_event_type() -> None:
    class Order(pydantic.BaseModel):
        item: str
        count: int
        ts: int

    made = event_type_from(Order, "shop.Order")
    assert made("pen", 3, ts=5) == made(item="pen", count=3, ts=5)
    assert (type_name(made), list(fields_of(made))) == ("shop.Order", ["item", "count"])


@pytest.mark.parametrize("kind", ["parquet", "arrow", "avsc", "json"])
def test_schemas_in_files(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"Reading.{kind}"
    table = pa.table({"station": [1], "celsius": [2.5], "ts": [7], "id": [0], "source": ["x"]})
    if kind == "parquet":
        pq.write_table(table, file)
    elif kind == "arrow":
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
    else:
        short = event_type_from(table.schema, "Reading")
        file.write_text(json.dumps(avro_schema(short) if kind == "avsc" else json_schema(short)))
    made = event_type_from(file)
    assert (type_name(made), fields_of(made)) == ("Reading", {"station": int, "celsius": float})


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (pa.schema([("at", pa.timestamp("ns"))]), "column at is of timestamp"),
        ({"type": "record", "name": "A", "fields": [{"name": "x", "type": {"type": "map"}}]}, "field x is of 'map'"),
        ({"title": "A", "properties": {"x": {"type": "object"}}}, "field x is"),
        ({"properties": {}}, "has no name"),
        (7, "is no schema"),
    ],
)  # fmt: skip
def test_what_no_event_can_be_is_reported(schema: object, complaint: str) -> None:
    with pytest.raises(SlacklineError, match=complaint):
        event_type_from(schema, "A" if isinstance(schema, pa.Schema) else "")


def test_a_file_without_a_schema_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(TraceError, match="has no schema"):
        event_type_from(tmp_path / "a.csv")


def test_an_event_fits_its_json_schema() -> None:
    schema = json_schema(Reading)
    record = as_record(Reading(1, 2.5, "", True, [1.0], ts=3))
    assert set(schema["required"]) <= record.keys()
    assert set(schema["properties"]) == set(record) - {"level"}


def refs(node: object) -> list[str]:
    """All references in a document."""
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [each for value in node.values() for each in refs(value)]
    return [each for value in node for each in refs(value)] if isinstance(node, list) else []


def test_a_scenario_as_asyncapi() -> None:
    result = CliRunner().invoke(application(), ["schema", "bookstore"])
    assert result.exit_code == 0, result.output
    document = msgspec.json.decode(result.stdout)
    assert document["asyncapi"] == "3.0.0"
    assert "shop.Theft" in document["channels"]
    operations = document["operations"].values()
    assert {"send", "receive"} == {operation["action"] for operation in operations}
    assert any(
        operation["action"] == "send" and operation["channel"] == {"$ref": "#/channels/shop.Theft"} for operation in operations
    )
    for reference in refs(document):
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_all_scenarios_have_a_document() -> None:
    for name in ("soccer", "ticks", "search", "debs2013", "umts"):
        result = CliRunner().invoke(application(), ["schema", name])
        assert result.exit_code == 0, result.output


def test_of_a_file_it_writes_a_mapping_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "my readings.csv").write_text('"my time",celsius\n')
    (tmp_path / "b.csv").write_text("time,temp (C),class\n1700000000,2.5,x\n")
    result = CliRunner().invoke(application(), ["schema", str(tmp_path / "b.csv"), "--out", str(tmp_path / "b.toml")])
    assert result.exit_code == 0, result.output
    (mapping,) = load_mappings(tmp_path / "b.toml")
    assert (mapping.type, mapping.ts.unit, list(mapping.fields)) == ("b", "s", ["temp_C", "class_"])
    result = CliRunner().invoke(application(), ["schema", str(tmp_path / "my readings.csv")])
    assert result.exit_code == 2
    assert "has no row to see" in result.output
