"""The mapping reader: CSV and Parquet by a TOML file, units and scales, errors that name file and key."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.errors import TraceError
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.files.mapping import load_mappings
from tests.unit.recordings.test_readers import rows_of

MAPPING = """
type = "weather.Reading"
ts = { column = "time", unit = "ms" }
source = { column = "station", prefix = "station-" }
[fields]
station = { column = "station", type = "int" }
celsius = { column = "temp_f", type = "float", scale = 0.5555555555555556, offset = -17.77777777777778 }
wet = { column = "wet", type = "bool" }
note = { column = "note", type = "str" }
"""


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    file = tmp_path / "weather.toml"
    file.write_text(MAPPING)
    return file


def test_csv(tmp_path: Path, mapping: Path) -> None:
    file = tmp_path / "weather.csv"
    file.write_text(
        'note,time,station,temp_f,wet\n"a,b",1000,7,50,true\nc,1500.5,8,bad,false\nd,1500.5,8,59,false\ne,,8,59,false\n'
    )
    found, bad = rows_of(mapped_recording([file], mapping))
    first, second = found["weather.Reading"]
    assert (first["ts"], first["source"], first["station"], first["wet"], first["note"]) == (10**9, "station-7", 7, True, "a,b")
    assert first["celsius"] == pytest.approx(10.0)
    assert second["ts"] == 1_500_500_000
    assert [line for line, _ in bad] == [1, 3]
    assert "temp_f" in bad[0][1]


def test_parquet(tmp_path: Path, mapping: Path) -> None:
    file = tmp_path / "weather.parquet"
    table = pa.table(
        {
            "time": [1000, 2000, 3000],
            "station": [7, None, 8],
            "temp_f": [50.0, 50.0, float("inf")],
            "wet": [True, True, True],
            "note": ["a", "b", "c"],
        }
    )
    pq.write_table(table, file)
    found, bad = rows_of(mapped_recording([file], mapping))
    assert [row["source"] for row in found["weather.Reading"]] == ["station-7"]
    assert [line for line, _ in bad] == [1, 2]


def test_iso_times_arrival_and_ids(tmp_path: Path) -> None:
    toml = tmp_path / "m.toml"
    toml.write_text(
        'type = "A"\nid = "n"\ndelimiter = ";"\nts = { column = "t", unit = "iso" }\narrival = { column = "r", unit = "s" }\n'
        'source = { column = "s" }\n[fields]\n'
    )
    file = tmp_path / "a.csv"
    file.write_text("t;r;s;n\n2020-01-01T00:00:00Z;1577836801.25;x;41\n")
    recording = mapped_recording([file], toml)
    (row,) = rows_of(recording)[0]["A"]
    assert (row["ts"], row["arrival"], row["id"], row["source"]) == (1577836800 * 10**9, 1577836801_250_000_000, 41, "x")
    assert recording.measured
    assert recording.number is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('unit = "ms"', 'unit = "fortnight"'), "fortnight"),
        (('type = "weather.Reading"', 'type = "../../etc"'), "no event type name"),
        (('type = "int"', 'type = "complex"'), "complex"),
        (("wet = {", "level = {"), "fields.level"),
        (('type = "str" }', 'type = "str", scale = 2.0 }'), "fields.note"),
        (('prefix = "station-"', 'prefx = "station-"'), "prefx"),
        (("[fields]", "[fields"), "weather.toml"),
    ],
)
def test_a_wrong_mapping_is_reported(mapping: Path, change: tuple[str, str], complaint: str) -> None:
    mapping.write_text(MAPPING.replace(*change))
    with pytest.raises(TraceError, match=complaint):
        load_mappings(mapping)


def test_a_missing_column_is_reported(tmp_path: Path, mapping: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("time,station\n1,2\n")
    with pytest.raises(TraceError, match="no column temp_f, wet, note"):
        mapped_recording([file], mapping)
