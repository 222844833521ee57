"""Packets of a wireless sensor network (TSCH) under load, with the arrival times logged at the sink (tum-lkn tschdata).

Line: 38 bytes as a list of numbers, a tab, h:mm:ss.ffffff since the log began. Bytes, from 0, little-endian: 1-5 slot
of the last hop, 6-10 slot of the first hop, 11-12 sequence number, 14 source address. A slot lasts 15 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.recordings.files.recording import Recording, source_codes
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import LineParser, ParserOfLines
from middleware.recordings.files.text import TextReader, existing, nanoseconds, splits, text_recording

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TYPE = "devices.Packet"
SLOT = 15_000_000
_BYTES = 38
_CLOCK = re.compile(rb"(\d+):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")


def tsch_recording(paths: Sequence[str | Path]) -> Recording:
    """Packets as devices.Packet: address, sequence (as sent, 16 bits), first_slot, last_slot. Event time is the first slot.

    Slots and the log count from different moments, so arrival is shifted until no packet arrives before it was sent.
    """
    files = existing(paths)
    options = {"measured": True, "number": SequenceUnwrapper(), "align": True}
    return text_recording("tsch", files, splits(files, header=False), TextReader(TYPE, parser()), **options)


def parser() -> LineParser:
    """Parses lines of the log to columns of events."""
    return ParserOfLines(_packet, _cells, ConversionOfRows(_events))


def _cells(packets: Sequence[tuple[int, ...]]) -> pa.Table:
    import pyarrow as pa

    names = ("arrival", "address", "sequence", "first_slot", "last_slot")
    return pa.table({name: pa.array([packet[at] for packet in packets], pa.int64()) for at, name in enumerate(names)})


def _events(raw: pa.Table) -> pa.Table:
    """The columns of events. Raises ValueError if a row does not fit."""
    import pyarrow as pa

    ts = nanoseconds(raw["first_slot"], SLOT)
    source = pa.array([f"node-{number}" for number in raw["address"].to_pylist()], pa.string())
    fields = {name: raw[name] for name in ("address", "sequence", "first_slot", "last_slot")}
    return pa.table({"arrival": raw["arrival"], "ts": ts, "source": source, **fields})


def _packet(line: bytes) -> tuple[int, int, int, int, int]:
    packet, tab, clock = line.strip().partition(b"\t")
    found = _CLOCK.fullmatch(clock.strip())
    if not tab or not found:
        raise ValueError("not a packet, a tab and a time h:mm:ss.ffffff")
    try:
        numbers = json.loads(packet)
        data = bytes(numbers if isinstance(numbers, list) else [-1])
    except (ValueError, TypeError):
        raise ValueError("the packet is no list of bytes") from None
    if len(data) != _BYTES:
        raise ValueError(f"{len(data)} bytes in the packet, not {_BYTES}")
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3])
    arrival = (hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + int((found[4] or b"0").ljust(6, b"0")) * 1_000
    number = int.from_bytes
    return arrival, data[14], number(data[11:13], "little"), number(data[6:11], "little"), number(data[1:6], "little")


class SequenceUnwrapper:
    """Ids from sequence numbers of 16 bits: whenever they drop (a wrap, or a restarted node), another 65,536 is added.

    A node's packets in order of their first slot have rising numbers, so only wraps and restarts make them drop; copies of a
    packet have the same slot and number, and so get the same id.
    """

    def tables(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """See Numbering."""
        return {name: self._table(table) for name, table in tables.items()}

    def frames(self, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """See Numbering."""
        return {name: self._frame(frame) for name, frame in frames.items()}

    def _table(self, table: pa.Table) -> pa.Table:
        import numpy as np

        codes, sequence = source_codes(table), table["sequence"].to_numpy()
        order = np.lexsort((sequence, table["first_slot"].to_numpy(), codes))
        ordered, own = sequence[order], codes[order]
        begins = np.diff(own, prepend=-1) != 0
        rounds = np.cumsum(~begins & (np.diff(ordered, prepend=0) < 0))
        before = np.maximum.accumulate(np.where(begins, rounds, 0))
        ids = np.empty(len(order), np.int64)
        ids[order] = (rounds - before) * 65_536 + ordered
        return table.append_column("id", [ids])

    def _frame(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as sql

        order = Window.partitionBy("source").orderBy("first_slot", "sequence")
        dropped = sql.lag("sequence", 1, 0).over(order) > sql.col("sequence")
        drops = frame.withColumn("dropped", sql.when(dropped, 1).otherwise(0))
        rounds = sql.sum("dropped").over(order)
        return drops.withColumn("id", (rounds * 65_536 + sql.col("sequence")).cast("bigint")).drop("dropped")
