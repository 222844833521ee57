"""Shows a query's results: a live table on a terminal, lines elsewhere, both with revisions and withdrawals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from detectors.cql.catalog import TS, Attribute, CatalogStream
from detectors.language import values
from detectors.language.value_types import Type
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import IDENTITY, Event, Identity, Value, type_name
from middleware.model.quantities import UNIX_TIMES, local_time

if TYPE_CHECKING:
    from rich.table import Table

ROWS = 20
"""Rows of the live table: the latest results."""


def time_text(ts: int) -> str:
    """A time as a local date if it is likely to be Unix time, else as seconds."""
    return local_time(ts) if ts in UNIX_TIMES else f"{Decimal(ts).scaleb(-9).normalize():f}"


def value_text(value: Value, attribute: Attribute) -> str:
    """A value as written in the language."""
    if value is None:
        return "NULL"
    if attribute.kind.type is Type.DATETIME:
        return values.datetime_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class View:
    """The current results of one stream.

    ``counts``
        how many were published, revised, withdrawn and became final.
    """

    def __init__(self, stream: CatalogStream) -> None:
        self.stream = stream
        self.counts = {"published": 0, "revised": 0, "withdrawn": 0, "final": 0}
        self._attributes = [each for each in stream.schema if each.name != TS]
        self._name = type_name(stream.event_type)
        self._barrier = Barrier([self._name])
        self._rows: dict[Identity, tuple[Event, str]] = {}

    def take(self, batch: Batch) -> tuple[Delta, list[Event]]:
        """Take changes; returns them, and the results that are final now."""
        delta = batch.deltas.get(self._name, Delta())
        finals = self._barrier.take(batch)
        for event in delta.inserts:
            self._show(event, "early")
        for _, new in delta.revises:
            self._show(new, "revised")
        for event in delta.retracts:
            self._show(event, "withdrawn")
        for event in finals:
            self._show(event, "final")
        self.counts["published"] += len(delta.inserts)
        self.counts["revised"] += len(delta.revises)
        self.counts["withdrawn"] += len(delta.retracts)
        self.counts["final"] += len(finals)
        return delta, finals

    def _show(self, event: Event, state: str) -> None:
        rows = self._rows
        if IDENTITY(event) in rows or len(rows) < ROWS:
            rows[IDENTITY(event)] = event, state
        else:
            oldest = min(rows, key=lambda identity: rows[identity][0].ts)
            if event.ts >= rows[oldest][0].ts:
                del rows[oldest]
                rows[IDENTITY(event)] = event, state

    def cells(self, event: Event) -> list[str]:
        """One text for each attribute, time first."""
        return [
            time_text(event.ts),
            *(value_text(values.enum_value(getattr(event, each.field)), each) for each in self._attributes),
        ]

    def lines(self, delta: Delta, finals: Iterable[Event]) -> Iterator[str]:
        """Changes as lines: + published, ~ revised, - withdrawn, = final."""
        for sign, events in (
            ("-", delta.retracts),
            ("~", [new for _, new in delta.revises]),
            ("+", delta.inserts),
            ("=", finals),
        ):
            for event in events:
                yield f"{sign} {self.line(event)}"

    def line(self, event: Event) -> str:
        """A result as one line."""
        time, *rest = self.cells(event)
        return "  ".join([time, *(f"{own.name}={text}" for own, text in zip(self._attributes, rest, strict=True))])

    def summary(self) -> str:
        """The counts as a sentence."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())

    def table(self) -> Table:
        """The latest results, each with its state."""
        from rich.table import Table
        from rich.text import Text

        styles = {"early": "dim", "revised": "yellow", "withdrawn": "red strike", "final": "green"}
        table = Table(title=self.stream.name, caption=self.summary())
        table.add_column("time", justify="right")
        for each in self._attributes:
            table.add_column(each.name, justify="left" if each.kind.type in (Type.STRING, Type.CHAR) else "right")
        table.add_column("")
        for event, state in sorted(self._rows.values(), key=lambda row: row[0].ts):
            table.add_row(*(Text(text, styles[state]) for text in self.cells(event)), Text(state, styles[state]))
        return table
