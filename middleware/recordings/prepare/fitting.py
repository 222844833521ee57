"""Checks that a trace fits the detectors that will read it: before anything starts, not after minutes of silence."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from middleware.model.block.rows import values
from middleware.model.errors import TraceError
from middleware.model.event import EventTypes, type_name
from middleware.model.words import listed, meant
from middleware.recordings.files.mapping import load_mappings
from middleware.recordings.traces import check_fields, columns, load_trace, named_misfit, wire_columns

if TYPE_CHECKING:
    from middleware.runtime.scenario import Scenario


def check_fit(folder: Path, types: EventTypes, read: Collection[str]) -> list[str]:
    """Raise TraceError unless the trace at ``folder`` holds types that are ``read`` (names), with the fields of their classes.

    It looks at one event of each type. Returns the types that are read but not in the trace, sorted.
    """
    trace = load_trace(folder)
    for name in trace.types:
        if name not in read:
            raise TraceError(
                f"{folder} holds {name}, which no detector reads; {_read(name, read)}: "
                "the recording's type must be called as the detectors' event class is, with its namespace"
            )
        check_fields(folder, name, trace.types[name].fields, types[name])
        first = next(columns(folder, trace, name, wire_columns(trace, name), rows=1))
        try:
            msgspec.convert([tuple(values(column)[0] for column in first.columns)], list[types[name]])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            raise TraceError(
                f"{folder}: an event of {name} does not fit its class: {named_misfit(error, trace, name)}"
            ) from None
    return sorted(set(read) - trace.types.keys())


def check_mapping(file: Path, plan: Scenario) -> None:
    """Raise TraceError unless detectors read the types that a mapping makes; needs no look at the recording."""
    read = read_types(plan)
    for mapping in load_mappings(file):
        if mapping.type not in read:
            raise TraceError(f"the mapping {file}: type: no detector reads {mapping.type}; {_read(mapping.type, read)}")
        check_fields(f"the mapping {file}", mapping.type, mapping.fields, plan.types[mapping.type])


def read_types(plan: Scenario) -> set[str]:
    """The names of all types that detectors read."""
    return {type_name(each) for detector in plan.detectors.values() for each in detector.subscribes}


def _read(name: str, read: Collection[str]) -> str:
    """The types that detectors read, with a suggestion if one of them is similar to this name."""
    near = meant(name, read)
    return f"they read {listed(sorted(read)) or 'nothing'}" + (f" (did you mean {near}?)" if near else "")
