"""Readers on hand-written lines: units, names, identities, and what they refuse."""

from pathlib import Path

import pytest

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import Recording
from middleware.recordings.readers import READERS, debs2013, open_recording, tsch
from middleware.recordings.readers.generated import generated_recording

UMTS_HEADER = (
    '"S.Message.received.time.ms";"S.Http.Content.Length";"S.Device.ID";"S.Session.Name";"S.Client.Detection.Time";'
    '"S.Client.Network.Type";"C.Message.ID";"A.Duration.send";"A.Duration.round.trip"\n'
)
TROMSO_HEADER = "t,id,x,y,heading,direction,energy,speed,total_distance\n"


def rows_of(recording: Recording) -> tuple[dict[str, list[dict[str, object]]], list[tuple[int, str]]]:
    found: dict[str, list[dict[str, object]]] = {}
    bad = []
    for chunk in recording.chunks:
        for part in recording.read(chunk):
            for name, table in part.tables.items():
                found.setdefault(name, []).extend(table.to_pylist())
            bad += part.bad
    return found, bad


def test_debs2013_in_metres_and_nanoseconds(tmp_path: Path) -> None:
    file = tmp_path / "half.csv"
    file.write_text("40,13240232395153129,33700,-25145,-250,2404630,1343967,-7067,7068,-300,-7802,-2209,-5852\n40,13,1\n")
    found, bad = rows_of(READERS["debs2013"]([file]))
    row = found["soccer.Position"][0]
    assert (row["ts"], row["source"], row["sensor"]) == (13240232395153, "sensor-40", 40)
    assert [row[name] for name in ("x", "y", "z")] == pytest.approx([33.7, -25.145, -0.25])
    assert [row[name] for name in ("vx", "vy", "vz")] == pytest.approx([-1.699352, 1.699593, -0.072139], abs=1e-6)
    assert [row[name] for name in ("ax", "ay", "az")] == pytest.approx([-1.048563, -0.296882, -0.786489], abs=1e-6)
    assert list(row)[:3] == ["ts", "source", "sensor"]
    assert [line for line, _ in bad] == [1]


@pytest.mark.parametrize(
    "line", [b"40,99999999999999999999,1,1,1,1,1,1,1,1,1,1,1", b"40,x,1,1,1,1,1,1,1,1,1,1,1", b"40,1.5" + b",1" * 11]
)
def test_debs2013_refuses_what_is_no_whole_number(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"(conversion error|Expected 13 columns)"):
        debs2013.parser().whole(line)


def test_tromso(tmp_path: Path) -> None:
    file = tmp_path / "tromso.csv"
    good = "2013-11-07T21:05:13.007419,16,35.3014,47.5268,1.7866,0,259.146,0.5,299.465\n"
    file.write_text(TROMSO_HEADER + good + good.replace("35.3014", "nan") + good.replace("2013-", "2013/"))
    found, bad = rows_of(READERS["tromso"]([file]))
    (row,) = found["soccer.Tag"]
    assert (row["ts"], row["source"], row["tag"]) == (1383858313007419000, "tag-16", 16)
    assert (row["x"], row["speed"], row["total_distance"]) == (35.3014, 0.5, 299.465)
    assert [line for line, _ in bad] == [1, 2]
    assert "x is not a finite number" in bad[0][1]


def test_umts_has_measured_arrival_and_names_its_session(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text(
        UMTS_HEADER
        + '1415624021690;264;"dev_15";"d-1";1415624019862;"UMTS";0;1744;1848\n'
        + '1415624021691;264;"dev_15;"d-1";1415624019862;"UMTS";1;1744;1848\n'
        + '1415624021854;264;"dev_15";"d-1";1415624020351;"UMTS";1;1501;1583\n'
        + '1415624021854;NA;"dev_15";"d-1";1415624020351;"UMTS";1;1501;1583\n'
    )
    recording = READERS["umts"]([file])
    found, bad = rows_of(recording)
    assert recording.measured
    first, second = found["devices.Report"]
    assert (first["arrival"], first["ts"]) == (1415624021690000000, 1415624019862000000)
    assert (first["source"], first["id"], second["id"]) == ("d-1/dev_15", 0, 1)
    assert (first["device"], first["network"], first["send_delay"]) == ("dev_15", "UMTS", 1744000000)
    assert [line for line, _ in bad] == [1, 3]


def packet(first: int, sequence: int, address: int, last: int = 0) -> str:
    data = [0] * 38
    data[1:6], data[6:11] = (last or first + 3).to_bytes(5, "little"), first.to_bytes(5, "little")
    data[11:13], data[14] = sequence.to_bytes(2, "little"), address
    return str(data)


def test_tsch_bytes_and_clock() -> None:
    table, _ = tsch.parser().whole(f"{packet(175170, 162, 2)}\t1:02:03.5\n".encode())
    (row,) = table.to_pylist()
    assert (row["ts"], row["arrival"]) == (175170 * 15_000_000, 3723_500_000_000)
    assert (row["source"], row["address"], row["sequence"], row["first_slot"], row["last_slot"]) == (
        "node-2",
        2,
        162,
        175170,
        175173,
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[1, 2]\t0:00:01", "2 bytes"),
        ("[300]\t0:00:01", "no list of bytes"),
        ("{}\t0:00:01", "no list of bytes"),
        ("38\t0:00:01", "no list of bytes"),
        (f"{packet(1, 1, 1)} 0:00:01", "a tab and a time"),
        (f"{packet(1, 1, 1)}\t0:61:01", "a tab and a time"),
    ],
)
def test_tsch_refuses_broken_lines(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tsch.parser().whole(line.encode())


def test_missing_columns_are_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("t,id,x\n")
    with pytest.raises(TraceError, match="no column y, heading"):
        READERS["tromso"]([file])


def test_one_way_of_reading_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="in one way"):
        open_recording([tmp_path])
    with pytest.raises(TraceError, match="no reader 'zxy'; there are debs2013"):
        open_recording([tmp_path], reader="zxy")
    with pytest.raises(TraceError, match="reads no files"):
        open_recording([tmp_path], generate="a:b")
    with pytest.raises(TraceError, match="no generator"):
        open_recording([], generate="middleware.nowhere:b")
    with pytest.raises(TraceError, match="more than 0 seconds"):
        open_recording([], generate="middleware.model.time:b", seconds=0)


def test_a_type_of_which_a_generator_makes_nothing_is_skipped() -> None:
    found, bad = rows_of(generated_recording("scenarios.bookstore.shop:readings", 1, 20.0))  # before the first checkout
    assert (list(found), bad) == (["shop.Shelf"], [])
