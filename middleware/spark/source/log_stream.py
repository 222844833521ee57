"""Reading the log of a node as a stream: micro-batches between positions that Spark keeps in its checkpoint.

The driver reads, and hands the rows of a batch to its task. The rows after a position are the same whenever they are read:
early changes come in the order of the log, finals in the total order. So a position is an offset of the log, and what to skip
after it; and a batch that Spark runs again is the number of rows between two positions, read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from middleware.link.codec import SinkPosition
from middleware.model.change import Delta
from middleware.model.errors import NetworkError, TraceError
from middleware.runtime.clients.log_reader import Extent, LogReader, extent
from middleware.spark.by_value import dump_by_value, load_by_value
from middleware.spark.source.change_rows import batch_of
from middleware.spark.source.source_options import Options

if TYPE_CHECKING:
    import pyarrow as pa

_QUIET = 0.2
"""Seconds for which a batch waits for more changes."""

_LONGEST = 1.0
"""Seconds after which a batch ends although more comes, be it only word of other types."""

_ALL = 2**31
_FAR = 10_000
"""Blocks of the log without rows for this query after which Spark is given a position, so that the node need not keep them."""

_AGAIN = 60.0
"""Seconds within which a node must give once more what it gave before."""


class LogPosition(msgspec.Struct, frozen=True):
    """A position in what the subscription gives.

    ``line``, ``offset``
        of the node's log: all that follows the position lies behind it.
    ``skip``
        early changes after the offset that lie before the position.
    ``mark``
        the last final before the position.
    ``rows``
        rows before the position, since the subscription began.
    """

    line: int
    offset: int
    skip: int = 0
    mark: SinkPosition | None = None
    rows: int = 0


class LogTailReader(Protocol):
    """The part of ``LogReader`` that a tail needs."""

    @property
    def reached(self) -> tuple[int, int, SinkPosition | None]: ...
    @property
    def seen(self) -> int: ...
    @property
    def gaps(self) -> int: ...
    def deltas(self, timeout: float) -> list[Delta]: ...


class Tail:
    """Reads on from a position. ``position``: up to where it has given rows. ``rows``: makes them of what the reader gives.
    ``clock``: seconds."""

    def __init__(
        self,
        reader: LogTailReader,
        start: LogPosition,
        rows: Callable[[Sequence[Delta]], pa.RecordBatch],
        where: str = "the log",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reader, self.position = reader, start
        self._rows, self._where, self._clock = rows, where, clock
        self._skip = start.skip
        self._waiting: pa.RecordBatch = rows([])
        """The rows that came, and lie behind the position."""
        self._reached: tuple[int, int, SinkPosition | None] = (start.line, start.offset, start.mark)

    def take(self, most: int, until: int | None = None) -> list[pa.RecordBatch]:
        """The next rows, up to ``most``: up to an offset of the log; else those that come until nothing comes for a while, or
        until it has taken long enough. Raises TraceError.
        """
        taken: list[pa.RecordBatch] = []
        deadline = self._clock() + _LONGEST
        while most:
            is_enough = self._clock() > deadline if until is None else self.reader.seen >= until
            if not len(self._waiting) and (is_enough or not self._more(_QUIET)):
                break
            part = self._waiting.slice(0, most)
            self._waiting = self._waiting.slice(len(part))
            taken += [part] if len(part) else []
            most -= len(part)
            self._moved(part)
        return taken

    def _more(self, quiet: float) -> bool:
        """Whether more has come: rows, or news that the log continues with others."""
        came = self._rows(self.reader.deltas(quiet))
        line, offset, mark = self.reader.reached
        if self.reader.gaps:
            raise TraceError(
                f"{self._where} no longer has what follows offset {self.position.offset}, from which this stream resumes: it "
                "was cut off, or lost. Begin anew: another name, another checkpoint"
            )
        has_come = len(came) > 0 or (line, offset, mark) != self._reached
        left = min(self._skip, len(came))
        self._skip -= left
        self._waiting, self._reached = came.slice(left), (line, offset, mark)
        if not len(self._waiting) and has_come:
            self._moved(self._waiting)
        return has_come

    def _moved(self, part: pa.RecordBatch) -> None:
        before = self.position
        rows = before.rows + len(part)
        if len(self._waiting) or self._skip:  # in the midst of what came together: its offset lies behind this position
            if not len(part):
                return
            is_final = self._reached[2] is not None
            self.position = LogPosition(
                before.line,
                before.offset,
                0 if is_final else before.skip + len(part),
                _mark_of(part) if is_final else None,
                rows,
            )
            return
        line, offset, mark = self._reached
        self.position = LogPosition(line, offset, 0, mark, rows)


def _mark_of(rows: pa.RecordBatch) -> SinkPosition:
    """The order key of the last of some finals."""
    last = rows.slice(len(rows) - 1).to_pylist()[0]
    return last["ts"], last["level"], last["source"], last["id"]


class LogBatch(InputPartition):
    """The rows of a micro-batch, as an Arrow stream."""


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. Lives in one process of the driver as long as its query."""

    def __init__(self, options: Options) -> None:
        if options.name is None:
            raise TraceError("a stream needs the option 'name': under it the node keeps what the query has not read yet")
        self._packed = dump_by_value(options)  # a user's event type goes by value
        self._reader: LogReader | None = None
        self._tail: Tail | None = None
        self._batches: dict[tuple[str, str], bytes] = {}
        self._until: int | None = None
        self._has_settled = False

    @property
    def _options(self) -> Options:
        options: Options = load_by_value(self._packed)
        return options

    def initialOffset(self) -> dict[str, Any]:
        log_extent = self._extent(self._options.name)
        return _as_spark_offset(LogPosition(log_extent.line, self._options.starting.offset_in(log_extent, "latest")))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._extent(None).offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        position = _position_from(start)
        tail = self._tail_at(position)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _ALL
        rows = tail.take(most) if self._until is None else self._taken_until(self._until, tail, most)
        end = _as_spark_offset(tail.position)
        if not rows and tail.position.offset - position.offset < _FAR:
            return start
        self._batches[_key(start, end)] = self._stream(rows)
        return end

    def _taken_until(self, until: int, tail: Tail, most: int) -> list[pa.RecordBatch]:
        """The rows of the next batch that were there when the query began, or came together with one of those."""
        deadline = time.monotonic() + _AGAIN
        while not (taken := tail.take(most, until)) and tail.reader.seen < until:
            if time.monotonic() > deadline:
                raise TraceError(f"the node gave nothing for {_AGAIN:g} s after offset {tail.reader.seen}, of {until}")
        if not taken and self._options.consistency == "final" and not self._has_settled:
            self._has_settled = True
            return tail.take(most)  # the watermark may come after the last event
        return taken

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LogBatch]:
        rows = self._batches.get(_key(start, end))
        return [LogBatch(rows if rows is not None else self._again(_position_from(start), _position_from(end)))]

    def read(self, partition: LogBatch) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        import pyarrow as pa

        with pa.ipc.open_stream(partition.value) as stream:
            yield from stream

    def commit(self, end: dict[str, Any]) -> None:
        position = _position_from(end)
        self._batches = {
            key: rows for key, rows in self._batches.items() if int(msgspec.json.decode(key[1])["rows"]) > position.rows
        }
        if self._reader is not None:
            self._reader.commit_at(position.line, position.offset, position.mark)

    def stop(self) -> None:
        self._close()

    def _again(self, start: LogPosition, end: LogPosition) -> bytes:
        """The rows of a batch that was planned in an earlier life of the query."""
        tail, count = self._tail_at(start), end.rows - start.rows
        rows: list[pa.RecordBatch] = []
        deadline = time.monotonic() + _AGAIN
        while (found := sum(map(len, rows))) < count:
            if more := tail.take(count - found):
                rows += more
                deadline = time.monotonic() + _AGAIN
            elif time.monotonic() > deadline:
                raise TraceError(
                    f"the node gave {found} of the {count} rows that it had given after offset {start.offset}, "
                    f"and nothing more within {_AGAIN:g} s: was its log lost?"
                )
        return self._stream(rows)

    def _tail_at(self, position: LogPosition) -> Tail:
        if self._tail is None or self._tail.position.rows != position.rows:  # without rows in between it is the same position
            self._close()
            options, target = self._options, self._options.target
            reader = LogReader(
                target.address,
                target.event_type,
                (position.line, position.offset),
                consistency=options.consistency,
                resume=options.name,
                after=position.mark,
                keys=target.keys,
                node=target.node,
            )
            where = f"the log of the node at {target.address}"
            self._reader, self._tail = reader, Tail(reader, position, self._rows, where)
        return self._tail

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = self._tail = None

    def _rows(self, deltas: Sequence[Delta]) -> pa.RecordBatch:
        return batch_of(self._options.target.event_type, self._options.consistency, deltas)

    def _stream(self, rows: list[pa.RecordBatch]) -> bytes:
        """Rows as bytes: an Arrow stream."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._rows([]).schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _extent(self, name: str | None) -> Extent:
        target = self._options.target
        try:
            return extent(target.address, target.event_type, resume=name, keys=target.keys, node=target.node)
        except NetworkError as error:
            raise TraceError(str(error)) from None


def _as_spark_offset(position: LogPosition) -> dict[str, Any]:
    """A position as Spark keeps it: numbers and texts only."""
    values: dict[str, Any] = msgspec.to_builtins(position)
    return values | {"mark": msgspec.json.encode(position.mark).decode()}


def _position_from(values: dict[str, Any]) -> LogPosition:
    return msgspec.convert(values | {"mark": msgspec.json.decode(values["mark"])}, LogPosition)


def _key(start: dict[str, Any], end: dict[str, Any]) -> tuple[str, str]:
    return msgspec.json.encode(start, order="sorted").decode(), msgspec.json.encode(end, order="sorted").decode()
