"""The result of every reader: a recording, cut into chunks that executors read independently."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from middleware.model.block.arrays import to_array, to_column
from middleware.model.errors import TraceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

BASE_COLUMNS = ("arrival", "ts", "id", "source")
"""The columns of every event of a recording; those of its type's fields follow."""

_TYPE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

_MOST_IDS = 2**63

Chunk = Any
"""Names for an executor the piece of a recording to read; anything that can be pickled."""


class RecordingPart(NamedTuple):
    """A piece of a recording, read and normalised.

    ``tables``
        by event type: a pyarrow.Table with ts, source, ``_position`` (int64, the order in the recording), the type's
        fields, and arrival and id where the recording has them.
    ``lines``, ``bad``
        the number of lines (or rows) in it; those skipped as (line counted from 0, reason).
    ``lost``
        the cells that could not be read and are None, as (line, reason).
    """

    tables: dict[str, pa.Table]
    lines: int
    bad: list[tuple[int, str]]
    lost: Sequence[tuple[int, str]] = ()


class EventNumbering(Protocol):
    """Gives the events of all types, by their names, ids: the same ones for tables in memory and for DataFrames."""

    def tables(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The tables with a column ``id``. O(n log n)."""
        ...

    def frames(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """The frames with a column ``id``."""
        ...


@dataclass(frozen=True)
class Recording:
    """A recording that can be read in parallel.

    ``reader``, ``origin``
        the format's name; the recording's origin, for ``trace.json``.
    ``chunks``, ``read``
        the pieces, and the function that reads one (on an executor) part by part.
    ``file_of``
        the origin of each chunk, for counting bad lines; chunks of one file follow each other.
    ``measured``
        whether it has arrival times of its own.
    ``number``
        gives the rows their ids; None if the recording has them.
    ``align``
        whether arrival was counted from another moment than ts: shift it so that the shortest delay becomes 0.
    ``header_lines``
        lines at the head of each file that are not events.
    ``warnings``
        what looks wrong about it, in words.
    """

    reader: str
    origin: Sequence[str]
    chunks: Sequence[Chunk]
    read: Callable[[Chunk], Iterator[RecordingPart]]
    file_of: Sequence[str]
    measured: bool = False
    number: EventNumbering | None = None
    align: bool = False
    header_lines: int = 0
    warnings: Sequence[str] = ()


def check_type_name(name: str) -> str:
    """Returns the name itself; TraceError if it cannot be an event type's name (and so a folder's)."""
    if not _TYPE_NAME.fullmatch(name):
        raise TraceError(f"{name!r} is no event type name: write Name or namespace.Name")
    return name


class NumberingByTime:
    """Ids by order of occurrence within each source, from 0; equal times in the order of the recording.

    If several types have events of one source, the ids of a type follow those of the types before it by name. Events
    of a type that has ids keep them; the others of their sources come behind the largest of these.
    """

    def tables(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """See EventNumbering."""
        bare = sorted(name for name, table in tables.items() if "id" not in table.column_names)
        numbered = {name: self._numbered(tables[name]) for name in bare}
        taken = _given([table for name, table in tables.items() if name not in numbered])
        for name in bare if len(tables) > 1 else ():
            numbered[name] = _behind(numbered[name], taken)
        return {name: numbered.get(name, table) for name, table in tables.items()}

    def _numbered(self, table: pa.Table) -> pa.Table:
        """A table with ids from 0 for each source."""
        import numpy as np

        codes, ts = source_codes(table), to_array(table["ts"])
        if is_ascending(ts) and not codes.any():  # of one source, and sorted already
            return table.append_column("id", to_column(np.arange(len(ts))))
        order_if_distinct = ranked(ts)
        order = np.lexsort((to_array(table["_position"]), ts)) if order_if_distinct is None else order_if_distinct
        order = order[np.argsort(codes[order], kind="stable")]
        sorted_codes = codes[order]
        starts = np.flatnonzero(np.diff(sorted_codes, prepend=-1))
        first = np.repeat(starts, np.diff(starts, append=len(order)))
        ids = np.empty(len(order), np.int64)
        ids[order] = np.arange(len(order)) - first
        return table.append_column("id", to_column(ids))

    def frames(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """See EventNumbering."""
        from pyspark.sql import DataFrame, Window
        from pyspark.sql import functions as sql

        order = Window.partitionBy("source").orderBy("ts", "_position")
        bare = sorted(name for name, frame in frames.items() if "id" not in frame.columns)
        # what takes ids of a source: so many events, or all up to an id that is given
        takes = [
            frame.groupBy("source").agg(sql.greatest(sql.max("id") + 1, sql.lit(0)).alias("_taken"))
            for name, frame in frames.items()
            if name not in bare
        ]
        before = [reduce(DataFrame.union, takes).groupBy("source").agg(sql.max("_taken").alias("_taken"))] if takes else []
        numbered = dict(frames)
        for name in bare:
            frame = frames[name]
            number = sql.row_number().over(order).cast("bigint") - 1
            if not before:
                numbered[name] = frame.withColumn("id", number)
            else:
                taken = reduce(DataFrame.union, before).groupBy("source").agg(sql.sum("_taken").alias("_taken"))
                both = frame.join(sql.broadcast(taken), "source", "left")
                numbered[name] = both.withColumn("id", number + sql.coalesce("_taken", sql.lit(0))).select(*frame.columns, "id")
            before.append(frame.groupBy("source").agg(sql.count("*").alias("_taken")))
        return numbered


def _given(tables: Sequence[pa.Table]) -> dict[str, int]:
    """By source, the number behind the largest id that one of its events has; none is negative."""
    import numpy as np

    taken: dict[str, int] = {}
    for table in tables:
        coded = with_coded_sources(table)["source"].combine_chunks()
        most = np.full(len(coded.dictionary), -1, np.int64)
        np.maximum.at(most, to_array(coded.indices), to_array(table["id"]))
        for name, largest in zip(coded.dictionary.to_pylist(), most.tolist(), strict=True):
            taken[name] = max(taken.get(name, 0), largest + 1)
    return taken


def _behind(table: pa.Table, taken: dict[str, int]) -> pa.Table:
    """The table with ids behind those that are ``taken`` of its sources; takes them."""
    import numpy as np

    coded = with_coded_sources(table)["source"].combine_chunks()
    names, codes = coded.dictionary.to_pylist(), to_array(coded.indices)
    counts = np.bincount(codes, minlength=len(names)).tolist()
    if full := [name for name, count in zip(names, counts, strict=True) if taken.get(name, 0) + count >= _MOST_IDS]:
        raise TraceError(
            f"no ids are left behind those that events of {full[0]!r} have: give the others ids, or another source"
        )
    first = np.array([taken.get(name, 0) for name in names], np.int64)
    for name, count in zip(names, counts, strict=True):
        taken[name] = taken.get(name, 0) + count
    if not first.any():
        return table
    return table.set_column(table.column_names.index("id"), "id", to_column(to_array(table["id"]) + first[codes]))


def is_ascending(keys: npt.NDArray[np.int64]) -> bool:
    """Whether each key is larger than the one before. O(n)."""
    return bool((keys[1:] > keys[:-1]).all())


def ranked(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The order that sorts the keys; None if some are equal. O(n log n), far faster than sorting by several keys."""
    import numpy as np

    order = np.argsort(keys)
    return order if is_ascending(keys[order]) else None


def source_codes(table: pa.Table) -> npt.NDArray[np.int64]:
    """A number for the source of each row: the rank of its name among all of them."""
    import numpy as np
    import pyarrow.compute as pc

    coded = with_coded_sources(table)["source"].combine_chunks()
    ranks = to_array(pc.rank(coded.dictionary, "ascending", tiebreaker="dense")).astype(np.int64) - 1
    codes: npt.NDArray[np.int64] = ranks[to_array(coded.indices)]
    return codes


def with_coded_sources(table: pa.Table) -> pa.Table:
    """The table with sources in a dictionary, which costs little to sort and to compare."""
    import pyarrow as pa

    if pa.types.is_dictionary(table["source"].type):
        return table
    coded = table["source"].combine_chunks().dictionary_encode(null_encoding="encode")
    return table.set_column(table.column_names.index("source"), "source", coded)
