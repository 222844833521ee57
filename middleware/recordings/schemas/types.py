"""Event types made while a program runs, from names and types of fields; and the fields of event types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

import msgspec

from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, check_event_type, type_name
from middleware.model.schema import fields_of, without_none
from middleware.recordings.files.mapping import Kind, MappedField
from middleware.recordings.files.recording import check_type_name

KINDS: dict[Kind, type] = {"int": int, "float": float, "str": str, "bool": bool}
"""The types of fields that columns of tables can hold."""


def event_type(name: str, fields: Mapping[str, Any], doc: str = "") -> EventType:
    """A new event type: ``namespace.Name`` or ``Name``, and its fields with their types, in order.

    >>> event_type("weather.Reading", {"station": int, "celsius": float})(7, 20.5, ts=1)
    Reading(station=7, celsius=20.5, ts=1, id=0, source='', level=0)

    Raises TraceError for a name that is none, EventError for fields that no event can have.
    """
    namespace, _, own = check_type_name(name).rpartition(".")
    try:
        made: Any = msgspec.defstruct(
            own,
            [(field, kind) for field, kind in fields.items()],
            bases=(Event,),
            namespace={"namespace": namespace, "__doc__": doc or None},
            module=__name__,
            frozen=True,
            array_like=True,
            gc=False,
        )
    except (TypeError, ValueError) as error:
        raise EventError(f"{name}: {error}") from None
    check_event_type(made)
    return made  # type: ignore[no-any-return]


def declared_fields(kind: EventType) -> dict[str, MappedField]:
    """The type that a table must give for each field of a class, by name. Raises EventError for a field that no column can
    hold."""
    found: dict[str, MappedField] = {}
    for name, hint in fields_of(kind).items():
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        some = without_none(bare)
        if some not in KINDS.values():
            raise EventError(f"{type_name(kind)}.{name} is of {hint}: columns give int, float, str and bool, or None besides")
        found[name] = MappedField(some.__name__, optional=some is not bare)
    return found
