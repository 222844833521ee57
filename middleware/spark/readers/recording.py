"""The result of every reader: a recording, cut into chunks that executors read independently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Chunk = Any
"""Tells an executor which piece of a recording to read; anything that can be pickled."""


class Part(NamedTuple):
    """A piece of a recording, read and normalised.

    ``tables``
        by event type: a pyarrow.Table with ts, source, ``_position`` (int64, the order in the recording), the type's
        fields, and arrival and id where the recording has them.
    ``lines``, ``bad``
        the number of lines (or rows) in it; those left out as (line counted from 0, reason).
    """

    tables: dict[str, pa.Table]
    lines: int
    bad: list[tuple[int, str]]


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
    ``doubts``
        what looks wrong about it, in words.
    """

    reader: str
    origin: Sequence[str]
    chunks: Sequence[Chunk]
    read: Callable[[Chunk], Iterator[Part]]
    file_of: Sequence[str]
    measured: bool = False
    number: Callable[[DataFrame], DataFrame] | None = None
    align: bool = False
    header_lines: int = 0
    doubts: Sequence[str] = ()


def number_in_order(frame: DataFrame) -> DataFrame:
    """Ids by order of occurrence within each source, from 0; equal times in the order of the recording."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    order = Window.partitionBy("source").orderBy("ts", "_position")
    return frame.withColumn("id", sql.row_number().over(order).cast("bigint") - 1)
