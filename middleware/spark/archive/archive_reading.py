"""Recordings as DataFrames by type: prepared traces, and folders of files that Spark's own readers know."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from middleware.model.errors import EventError, TraceError
from middleware.model.event import EventType, EventTypes, type_name
from middleware.model.words import shown
from middleware.recordings.traces import check_fields, load_trace, type_folder
from middleware.spark.archive.files import EventFiles, files_of
from middleware.spark.by_value import make_portable
from middleware.spark.schemas import EventSchema, schema_of
from middleware.spark.session import escaped, literal_path, reason

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_CSV: dict[str, bool | float | int | str | None] = {
    "header": True,
    "mode": "FAILFAST",
    "escape": '"',  # a quote in quotes is doubled, as nearly everybody but Spark writes it
    "unescapedQuoteHandling": "RAISE_ERROR",  # and what Spark has written with backslashes is no text with some more of them
    "nullValue": "\0",  # no cell: so an empty text in quotes is a text, and an empty cell is missing
    "enforceSchema": False,  # or files with columns in another order are read by the header of one of them
    "columnPruning": False,  # or cells too many are counted only where all columns are read
}


def trace_frames(spark: SparkSession, path: str | Path, types: Iterable[EventType]) -> dict[str, DataFrame | EventFiles]:
    """The raw events of a trace as DataFrames by type. The folder must be one that executors can read, too.

    Where the trace says that no event came twice, frames come without ``arrival``, so nobody looks for repeats.
    Raises TraceError if there is no trace, or if its types are others.
    """
    folder, known = Path(path).resolve(), EventTypes(types)
    trace = load_trace(folder)
    sources = [source for one in trace.types.values() for source in one.sources]
    is_unique = len(sources) == len(set(sources)) and all(one.duplicates == 0 for one in trace.types.values())
    frames: dict[str, DataFrame | EventFiles] = {}
    for name, one in trace.types.items():
        if name not in known:
            raise TraceError(f"{folder} holds {name}, which is none of the known event types: {', '.join(known) or 'none'}")
        check_fields(folder, name, one.fields, known[name])
        frame = spark.read.parquet(literal_path(type_folder(folder, name)))
        unwanted = {"type", *(["arrival"] if is_unique else [])} - set(known[name].__struct_fields__)
        frame = frame.drop(*unwanted)
        frames[name] = _by_tasks(frame, schema_of(known[name]))
    return frames


def stored_frames(
    spark: SparkSession, where: str, types: Iterable[EventType], form: str = "parquet"
) -> dict[str, DataFrame | EventFiles]:
    """The events of each type in ``where/type=NAME``, as Spark's reader of ``form`` finds them: a path or address of any kind.

    Parquet of a path that all executors have is read by tasks of the archive themselves, without Spark.

    ``form``
        "parquet", "json" (an object a line), "csv" (a header first), or another that the session knows, such as "delta" or
        "orc". In JSON and CSV, a value that does not fit its field ends the job; a column ``arrival`` is kept. So does a
        row of CSV with more or fewer cells than the header; quotes in quotes are doubled, and may go over several lines (RFC
        4180), an empty cell is missing. Both are UTF-8.

    Raises TraceError if Spark can read nothing of it, EventError if a type of CSV has fields that are not single values.
    """
    frames: dict[str, DataFrame | EventFiles] = {}
    where = escaped(where) if Path(where).is_dir() else where
    for event_type in types:
        schema, path = schema_of(event_type), f"{where.rstrip('/')}/type={type_name(event_type)}"
        try:
            frame = _stored(spark, path, schema, form)
            frames[schema.name] = _by_tasks(frame, schema) if form == "parquet" else frame
        except EventError:
            raise
        except Exception as error:
            raise TraceError(f"{path} has no events of {schema.name} that Spark can read as {form}: {reason(error)}") from None
    return frames


def _by_tasks(frame: DataFrame, schema: EventSchema) -> DataFrame | EventFiles:
    """Files, if tasks can read them; not where Spark must look for repeats first."""
    return frame if "arrival" in frame.columns else files_of(frame, schema) or frame


def _stored(spark: SparkSession, path: str, schema: EventSchema, form: str) -> DataFrame:
    if form not in ("json", "csv"):
        return spark.read.format(form).load(path)
    kinds = {column.name: column.kind.ddl for column in schema.columns} | {"arrival": "bigint"}
    if form == "json":
        names = _names_in_json(spark, path, schema)
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items() if name in names)
        return spark.read.schema(ddl).option("mode", "FAILFAST").json(path)
    if nested := [name for name, kind in kinds.items() if "<" in kind]:
        raise EventError(f"{schema.name}.{nested[0]} is {kinds[nested[0]]}, which CSV cannot hold: write JSON or Parquet")
    text = spark.read.options(**_CSV, multiLine=_has_long_texts(spark, path)).csv(path)
    return text.select(*[_fitting(schema, name, kinds[name]) for name in text.columns if name in kinds])


def _has_long_texts(spark: SparkSession, path: str) -> bool:
    """Whether texts in quotes go over several lines of CSV; then no file can be read in parts. A pass over the files.

    Raises TraceError for a file that is not UTF-8, where Spark would read other texts, or that ends within quotes, where what
    follows them would be part of a text.
    """
    from pyspark.sql import functions as sql

    line = sql.col("value")
    quotes = sql.length(line) - sql.length(sql.replace(line, sql.lit('"'), sql.lit("")))
    files = spark.read.text(path).select("_metadata.file_path", "value").groupBy("file_path")
    found = files.agg(
        sql.bool_and(sql.is_valid_utf8(line)).alias("is_utf8"),
        sql.bool_or((quotes % 2 == 1) & line.rlike('(^|,)"')).alias("is_long"),
        (sql.sum(quotes) % 2 == 0).alias("is_closed"),
    )
    some = found.where("is_long or not is_utf8").orderBy("file_path").collect()
    for file in some:
        if not file.is_utf8:
            raise TraceError(f"{unquote(file.file_path)} is not UTF-8: write it as UTF-8")
        if not file.is_closed:
            raise TraceError(f"{unquote(file.file_path)} has a quote that is not closed: write one in a text twice")
    return bool(some)


def _names_in_json(spark: SparkSession, path: str, schema: EventSchema) -> set[str]:
    """The names in lines of JSON, and those of fields that may be omitted; all fields if there are no lines.

    A pass over the files, in which each line is looked at: of one that holds two objects, Spark would read the first and leave
    out the other; and of any value that stands for a text it would make one.
    """
    found = spark.read.text(path).mapInArrow(make_portable(_Look(schema)), "name string")
    names = {row.name for row in found.distinct().collect()}
    return names | {column.name for column in schema.columns if column.nullable or (not names and column.name != "level")}


class _Look:
    """Gives the names in lines of JSON. Raises TraceError for what is no object, or has something else where a text must be."""

    def __init__(self, schema: EventSchema) -> None:
        self._type = schema.name
        self._texts = [c.name for c in schema.columns if c.kind.ddl == "string" and not (c.kind.out or c.kind.back)]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        decode = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[dict[str, msgspec.Raw]]).decode
        names: set[str] = set()
        for batch in batches:
            for line in filter(str.strip, batch.column(0).to_pylist()):
                try:
                    whole = decode(line)
                except msgspec.DecodeError:  # it may still be JSON with NaN
                    try:
                        whole = json.loads(line)
                    except ValueError as error:
                        raise TraceError(f"this line is no JSON: {error}: {shown(line)}") from None
                for each in whole if isinstance(whole, list) else [whole]:
                    if not isinstance(each, dict):
                        raise TraceError(f"this line is no JSON object: {shown(line)}")
                    self._check_texts(each, line)
                    names.update(each)
        yield pa.RecordBatch.from_pydict({"name": pa.array(names, pa.string())})

    def _check_texts(self, found: dict[str, Any], line: str) -> None:
        for name in self._texts:
            value = found.get(name)
            is_text = bytes(value)[:1] in (b'"', b"n") if isinstance(value, msgspec.Raw) else isinstance(value, str | None)
            if not is_text:
                raise TraceError(f"{self._type}.{name} is a text, and there is none in this line: {shown(line)}")


_NUMBER = r"(?i)^\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*$"


def _fitting(schema: EventSchema, name: str, kind: str) -> Column:
    """A column of texts as values of a kind; one that does not fit ends the job, whatever the user's session makes of casts."""
    from pyspark.sql import functions as sql

    text = sql.col(f"`{name}`")
    value = text.try_cast(kind)
    if kind == "double":  # Java takes 12d, 1f and 0x1p3, too
        value = sql.when(text.rlike(_NUMBER), value)
    refused = sql.raise_error(sql.concat(sql.lit(f"{schema.name}.{name} is a {kind}, and this is none: "), text))
    return sql.when(text.isNotNull() & value.isNull(), refused).otherwise(value).alias(name)
