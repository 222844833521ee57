"""Recordings made up by a function: ``module:function`` is called as ``function(seed, seconds)``.

It returns ``{type name: pyarrow.Table}`` with ts, id, source and the type's fields: the same tables for the same
arguments. If its module also has ``chunks(seed, seconds)`` (a list) and ``<function>_chunk(seed, seconds, chunk)``, the
chunks are made in parallel; together they must hold the same rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from middleware.model.errors import TraceError
from middleware.model.words import shown
from middleware.recordings.files.recording import Recording, RecordingPart, check_type_name
from middleware.recordings.files.text import finite

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE = "whole"


def generated_recording(name: str, seed: int, seconds: float) -> Recording:
    """The recording that ``module:function`` makes for a seed and a length. Raises TraceError if it cannot be called."""
    if not seconds > 0:
        raise TraceError(f"a recording of {seconds} s cannot be generated: give more than 0 seconds")
    module, _, _ = name.partition(":")
    _function(name)
    offered = importlib.import_module(module)
    parallel = hasattr(offered, "chunks") and hasattr(offered, name.partition(":")[2] + "_chunk")
    chunks = list(offered.chunks(seed, seconds)) if parallel else [WHOLE]
    origin = f"{name}(seed={seed}, seconds={seconds:g})"
    return Recording(
        reader="generated",
        origin=[origin],
        chunks=list(enumerate(chunks)),
        read=Generator(name, seed, seconds, parallel),
        file_of=[origin] * len(chunks),
    )


@dataclass(frozen=True)
class Generator:
    """Makes one chunk of a generated recording, on an executor."""

    name: str
    seed: int
    seconds: float
    parallel: bool

    def __call__(self, chunk: tuple[int, object]) -> Iterator[RecordingPart]:
        number, piece = chunk
        if self.parallel:
            tables = _function(self.name + "_chunk")(self.seed, self.seconds, piece)
        else:
            tables = _function(self.name)(self.seed, self.seconds)
        if not isinstance(tables, Mapping):
            raise TraceError(f"{self.name} gives {shown(tables)}: it must give a dict of a pyarrow.Table by name of event type")
        for type_name, table in tables.items():
            if table.num_rows:  # else its columns may have no types
                yield RecordingPart(
                    {check_type_name(type_name): _checked(table, self.name, type_name, number)}, table.num_rows, []
                )


def _function(name: str) -> Callable[..., dict[str, pa.Table]]:
    module, _, function = name.partition(":")
    try:
        found: Callable[..., dict[str, pa.Table]] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise TraceError(f"{name!r} is no generator: {error}; name one as module:function") from None
    return found


def _checked(table: pa.Table, generator: str, type_name: str, number: int) -> pa.Table:
    """The table with the column types of a trace, and with positions."""
    import numpy as np
    import pyarrow as pa

    if missing := [name for name in ("ts", "id", "source") if name not in table.column_names]:
        raise TraceError(f"{generator} made {type_name} without {', '.join(missing)}")
    if stray := [name for name in table.column_names if name in ("arrival", "level") or name.startswith("_")]:
        raise TraceError(f"{generator} made {type_name} with {', '.join(stray)}, which no field of an event may be called")
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        target = _target(kind)
        if target is None:
            raise TraceError(f"{generator} made {type_name}.{name} of {column.type}: only int, float, string and bool fit")
        columns[name] = column.cast(target)
    columns["_position"] = (number << 40) + np.arange(table.num_rows)
    try:
        return finite(pa.table(columns))
    except ValueError as error:
        raise TraceError(f"{generator} made {type_name} with a value that no event may have: {error}") from None


def _target(kind: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind if pa.types.is_boolean(kind) else None
