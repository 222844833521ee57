"""ZXY radio tags at Alfheim stadium, Tromso (Pettersen et al., MMSys 2014): ``t,id,x,y,heading,direction,energy,speed,
total_distance``, times in ISO 8601 (taken as UTC), metres, m/s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.recordings.files.header import columns_in
from middleware.recordings.files.recording import NumberingByTime, Recording
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import LineParser, ParserOfCsv
from middleware.recordings.files.text import TextReader, existing, finite, nanoseconds, splits, text_recording

if TYPE_CHECKING:
    import pyarrow as pa

TYPE = "soccer.Tag"
_NUMBERS = ("x", "y", "heading", "direction", "energy", "speed", "total_distance")


def tromso_recording(paths: Sequence[str | Path]) -> Recording:
    """Players' tags as soccer.Tag: tag, x, y (m), heading, direction (rad), energy, speed (m/s), total_distance (m)."""
    files = existing(paths)
    names = columns_in(files, ",", ("t", "id", *_NUMBERS))
    read = TextReader(TYPE, parser(names))
    return text_recording("tromso", files, splits(files, header=True), read, header_lines=1, number=NumberingByTime())


def parser(names: Sequence[str]) -> LineParser:
    """Parses lines with columns in the order of ``names`` to columns of events."""
    import pyarrow as pa

    types = {"t": pa.timestamp("ns"), "id": pa.int64()} | dict.fromkeys(_NUMBERS, pa.float64())
    return ParserOfCsv(names, types, ConversionOfRows(_events))


def _events(raw: pa.Table) -> pa.Table:
    """The columns of events. Raises ValueError if a row does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = {
        "ts": nanoseconds(raw["t"].cast(pa.int64()), 1),
        "source": pc.binary_join_element_wise("tag", raw["id"].cast(pa.string()), "-"),
        "tag": raw["id"],
        **{name: raw[name] for name in _NUMBERS},
    }
    return finite(pa.table(table))
