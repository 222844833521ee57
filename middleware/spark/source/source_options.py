"""The options of ``format("slackline")``, read and checked in the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from middleware.model.errors import TraceError
from middleware.model.event import Event, EventType, check_event_type, type_name
from middleware.runtime.clients.log_reader import Extent
from middleware.runtime.clients.subscriber import Consistency
from middleware.runtime.transport.keys import Keys
from middleware.runtime.usercode import load_object
from middleware.spark.schemas import STAMP
from middleware.spark.source.change_rows import OP

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KNOWN = {
    "path": "the address of a node, such as tcp://10.0.0.5:5570: .load(address), .start(address)",
    "type": "the event type: one that was registered, or module:Class, or any name with a schema given",
    "consistency": "final (default): each final event once, in total order; early: every change as it is made",
    "name": "of a stream: the durable name under which the node keeps what it has not read",
    "startingOffsets": "earliest (default of a batch), latest (of a stream), or the offset of the log after which to begin",
    "maxEventsPerTrigger": "of a stream: most events of a batch (default 100000)",
    "source": "of a write: the source of events that have none; their ids follow from partition and batch",
    "end": "of a batch write: true announces the end of the type, once all is written",
    "keys": "key file, for nodes that require keys",
    "allowList": "file with the public keys of the nodes",
    "node": "name of the node, if the allow-list has several",
}

_OF_SPARK = {"checkpointlocation"}
"""Options that Spark passes on although they are its own."""

_KINDS: dict[str, type] = {"bigint": int, "int": int, "double": float, "string": str, "boolean": bool, "binary": bytes}


@dataclass(frozen=True)
class NodeTarget:
    """The node and the event type to read or to write; sent to executors, with the keys."""

    address: str
    event_type: EventType
    keys: Keys | None
    node: str | None


@dataclass(frozen=True)
class StartingOffset:
    """Where to begin: "earliest", "latest", or after an offset; None: as batches and streams do by default."""

    given: str | int | None

    def offset_in(self, log: Extent, default: str) -> int:
        """The offset after which a reader begins; never one that the log does not have."""
        given = default if self.given is None else self.given
        if isinstance(given, int):
            return min(max(given, log.oldest), log.offset)
        return log.oldest if given == "earliest" else log.offset


@dataclass(frozen=True)
class Options:
    """See ``KNOWN``."""

    target: NodeTarget
    consistency: Consistency
    name: str | None
    starting: StartingOffset
    most: int
    source: str | None
    end: bool


def parse(given: Mapping[str, str], registered: Mapping[str, EventType], schema: StructType | None = None) -> Options:
    """The options as given in any case of letters. Raises TraceError for one that is unknown, missing or wrong."""
    known = {name.lower(): name for name in KNOWN}
    if unknown := [name for name in given if name.lower() not in known.keys() | _OF_SPARK]:
        known_names = "; ".join(f"{name}: {what}" for name, what in KNOWN.items())
        raise TraceError(f'format("slackline") has no option {", ".join(map(repr, unknown))}. It has {known_names}')
    values = {known[name.lower()]: value for name, value in given.items() if name.lower() in known}
    for name in ("path", "type"):
        if not values.get(name):
            raise TraceError(f'format("slackline") needs the option {name!r}: {KNOWN[name]}')
    files = [Path(values[name]) if name in values else None for name in ("keys", "allowList")]
    return Options(
        NodeTarget(
            values["path"],
            event_type_of(values["type"], registered, schema),
            Keys.given(*files),
            values.get("node"),
        ),
        cast(Consistency, _one_of(values, "consistency", ("final", "early"))),
        values.get("name"),
        _starting(values),
        _positive(values, "maxEventsPerTrigger", 100_000),
        values.get("source"),
        _one_of(values, "end", ("false", "true")) == "true",
    )


def event_type_of(name: str, registered: Mapping[str, EventType], schema: StructType | None = None) -> EventType:
    """The event type of this name: registered, a ``module:Class``, or made from a schema (no field is named "op" there).

    Raises TraceError.
    """
    if name in registered:
        return registered[name]
    if ":" in name:
        found = load_object(name)
        check_event_type(found)
        return cast(EventType, found)
    if schema is None:
        known_names = ", ".join(registered) or "none"
        raise TraceError(
            f"the event type {name} is not known (registered: {known_names}): write module:Class, register it with "
            "middleware.spark.source.register(spark, [Class]), or give a schema with .schema(...)"
        )
    return _made(name, {field.name: field.dataType.simpleString() for field in schema.fields if field.name != OP})


def _made(name: str, columns: Mapping[str, str]) -> EventType:
    """An event type with the columns of a schema as its fields."""
    own = {field: kind for field, kind in columns.items() if field not in STAMP}
    if wrong := [f"{field} ({kind})" for field, kind in own.items() if kind not in _KINDS]:
        raise TraceError(f"{name}: fields of a schema are {', '.join(_KINDS)}, not {', '.join(wrong)}: name its class instead")
    namespace, _, short = name.rpartition(".")
    fields: list[Any] = [(field, _KINDS[kind]) for field, kind in own.items()]
    made = msgspec.defstruct(
        short, fields, bases=(Event,), frozen=True, array_like=True, gc=False, namespace={"namespace": namespace}
    )
    assert type_name(cast(EventType, made)) == name
    return cast(EventType, made)


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, str]) -> str:
    """The value of an option that has two; the first is the default."""
    value = values.get(name, choices[0]).lower()
    if value not in choices:
        raise TraceError(f"option {name!r} is {value!r}: write {' or '.join(choices)}")
    return value


def _starting(values: Mapping[str, str]) -> StartingOffset:
    value = values.get("startingOffsets")
    if value is None or value.lower() in ("earliest", "latest"):
        return StartingOffset(value if value is None else value.lower())
    if not value.isdecimal():
        raise TraceError(f"option 'startingOffsets' is {value!r}: write earliest, latest, or an offset of the log from 0")
    return StartingOffset(int(value))


def _positive(values: Mapping[str, str], name: str, default: int) -> int:
    value = values.get(name, str(default))
    if not value.isdecimal() or not int(value):
        raise TraceError(f"option {name!r} is {value!r}: write a whole number from 1")
    return int(value)
