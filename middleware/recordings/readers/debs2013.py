"""The sensor data of the DEBS 2013 Grand Challenge (RedFIR real-time locating system, a soccer match).

Lines without header: sensor id, ts (ps), position x, y, z (mm), speed (um/s), acceleration (um/s2), direction of
velocity x, y, z, direction of acceleration x, y, z (unit vectors times 10,000).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.recordings.files.recording import NumberingByTime, Recording
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import LineParser, ParserOfCsv
from middleware.recordings.files.text import TextReader, existing, finite, nanoseconds, splits, text_recording

if TYPE_CHECKING:
    import pyarrow as pa

TYPE = "soccer.Position"
_NAMES = ("sensor", "ts", "x", "y", "z", "speed", "acceleration", "vx", "vy", "vz", "ax", "ay", "az")


def debs2013_recording(paths: Sequence[str | Path]) -> Recording:
    """A match recorded by RedFIR, as soccer.Position: sensor, x, y, z (m), vx, vy, vz (m/s), ax, ay, az (m/s2)."""
    files = existing(paths)
    return text_recording("debs2013", files, splits(files, header=False), TextReader(TYPE, parser()), number=NumberingByTime())


def parser() -> LineParser:
    """Parses lines of the recording to columns of events."""
    import pyarrow as pa

    return ParserOfCsv(_NAMES, dict.fromkeys(_NAMES, pa.int64()), ConversionOfRows(_events))


def _events(raw: pa.Table) -> pa.Table:
    """The columns of events. Raises ValueError if a row does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def scaled(name: str, factor: float) -> pa.ChunkedArray:
        return pc.multiply(raw[name].cast(pa.float64(), safe=False), factor)

    speed, acceleration = scaled("speed", 1e-10), scaled("acceleration", 1e-10)
    table = {
        "ts": nanoseconds(raw["ts"], 1, 1_000),
        "source": pc.binary_join_element_wise("sensor", raw["sensor"].cast(pa.string()), "-"),
        "sensor": raw["sensor"],
        **{name: scaled(name, 1e-3) for name in ("x", "y", "z")},
        **{name: pc.multiply(speed, scaled(name, 1.0)) for name in ("vx", "vy", "vz")},
        **{name: pc.multiply(acceleration, scaled(name, 1.0)) for name in ("ax", "ay", "az")},
    }
    return finite(pa.table(table))
