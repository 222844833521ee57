"""The output of a task of an archive: its results as blocks, for who reads them and for the archive, and what was skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from middleware.model.errors import EventError
from middleware.model.event import Event, type_name
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.packing import BODY, RESULT, UNTYPED, Lanes, Row, failures, packed_rows
from middleware.spark.schemas import schema_of
from middleware.spark.spark_blocks import batch_of, sealed

if TYPE_CHECKING:
    import pyarrow as pa


class TaskResults:
    """Collects results; ``rows``: how many."""

    def __init__(self, plan: ArchivePlan, parts: Sequence[int]) -> None:
        self._plan, self._lanes = plan, Lanes(plan, parts)
        self._numbers = {event_type: number for number, event_type in enumerate(plan.types)}
        self._encode = msgspec.msgpack.Encoder().encode
        self._results: dict[int, list[Event]] = {}
        self._failed: dict[int, list[tuple[str, Event, str]]] = {}
        self.rows = 0

    def publish(self, events: list[Event]) -> None:
        """Take results."""
        for event in events:
            self._results.setdefault(self._numbers[event.__class__], []).append(event)
        self.rows += len(events)

    def fail(self, event: Event, detector: str, why: str) -> None:
        """Take an event that a detector skipped."""
        number = self._numbers.get(event.__class__, UNTYPED)  # flows know of their raw events who they are, and no more
        self._failed.setdefault(number, []).append((detector, event, why))
        self.rows += 1

    def batch(self) -> pa.RecordBatch:
        """All so far, as blocks; none are left."""
        rows: list[Row] = []
        for number, events in self._results.items():
            sound, batch = self._packed(number, events)
            if sound:
                rows.append((0, RESULT, number, len(sound), sealed(batch)))
                rows += self._lanes.blocks(self._plan.readers[self._plan.types[number]], number, batch, sound)
        rows += [failures(number, failed) for number, failed in self._failed.items()]
        self._results, self._failed, self.rows = {}, {}, 0
        return packed_rows(rows)

    def _packed(self, number: int, events: list[Event]) -> tuple[list[Event], pa.RecordBatch]:
        """Events of one type as columns, or as bodies where no columns hold them; and which they are: some may have no form."""
        import pyarrow as pa

        schema = schema_of(self._plan.types[number])
        if schema.has_columns:
            try:
                return events, schema.batch(events)
            except EventError:
                pass  # such as a whole number beyond 64 bits
        sound, rows = [], []
        for event in events:
            try:
                rows.append((event.ts, event.level, event.source, event.id, self._encode(event)))
                sound.append(event)
            except (OverflowError, ValueError, TypeError) as error:  # as between nodes, it is skipped, and reported
                self.fail(event, event.source, f"{type_name(event.__class__)} cannot be encoded: {error}")
        kinds = [pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.binary()]
        return sound, batch_of(rows, pa.schema(zip(("ts", "level", "source", "id", BODY), kinds, strict=True)))
