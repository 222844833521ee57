"""Fields that a mapping computes from columns, in the expression language of queries.

The language is no part of the middleware: it comes by the entry point ``columns`` of the group ``slackline.expressions``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from middleware.extensions import extensions
from middleware.model.block.rows import values
from middleware.model.errors import SlacklineError, TraceError
from middleware.recordings.files.guess import kinds_of
from middleware.recordings.files.mapping import MISSING, Kind, Mapping
from middleware.recordings.files.normal import arrow_types, without_missing

if TYPE_CHECKING:
    import pyarrow as pa

_PYTHON = {"int": int, "float": float, "str": str, "bool": bool}


@dataclass(frozen=True)
class ColumnExpression:
    """An expression on columns, and the kinds of the columns; it can be pickled, and is compiled where it is used.

    ``columns``: those that it reads. ``optional``: what is missing in one, spelled as ``missing``, is NULL, which gives NULL,
    as in a query.
    """

    text: str
    kinds: tuple[tuple[str, Kind], ...]
    optional: bool = False
    missing: tuple[str, ...] = MISSING
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _compiled(self.text, self.kinds, self.optional)[0])

    def __call__(self, raw: pa.Table) -> list[object]:
        """The value for each row. Raises ValueError if a column does not hold what its first rows did, or there is none."""
        names, compute = _compiled(self.text, self.kinds, self.optional)
        columns = [_typed(raw, name, dict(self.kinds)[name], self.optional, self.missing) for name in names]
        rows = zip(*columns, strict=True) if columns else iter([()] * raw.num_rows)
        try:
            return list(map(compute, rows))
        except (ArithmeticError, TypeError) as error:
            raise ValueError(f"{self.text}: {error}") from None


def computed(mapping: Mapping, head: pa.Table) -> dict[str, ColumnExpression]:
    """The expressions of a mapping, by field, on a table with these first rows. Raises TraceError."""
    fields = {name: each for name, each in mapping.fields.items() if each.expression}
    kinds = tuple(kinds_of(head, as_numbers=True, missing=mapping.missing).items()) if fields else ()
    found = {}
    for name, each in fields.items():
        try:
            found[name] = ColumnExpression(each.expression, kinds, each.optional, mapping.missing)
        except SlacklineError as error:
            raise TraceError(f"fields.{name}: expression: {error}") from None
    return found


@cache
def _compiled(
    text: str, kinds: tuple[tuple[str, Kind], ...], optional: bool
) -> tuple[tuple[str, ...], Callable[[tuple[Any, ...]], Any]]:
    language = extensions("expressions").get("columns")
    if language is None:
        raise TraceError("expressions need the package detectors, which is not installed")
    compiled: tuple[tuple[str, ...], Callable[[tuple[Any, ...]], Any]] = language.load()(
        text, {name: _PYTHON[kind] | None if optional else _PYTHON[kind] for name, kind in kinds}
    )
    return compiled


def _typed(raw: pa.Table, name: str, kind: Kind, optional: bool, missing: Sequence[str]) -> list[object]:
    """A column as Python values of its kind; ``optional``: None for what is missing.

    Raises ValueError for a value that is none of its kind, or missing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = raw[name]
    if pa.types.is_string(column.type) and kind != "str":
        column = pc.utf8_trim_whitespace(column)
        column = without_missing(column, missing) if optional else column
    if column.null_count and not optional:
        raise ValueError(f"{name} is missing")
    return values(column.cast(arrow_types()[kind]).combine_chunks())
