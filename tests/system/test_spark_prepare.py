"""Recordings to traces with a real Spark: every format, delays, broken lines, and disks that fill up."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.detector import Detector
from middleware.model.errors import TraceError
from middleware.model.event import Event, EventTypes
from middleware.recordings.files.recording import NumberingByTime
from middleware.recordings.prepare.delays import parse_delays
from middleware.recordings.readers import READERS, open_recording
from middleware.recordings.traces import Trace, files, load_trace, read_trace
from middleware.spark.archive import archive, trace_frames
from middleware.spark.prepare.prepare import prepare
from middleware.spark.session import spark_session
from middleware.testing.oracle import oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get("SLACKLINE_DATA", "/nonexistent"))
    if not folder.is_dir():
        pytest.skip("no real recordings here: name their folder in SLACKLINE_DATA")
    return folder


def table(path: Path, trace: Trace, name: str) -> pa.Table:
    assert list(trace.types) == [name]
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files(path, name)])


class Trade(Event):
    symbol: str
    cents: int
    venue: str


class News(Event):
    text: str
    weight: float


class Moved(Event):
    symbol: str
    cents: int
    after: str


class Moves(Detector):
    """The first trade of each symbol after news."""

    subscribes, publishes = (Trade, News), (Moved,)

    def __init__(self) -> None:
        self.news = ""
        self.former: tuple[str, ...] = ()

    def on_event(self, event: Trade | News) -> Moved | None:
        if isinstance(event, News):
            self.news, self.former = event.text, ()
            return None
        if not self.news or event.symbol in self.former:
            return None
        self.former = (*self.former, event.symbol)
        return Moved(event.symbol, event.cents, self.news, ts=event.ts)


MARKET = """
[[events]]
type = "Trade"
files = ["trades-*.csv"]
ts = { column = "time", format = "%d.%m.%Y %H:%M:%S", zone = "Europe/Berlin" }
source = { file = "trades-(.*)[.]csv" }
[events.fields]
symbol = { file = "trades-(.*)[.]csv", type = "str" }
cents = { expression = "price * 100", type = "int" }
venue = { value = "Xetra", type = "str" }

[[events]]
type = "News"
files = ["news.jsonl"]
ts = { column = "published.at", unit = "ms" }
source = { value = "wire" }
[events.fields]
text = { column = "headline", type = "str" }
weight = { column = "weight", type = "float" }
"""


class Beat(Event):
    number: int
    level_of: float


def beats(seed: int, seconds: float) -> dict[str, pa.Table]:
    """Two sources at 500 Hz."""
    parts = [beats_chunk(seed, seconds, source) for source in chunks(seed, seconds)]
    return {"Beat": pa.concat_tables([part["Beat"] for part in parts])}


def chunks(seed: int, seconds: float) -> list[str]:
    return ["left", "right"]


def beats_chunk(seed: int, seconds: float, chunk: str) -> dict[str, pa.Table]:
    ids = np.arange(int(500 * seconds))
    level = np.random.default_rng(seed).normal(size=len(ids))
    return {
        "Beat": pa.table({"ts": ids * 2_000_000, "id": ids, "source": [chunk] * len(ids), "number": ids % 7, "level_of": level})
    }


def test_generated_recording_in_chunks_with_delays(tmp_path: Path) -> None:
    recording = open_recording([], generate=f"{__name__}:beats", seed=3, seconds=2)
    assert len(recording.chunks) == 2
    delays = parse_delays("uniform(5ms, 250ms)", {"right": "constant(1s)"}, duplicates=0.2, seed=9)
    trace = prepare(recording, tmp_path / "trace", delays)
    rows = table(tmp_path / "trace", trace, "Beat").to_pylist()
    one = trace.types["Beat"]
    assert (one.events, trace.events) == (len(rows), len(rows))
    assert one.duplicates == len(rows) - 2_000
    assert one.duplicates == pytest.approx(400, abs=80)
    assert {(row["source"], row["id"]) for row in rows} == {(source, n) for source in ("left", "right") for n in range(1_000)}
    assert all(row["ts"] == row["id"] * 2_000_000 for row in rows)
    assert {row["arrival"] - row["ts"] for row in rows if row["source"] == "right"} == {1_000_000_000}
    left = [row["arrival"] - row["ts"] for row in rows if row["source"] == "left"]
    assert min(left) >= 5_000_000
    assert max(left) <= 250_000_000
    assert [row["arrival"] for row in rows] == sorted(row["arrival"] for row in rows)
    behind = np.maximum.accumulate([row["ts"] for row in rows]) - [row["ts"] for row in rows]
    assert (one.late, one.max_lateness) == (np.count_nonzero(behind), behind.max())
    events = [event for some in read_trace(tmp_path / "trace", EventTypes([Beat])) for event in some]
    assert events[0] == Beat(
        rows[0]["number"], rows[0]["level_of"], ts=rows[0]["ts"], id=rows[0]["id"], source=rows[0]["source"]
    )


def test_same_seed_same_bytes_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delays = parse_delays("lognormal(median=20ms, sigma=0.8, fifo=true)", duplicates=0.1, seed=4)
    whole = prepare(open_recording([], generate=f"{__name__}:beats", seconds=2), tmp_path / "whole", delays)
    monkeypatch.delattr(sys.modules[__name__], "chunks")
    cut = prepare(open_recording([], generate=f"{__name__}:beats", seconds=2), tmp_path / "cut", delays, rows_per_file=700)
    assert len(files(tmp_path / "whole", "Beat")) == 1
    assert len(files(tmp_path / "cut", "Beat")) > 1
    assert table(tmp_path / "cut", cut, "Beat").equals(table(tmp_path / "whole", whole, "Beat"))
    assert cut.types == whole.types


def test_first_in_first_out_per_source(tmp_path: Path) -> None:
    recording = open_recording([], generate=f"{__name__}:beats", seconds=2)
    trace = prepare(recording, tmp_path / "trace", parse_delays("uniform(0ms, 100ms, fifo=true)"))
    rows = table(tmp_path / "trace", trace, "Beat").to_pylist()
    for source in ("left", "right"):
        assert [row["id"] for row in rows if row["source"] == source] == list(range(1_000))
    assert trace.types["Beat"].late > 0


def _tsch(folder: Path) -> Path:
    """Packets whose numbers wrap, one of them twice."""
    lines = []
    for number in [*range(65_530, 65_540), 65_539, *range(65_540, 65_560)]:
        packet = [0] * 38
        packet[1:6], packet[6:11] = (list((n).to_bytes(5, "little")) for n in (number + 3, number))
        packet[11:13], packet[14] = list((number & 0xFFFF).to_bytes(2, "little")), 5 + number % 2
        lines.append(f"{packet}\t0:00:{number - 65_530:02d}.5\n")
    file = folder / "packets.log"
    file.write_text("".join(lines))
    return file


def _mapped(folder: Path, header: str) -> Path:
    mapping = folder / "weather.toml"
    mapping.write_text(
        f'type = "Reading"\n{header}\nts = {{ column = "t", unit = "ms" }}\nsource = {{ column = "who" }}\n'
        '[fields]\nt = { column = "value", type = "float" }\n'
    )
    chance = np.random.default_rng(4)
    rows = [f"{chance.integers(300)},{chance.integers(200, 900)},{'ab'[n % 2]},{n}.5" for n in range(700)]
    rows[5], rows[600] = "x,1,a,2", "4,5,b,none"
    (folder / "weather.csv").write_text("t,got,who,value\n" + "\n".join(rows) + "\n")
    return mapping


def test_a_small_recording_gives_the_same_trace_without_spark(tmp_path: Path) -> None:
    beating = open_recording([], generate=f"{__name__}:beats", seconds=2)
    delays = parse_delays("uniform(1ms, 90ms)", {"left": "uniform(0ms, 50ms, fifo=true)"}, duplicates=0.2, seed=7)
    mapping = _mapped(tmp_path, 'arrival = { column = "got", unit = "ms" }\nalign = true')
    measured = open_recording([tmp_path / "weather.csv"], mapping=mapping)
    packets = READERS["tsch"]([_tsch(tmp_path)])
    cases = [(beating, delays), (beating, None), (measured, None), (measured, delays), (packets, None)]
    for number, (recording, drawn) in enumerate(cases):
        theirs, ours = tmp_path / f"spark-{number}", tmp_path / f"here-{number}"
        trace = prepare(recording, theirs, drawn)
        assert prepare(recording, ours, drawn, in_process=True) == trace == load_trace(ours)
        name = next(iter(trace.types))
        found = table(ours, trace, name)
        assert found.to_pydict() == table(theirs, trace, name).to_pydict()
        assert found.num_rows > 20
    assert max(found["id"].to_pylist()) > 65_535  # of the packets: the numbers were unwrapped


def test_several_types_from_several_files_as_an_archive(tmp_path: Path, spark: SparkSession) -> None:
    """Dates in another zone, the files' names as source and field, constants, expressions, nested columns; then an archive."""
    (tmp_path / "market.toml").write_text(MARKET)
    for symbol, first in (("ibm", 5), ("sap", 3)):
        lines = [f"14.11.2023 23:13:{first + 4 * at:02d},{first + at}.25" for at in range(12)]
        (tmp_path / f"trades-{symbol}.csv").write_text("\n".join(["time,price", *lines]) + "\n")
    at = 1_700_000_000_000  # 23:13:20 in Berlin
    news = [f'{{"published": {{"at": {at + 5_500 * n}}}, "headline": "n{n}", "weight": {n}}}' for n in range(4)]
    (tmp_path / "news.jsonl").write_text("\n".join(news) + "\n")
    recorded = [tmp_path / name for name in ("trades-ibm.csv", "trades-sap.csv", "news.jsonl")]
    prepare(open_recording(recorded, mapping=tmp_path / "market.toml"), tmp_path / "trace", spark=spark)
    events = [event for some in read_trace(tmp_path / "trace", EventTypes([Trade, News])) for event in some]
    assert len(events) == 28
    assert Trade("sap", 525, "Xetra", ts=(at - 9_000) * 10**6, id=2, source="sap") in events
    assert News("n1", 1.0, ts=(at + 5_500) * 10**6, id=1, source="wire") in events
    (expected,) = oracle(events, [Moves()]).values()
    assert len(expected) == 8
    assert archive(trace_frames(spark, tmp_path / "trace", [Trade, News]), [Moves()]).collect() == expected


def test_broken_lines_cost_only_themselves(tmp_path: Path) -> None:
    good = "40,{},33700,-25145,-250,2404630,1343967,-7067,7068,-300,-7802,-2209,-5852\n"
    lines = [good.format(13_240_232_395_153_129 + n * 5_000_000_000) for n in range(1_000)]
    lines[10], lines[500], lines[999] = "half a li", "40,x" + ",1" * 11 + "\n", "\0\xff\n"
    (tmp_path / "half.csv").write_text("".join(lines), encoding="latin-1")
    trace = prepare(READERS["debs2013"]([tmp_path / "half.csv"]), tmp_path / "trace")
    # Line 11 has no end: it took line 12 with it.
    assert trace.types["soccer.Position"].events == 996
    assert (trace.bad_lines.count, [bad.line for bad in trace.bad_lines.first]) == (3, [11, 500, 999])
    assert load_trace(tmp_path / "trace") == trace
    rows = table(tmp_path / "trace", trace, "soccer.Position")
    assert rows["id"].to_pylist() == list(range(996))
    assert rows["arrival"].equals(rows["ts"])


def test_nothing_to_read_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "prose.csv").write_text("it was a dark and stormy night\n")
    with pytest.raises(TraceError, match=r"no event to read as debs2013; line 1 of .*Expected 13 columns"):
        prepare(READERS["debs2013"]([tmp_path / "prose.csv"]), tmp_path / "trace")
    assert [path.name for path in tmp_path.iterdir()] == ["prose.csv"]


def test_a_trace_is_replaced_only_when_asked(tmp_path: Path) -> None:
    recording = open_recording([], generate=f"{__name__}:beats", seconds=0.1)
    prepare(recording, tmp_path / "trace")
    with pytest.raises(TraceError, match="is there already"):
        prepare(recording, tmp_path / "trace")
    prepare(open_recording([], generate=f"{__name__}:beats", seconds=0.2), tmp_path / "trace", force=True)
    assert load_trace(tmp_path / "trace").events == 200
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").touch()
    with pytest.raises(TraceError, match="is no trace: it will not be replaced"):
        prepare(recording, tmp_path / "work", force=True)


PREPARE = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
from middleware.model.errors import TraceError
from middleware.spark.prepare.prepare import prepare
from middleware.recordings.readers import open_recording
try:
    prepare(open_recording([], generate="{__name__}:beats", seconds=60), sys.argv[1])
except TraceError as error:
    print("TraceError:", error)
"""


def test_a_full_disk_gives_a_clear_error_and_no_trace(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
        ).returncode
        == 0
    ):
        try:
            with pytest.raises(TraceError, match=r"No space left on device.*nothing of it is kept"):
                prepare(open_recording([], generate=f"{__name__}:beats", seconds=60), disk / "trace")
            assert list(disk.iterdir()) == []
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        return
    # Who may not mount a small disk to fill can still be forbidden to write large files.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])}
    command = [sys.executable, "-c", PREPARE, str(disk / "trace")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
    assert "File too large" in done.stdout
    assert "nothing of it is kept" in done.stdout
    assert list(disk.iterdir()) == []


def test_debs2013(tmp_path: Path, data: Path) -> None:
    trace = prepare(READERS["debs2013"]([data / "debs2013" / "second-half-0.82s.csv"]), tmp_path / "trace")
    one = trace.types["soccer.Position"]
    assert (one.events, len(one.sources), one.late, one.duplicates) == (12_500, 42, 0, 0)
    rows = table(tmp_path / "trace", trace, "soccer.Position")
    ball = rows.filter(pa.compute.equal(rows["source"], "sensor-8"))
    force = np.sqrt(sum(ball[name].to_numpy() ** 2 for name in ("ax", "ay", "az")))
    first_hit = ball["ts"].to_numpy()[np.argmax(force >= 55.0)]
    assert (first_hit - one.first_ts) / 1e6 == pytest.approx(597, abs=1)
    assert ball["id"].to_pylist() == list(range(ball.num_rows))


def test_tromso(tmp_path: Path, data: Path) -> None:
    trace = prepare(READERS["tromso"]([data / "tromso" / "tromso_extra.csv.gz"]), tmp_path / "trace")
    one = trace.types["soccer.Tag"]
    assert (one.events, trace.bad_lines.count) == (132_000, 0)
    assert one.last_ts - one.first_ts == pytest.approx(1_011.13e9, abs=0.01e9)


def test_umts_as_measured_and_as_a_source_of_delays(tmp_path: Path, data: Path) -> None:
    for name, late, lateness, events in (("d-1", 1_544, 4.544, 9_600), ("d-2", 3_666, 3.46, 10_800)):
        trace = prepare(READERS["umts"]([data / "ooo-umts" / f"{name}.csv"]), tmp_path / name)
        one = trace.types["devices.Report"]
        assert (one.events, one.late, one.duplicates) == (events, late, 0)
        assert one.max_lateness / 1e9 == pytest.approx(lateness, abs=0.005)
        assert trace.delays is None
    recording = open_recording([], generate=f"{__name__}:beats", seconds=20)
    drawn = prepare(recording, tmp_path / "drawn", parse_delays(f"empirical({tmp_path / 'd-1'})"))
    measured = table(tmp_path / "d-1", load_trace(tmp_path / "d-1"), "devices.Report")
    delays = [
        rows["arrival"].to_numpy() - rows["ts"].to_numpy() for rows in (measured, table(tmp_path / "drawn", drawn, "Beat"))
    ]
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(delays[1], share) == pytest.approx(np.quantile(delays[0], share), rel=0.1)


def test_tsch_keeps_the_identity_of_copies(tmp_path: Path, data: Path) -> None:
    trace = prepare(READERS["tsch"]([data / "tsch-wsn" / "4-1-high_load.log"]), tmp_path / "trace")
    one = trace.types["devices.Packet"]
    assert (one.events, one.late, one.max_lateness / 1e9) == (6_481, 2_322, pytest.approx(117.3, abs=0.1))
    rows = table(tmp_path / "trace", trace, "devices.Packet").to_pylist()
    packets = {(row["address"], row["first_slot"], row["sequence"]) for row in rows}
    identities = {(row["source"], row["id"]) for row in rows}
    assert len(packets) == len(identities) == 6_481 - (one.duplicates or 0)
    assert all(row["id"] % 65_536 == row["sequence"] for row in rows)
    assert min(row["arrival"] - row["ts"] for row in rows) == 0


def test_types_that_share_a_source_are_numbered_as_in_memory(spark: SparkSession) -> None:
    rng = random.Random(3)
    tables = {
        name: pa.table(
            {
                "source": [rng.choice("abc") for _ in range(count)],
                "ts": [rng.randrange(20) for _ in range(count)],
                "_position": list(range(count)),
            }
        )
        for name, count in {"x.B": 40, "x.A": 30, "x.C": 5, "x.D": 9, "x.Aa": 7}.items()
    }
    for name in ("x.D", "x.Aa"):
        tables[name] = tables[name].append_column("id", [[rng.randrange(-5, 50) for _ in range(tables[name].num_rows)]])
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()}
    expected = {name: sorted(map(tuple, table.to_pandas().values)) for name, table in NumberingByTime().tables(tables).items()}
    assert {name: sorted(map(tuple, found.collect())) for name, found in NumberingByTime().frames(frames).items()} == expected
