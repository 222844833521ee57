"""The data source: what ``format("slackline")`` names, once it is registered with a session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from middleware.model.errors import TraceError
from middleware.model.event import EventType, type_name
from middleware.spark.by_value import dump_by_value, load_by_value
from middleware.spark.source.batch import LogBatchReader
from middleware.spark.source.change_rows import columns
from middleware.spark.source.log_stream import LogStreamReader
from middleware.spark.source.source_options import Options, parse
from middleware.spark.source.writer import EventStreamWriter, EventWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def register(spark: SparkSession, types: Iterable[EventType] = ()) -> None:
    """Let this session read and write ``format("slackline")``; ``types``: event types to know by their names.

    Executors need Slackline; event types of users are sent with the job. Options: see ``options.KNOWN``.
    """
    known = dump_by_value({type_name(kind): kind for kind in types})

    class Registered(SlacklineSource):
        registered = known

    spark.dataSource.register(Registered)


class SlacklineSource(DataSource):
    """See the package. Made anew by Spark, in processes of its own, for each read and write."""

    registered: bytes = dump_by_value({})

    @classmethod
    def name(cls) -> str:
        return "slackline"

    def schema(self) -> str:
        options = parse(self.options, self._types())
        return ", ".join(f"`{name}` {kind}" for name, kind in columns(options.target.event_type, options.consistency).items())

    def reader(self, schema: StructType) -> LogBatchReader:
        return LogBatchReader(self._checked(schema))

    def streamReader(self, schema: StructType) -> LogStreamReader:
        return LogStreamReader(self._checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> EventWriter:
        if overwrite:
            raise TraceError('a node keeps what was published: write with mode("append")')
        return EventWriter(parse(self.options, self._types(), schema), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> EventStreamWriter:
        if overwrite:
            raise TraceError('a node keeps what was published: write with outputMode("append")')
        return EventStreamWriter(parse(self.options, self._types(), schema), schema)

    def _types(self) -> dict[str, EventType]:
        types: dict[str, EventType] = load_by_value(self.registered)
        return types

    def _checked(self, schema: StructType) -> Options:
        """The options; a schema that was given must be that of the type. Raises TraceError."""
        options = parse(self.options, self._types(), schema)
        expected = columns(options.target.event_type, options.consistency)
        found = {field.name: field.dataType.simpleString() for field in schema.fields}
        if [*map(_bare, found.items())] != [*map(_bare, expected.items())]:
            texts = (", ".join(f"{name} {kind}" for name, kind in some.items()) for some in (expected, found))
            raise TraceError("the schema must be {}; it is {}".format(*texts))
        return options


def _bare(column: tuple[str, str]) -> tuple[str, str]:
    """A column with its type as Spark and as DDL spell it."""
    return column[0], column[1].replace("`", "").replace(" ", "")
