"""Avro: messages of a schema that is known, or with the number of their schema in front, as registries of schemas have them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import msgspec

from middleware.model.errors import EventError, ScenarioError, SinkError
from middleware.model.event import Event, type_name
from middleware.model.time import MILLISECOND
from middleware.runtime.json_records import Record

_MAGIC, _HEAD = 0, 5
"""The first byte of a message with a schema's number, and the length of both: the number follows in four bytes."""

_UNITS = {
    f"{kind}-{unit}": length
    for kind in ("timestamp", "local-timestamp")
    for unit, length in {"millis": MILLISECOND, "micros": MILLISECOND // 1_000, "nanos": 1}.items()
}


class _Schema(NamedTuple):
    file: Path
    parsed: Any
    name: str
    unit: int
    """The unit of ``ts``, ns."""


class Avro:
    """Decodes messages, and encodes events.

    ``schemas``
        the file of a schema (.avsc), of which all messages are, bare; or the files by the numbers of schemas, which then stand
        in front of messages: a byte 0, and four bytes, the most significant first.
    ``folder``
        from which files are looked for.

    Raises ScenarioError if a schema cannot be read, or is none of a record.
    """

    def __init__(self, schemas: str | Mapping[str, str], folder: Path) -> None:
        numbered = schemas if isinstance(schemas, Mapping) else {}
        if not isinstance(schemas, str) and not (numbered and all(isinstance(file, str) for file in numbered.values())):
            raise ScenarioError(f"avro = {schemas!r}: give the file of a schema, or {{ NUMBER = FILE }}")
        if stray := [number for number in numbered if not (number.isdecimal() and int(number) < 2**32)]:
            raise ScenarioError(f"avro: {stray[0]!r} is no number of a schema: give a file, or {{ NUMBER = FILE }}")
        self._bare = _schema(folder / schemas) if isinstance(schemas, str) else None
        self._numbered = {int(number): _schema(folder / file) for number, file in numbered.items()}

    def decode(self, body: bytes) -> Record:
        """The fields of a message; times and the like as texts. Raises EventError."""
        schema, start = self._schema_of(body)
        data = io.BytesIO(body)
        data.seek(start)
        try:
            found = fastavro.schemaless_reader(data, schema.parsed)
        except Exception as error:  # of whatever kind: a damaged message may lead anywhere
            raise EventError(f"the message does not fit the schema of {schema.file.name}: {error!r}") from None
        if left := len(body) - data.tell():
            raise EventError(f"the message is longer by {left} bytes than the schema of {schema.file.name} says")
        return {name: _to_builtins(value) for name, value in found.items()}  # type: ignore[union-attr]

    def _schema_of(self, body: bytes) -> tuple[_Schema, int]:
        """The schema of a message, and where its content begins."""
        if self._bare is not None:
            return self._bare, 0
        if len(body) < _HEAD or body[0] != _MAGIC:
            raise EventError("the message has no number of a schema in front, a byte 0 and four more")
        number = int.from_bytes(body[1:_HEAD], "big")
        if number not in self._numbered:
            known = ", ".join(map(str, sorted(self._numbered)))
            raise EventError(f"the message is of schema {number}, for which avro has no file: it has those of {known}")
        return self._numbered[number], _HEAD

    def encode(self, event: Event) -> bytes:
        """An event as a message of the one schema, or of the one that is called as its type. Raises SinkError."""
        number, schema = self._schema_for(type_name(event.__class__))
        fields = msgspec.to_builtins(msgspec.structs.asdict(event), builtin_types=(bytes,))
        fields["ts"] //= schema.unit
        out = io.BytesIO()
        if number is not None:
            out.write(bytes([_MAGIC]) + number.to_bytes(4, "big"))
        try:
            fastavro.schemaless_writer(out, schema.parsed, fields)
        except Exception as error:
            raise SinkError(f"{type_name(event.__class__)} does not fit the schema of {schema.file}: {error!r}") from None
        return out.getvalue()

    def _schema_for(self, name: str) -> tuple[int | None, _Schema]:
        if self._bare is not None:
            return None, self._bare
        for candidate in (name, name.rpartition(".")[2]):
            for number, schema in self._numbered.items():
                if schema.name == candidate:
                    return number, schema
        known = ", ".join(schema.name for schema in self._numbered.values())
        raise SinkError(f"{name}: avro has no schema of this name; it has {known}")


def _schema(file: Path) -> _Schema:
    try:
        schema = json.loads(file.read_text(encoding="utf-8"))
        parsed = fastavro.parse_schema(schema)
    except (OSError, ValueError, fastavro.schema.SchemaParseException, KeyError, TypeError) as error:
        raise ScenarioError(f"avro: the schema of {file} cannot be read: {error!r}") from None
    if not (isinstance(schema, dict) and schema.get("type") == "record"):
        raise ScenarioError(f"avro: the schema of {file} is none of a record, which has fields by name")
    if danger := _danger(parsed, (), {}):
        raise ScenarioError(f"avro: the schema of {file} has {danger}")
    kind = next((field["type"] for field in schema["fields"] if field["name"] == "ts"), "long")
    kinds = kind if isinstance(kind, list) else [kind]  # it may be null, too
    logical = {each["logicalType"] for each in kinds if isinstance(each, dict) and "logicalType" in each}
    if len(logical) > 1 or logical - _UNITS.keys():
        raise ScenarioError(
            f"avro: the schema of {file} has ts as {', '.join(sorted(logical))}: one of {', '.join(_UNITS)} is known"
        )
    return _Schema(file, parsed, parsed["name"], _UNITS[logical.pop()] if logical else 1)  # type: ignore[index, call-overload]


def _danger(kind: Any, above: tuple[str, ...], known: dict[str, Any]) -> str:
    """The part of a schema with which a few damaged bytes crash the library, or fill the memory; empty if there is none. No
    event has such a field.

    ``above``: the names of the records that it is in. ``known``: the types with a name that came before.
    """
    if isinstance(kind, str):
        return f"the type {kind} in itself" if kind in above else ""
    if isinstance(kind, list):
        return next(filter(None, (_danger(each, above, known) for each in kind)), "")
    if "name" in kind:
        known[kind["name"]] = kind
    match kind["type"]:
        case "record" | "error":
            inside = (*above, kind["name"])
            return next(filter(None, (_danger(field["type"], inside, known) for field in kind["fields"])), "")
        case "array":
            if found := _danger(kind["items"], above, known):
                return found
            # The length stands in front, so items of no bytes let four bytes claim any number of them.
            return "" if _has_bytes(kind["items"], known) else "an array of nothing, which may have any length"
        case "map":
            return _danger(kind["values"], above, known)
        case dict() | list() as within:
            return _danger(within, above, known)
        case _:
            return ""


def _has_bytes(kind: Any, known: Mapping[str, Any]) -> bool:
    """Whether every value of a type takes at least a byte. The type is not in itself: see ``_danger``."""
    if isinstance(kind, list):  # the number of the branch is one
        return True
    if isinstance(kind, str):
        return _has_bytes(known[kind], known) if kind in known else kind != "null"
    match kind["type"]:
        case "record" | "error":
            return any(_has_bytes(field["type"], known) for field in kind["fields"])
        case "fixed":
            return bool(kind["size"] > 0)
        case within:
            return _has_bytes(within, known)


def _to_builtins(value: Any) -> Any:
    """A value as JSON has it, bytes and decimals as they are: times in ISO 8601."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case dict():
            return {name: _to_builtins(each) for name, each in value.items()}
        case list():
            return list(map(_to_builtins, value))
        case _:
            return value
