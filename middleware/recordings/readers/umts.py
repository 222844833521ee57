"""Events that phones sent over a public UMTS network, with the arrival times measured at the server (JR-DIGITAL ooo-dataset).

Semicolon CSV with a header. Event time is when the phone noticed the event, arrival when the server received it, both in Unix
ms on clocks synchronised by NTP. The client numbers its messages from 0 in each session.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.recordings.files.header import columns_in
from middleware.recordings.files.recording import Recording
from middleware.recordings.files.salvage.fitted_rows import ConversionOfRows
from middleware.recordings.files.salvage.line_parsers import LineParser, ParserOfCsv
from middleware.recordings.files.text import TextReader, existing, finite, nanoseconds, splits, text_recording

if TYPE_CHECKING:
    import pyarrow as pa

TYPE = "devices.Report"
_MILLISECOND = 1_000_000
_NUMBERS = {
    "sequence": "C.Message.ID",
    "ts": "S.Client.Detection.Time",
    "arrival": "S.Message.received.time.ms",
    "send_delay": "A.Duration.send",
    "round_trip": "A.Duration.round.trip",
    "content_length": "S.Http.Content.Length",
}
_TEXTS = {"device": "S.Device.ID", "session": "S.Session.Name", "network": "S.Client.Network.Type"}


def umts_recording(paths: Sequence[str | Path]) -> Recording:
    """Phones' messages as devices.Report: device, sequence, network, send_delay, round_trip (ns), content_length (bytes).

    The source is ``session/device``, because message numbers start anew in each session.
    """
    files = existing(paths)
    names = columns_in(files, ";", (*_NUMBERS.values(), *_TEXTS.values()))
    read = TextReader(TYPE, parser(names))
    return text_recording("umts", files, splits(files, header=True), read, header_lines=1, measured=True)


def parser(names: Sequence[str]) -> LineParser:
    """Parses lines with columns in the order of ``names`` to columns of events."""
    import pyarrow as pa

    types = dict.fromkeys(_NUMBERS.values(), pa.int64()) | dict.fromkeys(_TEXTS.values(), pa.string())
    return ParserOfCsv(names, types, ConversionOfRows(_events), ";", '"')


def _events(raw: pa.Table) -> pa.Table:
    """The columns of events. Raises ValueError if a row does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = {name: raw[theirs] for name, theirs in (_NUMBERS | _TEXTS).items()}
    table = {
        "arrival": nanoseconds(column["arrival"], _MILLISECOND),
        "ts": nanoseconds(column["ts"], _MILLISECOND),
        "id": column["sequence"],
        "source": pc.binary_join_element_wise(column["session"], column["device"], "/"),
        "device": column["device"],
        "sequence": column["sequence"],
        "network": column["network"],
        "send_delay": nanoseconds(column["send_delay"], _MILLISECOND),
        "round_trip": nanoseconds(column["round_trip"], _MILLISECOND),
        "content_length": column["content_length"],
    }
    return finite(pa.table(table))
