"""Event types from schemas of Arrow, Avro, JSON Schema and pydantic, and schemas of event types.

Columns called ts, id, source and level are not fields: every event has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from middleware.model.errors import EventError, TraceError
from middleware.model.event import Event, EventType, type_name
from middleware.model.schema import fields_of, is_optional, item_type, plain_type
from middleware.recordings.schemas.types import event_type

if TYPE_CHECKING:
    import pyarrow as pa

STAMP = Event.__struct_fields__
"""The fields of every event: ts, id, source and level."""

_AVRO = {"int": int, "long": int, "float": float, "double": float, "string": str, "boolean": bool, "bytes": bytes}
_JSON = {"integer": int, "number": float, "string": str, "boolean": bool}
_TO_AVRO = {int: "long", float: "double", str: "string", bool: "boolean", bytes: "bytes"}
_TO_JSON = {int: "integer", float: "number", str: "string", bool: "boolean", bytes: "string"}


def event_type_from(schema: Any, name: str = "") -> EventType:
    """The event type that a schema describes.

    ``schema``
        a pyarrow.Schema, a pydantic model, a schema of Avro or JSON Schema as a dict; or the path of a Parquet, Arrow, Avro
        (.avsc) or JSON Schema (.json) file.
    ``name``
        what to call it: ``Name`` or ``namespace.Name``; by default as the schema, or the file, is called.

    Raises EventError for fields that no event can have, TraceError if a file cannot be read.
    """
    if isinstance(schema, str | Path):
        return _of_file(Path(schema), name)
    if isinstance(schema, Mapping):
        fields, own = _of_avro(schema) if schema.get("type") == "record" else _of_json_schema(schema)
    elif hasattr(schema, "model_fields"):
        fields, own = {field: each.annotation for field, each in schema.model_fields.items()}, schema.__name__
    elif hasattr(schema, "names") and hasattr(schema, "types"):
        fields, own = {field.name: _arrow_kind(field.name, field.type) for field in schema if field.name not in STAMP}, ""
    else:
        raise EventError(f"{schema!r} is no schema: give one of Arrow, Avro, JSON Schema or pydantic, or a file")
    if not (name or own):
        raise EventError("the schema has no name: give one to the event type")
    return event_type(name or own, {field: kind for field, kind in fields.items() if field not in STAMP})


def avro_schema(kind: EventType) -> dict[str, Any]:
    """The Avro schema of events of a type, stamp included. Raises EventError."""

    def avro(hint: Any) -> Any:
        return {"type": "array", "items": avro(item_type(hint))} if item_type(hint) is not None else _TO_AVRO[hint]

    fields = []
    for field, hint in fields_of(kind).items():
        found = _mapped(kind, field, hint, avro)
        fields.append(
            {"name": field, "type": ["null", found], "default": None} if is_optional(hint) else {"name": field, "type": found}
        )
    stamp = [{"name": name, "type": "string" if name == "source" else "long"} for name in STAMP[:3]]
    record = {"type": "record", "name": kind.__name__, "fields": fields + stamp}
    return {**record, "namespace": kind.namespace} if kind.namespace else record


def json_schema(kind: EventType) -> dict[str, Any]:
    """The JSON Schema of an event as ``slackline sub`` prints it, and ``pub`` reads it. Fields of other types: any JSON."""

    def schema(hint: Any) -> dict[str, Any]:
        if item_type(hint) is not None:
            return {"type": "array", "items": schema(item_type(hint))}
        return {"type": _TO_JSON[hint]} if hint in _TO_JSON else {"description": f"a value of {hint}"}

    properties: dict[str, Any] = {"type": {"const": type_name(kind)}}
    hints = fields_of(kind)
    for field, hint in hints.items():
        found = schema(plain_type(hint))
        properties[field] = {"anyOf": [found, {"type": "null"}]} if is_optional(hint) else found
    stamp = {"ts": "nanoseconds", "id": "with source, the event's identity", "source": "who says so"}
    for name, description in stamp.items():
        properties[name] = {"type": "string" if name == "source" else "integer", "description": description}
    needed = [field for field, hint in hints.items() if not is_optional(hint)]
    return {"title": type_name(kind), "type": "object", "properties": properties, "required": ["type", *needed, "ts"]}


def pydantic_model(kind: EventType) -> Any:
    """A pydantic model with the fields of an event type and its stamp."""
    from pydantic import create_model

    fields: dict[str, Any] = {field: (hint, None if is_optional(hint) else ...) for field, hint in fields_of(kind).items()}
    return create_model(kind.__name__, **fields, ts=(int, ...), id=(int, 0), source=(str, ""))


def _of_file(file: Path, name: str) -> EventType:
    from middleware.recordings.files.formats import batches, format_of
    from middleware.recordings.files.guess import named

    own = name or named(file.name.split(".")[0])
    try:
        if file.suffix in (".avsc", ".json"):
            return event_type_from(json.loads(file.read_text(encoding="utf-8")), name)
        if format_of(file) == "parquet":
            import pyarrow.parquet as pq

            return event_type_from(pq.read_schema(file), own)
        if format_of(file) == "arrow":
            return event_type_from(next(batches(file)).schema, own)
    except (OSError, ValueError, StopIteration) as error:
        raise TraceError(f"the schema of {file} cannot be read: {error}") from None
    raise TraceError(f"{file} has no schema: give a .parquet, .arrow, .avsc or .json file")


def _arrow_kind(name: str, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _arrow_kind(name, kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list[_arrow_kind(name, kind.value_type)]  # type: ignore[misc]
    tests = {
        int: (pa.types.is_integer,),
        float: (pa.types.is_floating, pa.types.is_decimal),
        str: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        bool: (pa.types.is_boolean,),
        bytes: (pa.types.is_binary, pa.types.is_large_binary),
    }
    found = next((python for python, some in tests.items() if any(test(kind) for test in some)), None)
    if found is None:
        raise EventError(f"the column {name} is of {kind}, which no field of an event can be: map it")
    return found


def _of_avro(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    name = schema["name"] if "." in schema["name"] or not schema.get("namespace") else f"{schema['namespace']}.{schema['name']}"
    return {field["name"]: _avro_kind(field["name"], field["type"]) for field in schema["fields"]}, name


def _avro_kind(name: str, kind: Any) -> Any:
    if isinstance(kind, list):
        rest = [each for each in kind if each != "null"]
        if len(rest) == 1:
            return _avro_kind(name, rest[0]) | None if len(kind) > 1 else _avro_kind(name, rest[0])
    elif isinstance(kind, Mapping):
        if kind.get("type") == "array":
            return list[_avro_kind(name, kind["items"])]  # type: ignore[misc]
        if kind.get("type") == "enum":
            return str
        return _avro_kind(name, kind.get("type"))
    elif kind in _AVRO:
        return _AVRO[kind]
    raise EventError(f"the field {name} is of {kind!r}, which no field of an event can be")


def _of_json_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    needed = schema.get("required", ())
    fields = {}
    for name, own in schema.get("properties", {}).items():
        if name == "type" and "const" in own:
            continue  # our own schemas name the type there
        kind = _json_kind(name, own)
        fields[name] = kind if name in needed or name in STAMP or is_optional(kind) else kind | None
    return fields, schema.get("title", "")


def _json_kind(name: str, schema: Mapping[str, Any]) -> Any:
    if "anyOf" in schema or isinstance(schema.get("type"), list):
        options = schema.get("anyOf") or [{"type": each} for each in schema["type"]]
        rest = [each for each in options if each.get("type") != "null"]
        if len(rest) == 1:
            return _json_kind(name, rest[0]) | None if len(options) > 1 else _json_kind(name, rest[0])
    elif schema.get("type") == "array":
        return list[_json_kind(name, schema.get("items", {}))]  # type: ignore[misc]
    elif schema.get("type") in _JSON:
        return _JSON[schema["type"]]
    raise EventError(f"the field {name} is {schema!r}, which no field of an event can be")


def _mapped(kind: EventType, field: str, hint: Any, convert: Any) -> Any:
    try:
        return convert(plain_type(hint))
    except KeyError:
        raise EventError(f"{type_name(kind)}.{field} is of {hint}, for which this schema has no type") from None
