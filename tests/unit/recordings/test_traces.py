"""Traces without Spark: description, reading in arrival order, encoding for the wire, and what is refused."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.link.codec import FEWEST_ROWS, EventCodec, arrival_order_of
from middleware.model.errors import TraceError
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.recordings.feed.groups import slices
from middleware.recordings.feed.trace_rows import TypeRows, frames
from middleware.recordings.prepare.describe import describe
from middleware.recordings.traces import DESCRIPTION, Trace, load_trace, read_trace, type_folder

fewer = settings(max_examples=25)


class Ping(Event):
    number: int
    label: str
    up: bool


class Pong(Event):
    weight: float


TYPES = EventTypes([Ping, Pong])
FIELDS = {"Ping": {"number": "int64", "label": "string", "up": "bool"}, "Pong": {"weight": "double"}}


def write(folder: Path, name: str, arrivals: list[int], files: int = 1, sources: int = 3) -> None:
    count = len(arrivals)
    ids = np.arange(count)
    arrivals = sorted(arrivals)
    base = {
        "arrival": np.array(arrivals, np.int64),
        "ts": np.array(arrivals, np.int64) - (ids * 7) % 5,
        "id": ids,
        "source": [f"s{number % sources}" for number in range(count)],
    }
    own = {
        "Ping": {"number": ids * 2, "label": [f"n{number}" for number in range(count)], "up": ids % 2 == 0},
        "Pong": {"weight": ids / 3},
    }[name]
    table = pa.table(base | own)
    type_folder(folder, name).mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(count), files)):
        pq.write_table(table.take(pa.array(part)), type_folder(folder, name) / f"part-{number:05d}.parquet", row_group_size=3)


def finish(folder: Path) -> Trace:
    types = {path.name.removeprefix("type="): None for path in folder.glob("type=*")}
    trace = Trace("test", ["by hand"], {name: describe(folder, name, FIELDS[name]) for name in sorted(types)})
    (folder / DESCRIPTION).write_bytes(msgspec.json.encode(trace))
    return trace


def test_one_type_comes_as_it_arrived(tmp_path: Path) -> None:
    write(tmp_path, "Ping", list(range(10, 30)), files=3)
    finish(tmp_path)
    events = [event for some in read_trace(tmp_path, EventTypes([Ping])) for event in some]
    assert events[3] == Ping(6, "n3", False, ts=12, id=3, source="s0")
    assert [event.id for event in events] == list(range(20))


@fewer
@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_types_are_merged_by_arrival(tmp_path_factory: pytest.TempPathFactory, pings: list[int], pongs: list[int]) -> None:
    folder = tmp_path_factory.mktemp("trace")
    write(folder, "Ping", pings, files=min(3, len(pings)))
    write(folder, "Pong", pongs)
    finish(folder)
    arrivals = {Ping: sorted(pings), Pong: sorted(pongs)}
    events = [event for some in read_trace(folder, EventTypes([Ping, Pong])) for event in some]
    times = [arrivals[type(event)][event.id] for event in events]
    assert times == sorted(pings + pongs)


def test_description_counts_late_events_and_duplicates(tmp_path: Path) -> None:
    table = pa.table(
        {
            "arrival": [1, 2, 3, 4, 5],
            "ts": pa.array([5, 3, 9, 9, 2], pa.int64()),
            "id": [0, 1, 2, 2, 2],
            "source": ["a", "a", "a", "a", "b"],
            "weight": [1.0] * 5,
        }
    )
    type_folder(tmp_path, "Pong").mkdir()
    for number in range(2):
        pq.write_table(table.slice(number * 2, 2 + number), type_folder(tmp_path, "Pong") / f"part-{number:05d}.parquet")
    one = describe(tmp_path, "Pong", FIELDS["Pong"])
    assert (one.events, one.late, one.max_lateness, one.duplicates) == (5, 2, 7, 1)
    assert (one.first_ts, one.last_ts, one.first_arrival, one.last_arrival) == (2, 9, 1, 5)
    assert one.sources == {"a": 4, "b": 1}


def test_types_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "Pong", [1, 2])
    finish(tmp_path)

    class Pong(Event):
        height: float

    with pytest.raises(TraceError, match="none of the known event types: Ping"):
        list(read_trace(tmp_path, EventTypes([Ping])))
    with pytest.raises(TraceError, match="fields weight, but its class has height"):
        list(read_trace(tmp_path, EventTypes([Pong])))


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lambda folder: (folder / DESCRIPTION).unlink(), "which a finished trace has"),
        (lambda folder: (folder / DESCRIPTION).write_text("{}"), "cannot be read"),
        (lambda folder: next(folder.glob("type=*/*")).unlink(), "lacks the events of Pong"),
        (lambda folder: next(folder.glob("type=*/*")).write_bytes(b"PAR1"), "cannot be read"),
        (
            lambda folder: (folder / DESCRIPTION).write_text((folder / DESCRIPTION).read_text().replace("Pong", "../Pong")),
            "no event type",
        ),
        (
            lambda folder: (folder / DESCRIPTION).write_text(
                (folder / DESCRIPTION).read_text().replace('"events":3', '"events":4')
            ),
            "says 4",
        ),
    ],
)
def test_a_damaged_trace_is_reported(tmp_path: Path, harm, complaint: str) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, "Pong", [1, 2, 3])
    finish(tmp_path)
    harm(tmp_path)
    with pytest.raises(TraceError, match=complaint):
        list(read_trace(tmp_path, EventTypes([Pong])))


def test_no_trace_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such folder"):
        load_trace(tmp_path / "gone")
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match="it is a file"):
        load_trace(tmp_path / "file")


@fewer
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=50),
    st.lists(st.integers(0, 60), min_size=0, max_size=50),
    st.one_of(st.none(), st.integers(1, 30)),
    st.integers(1, 12) | st.just(200),
)
def test_frames_of_all_slices_hold_every_event_once_in_order_of_arrival(
    tmp_path_factory: pytest.TempPathFactory, pings: list[int], pongs: list[int], window: int | None, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    write(folder, "Ping", pings, files=min(2, len(pings)))
    if pongs:
        write(folder, "Pong", pongs)
    trace = finish(folder)
    codec, drops = EventCodec(TYPES), Counter[str]()
    arrivals = {"Ping": sorted(pings), "Pong": sorted(pongs)}
    found: dict[str, list[int]] = {name: [] for name in trace.types}
    reached = NEVER
    cuts = slices(folder, trace, rows)
    assert (cuts[0], cuts[-1]) == (NEVER, END)
    assert cuts == sorted(set(cuts))
    types = [TypeRows(folder, trace, name) for name in trace.types]
    for low, high in pairwise(cuts):
        for frame in frames(types, window, low, high, max(1, rows // 2)):
            times: list[int] = []
            places: list[int] = []
            for head, block in frame.blocks:
                events = codec.decode(head, block, drops).inserts
                assert head.count == len(events) > 0 and not drops
                assert head.columns == (len(events) >= FEWEST_ROWS)
                assert (head.oldest, head.newest) == (min(e.ts for e in events), max(e.ts for e in events))
                if head.runs is not None:
                    named = {(source, number) for source, first, last in head.runs for number in range(first, last + 1)}
                    assert named == {(event.source, event.id) for event in events}
                found[head.type] += [event.id for event in events]
                times += [arrivals[head.type][event.id] for event in events]
                places += arrival_order_of(head, len(events)) or []
            if len(frame.blocks) > 1:
                assert sorted(places) == list(range(len(times))), "each place once"
                ordered = [at for _, at in sorted(zip(places, times, strict=True))]
                assert ordered == sorted(times), "all types together in order of arrival"
            assert frame.events == len(times) <= max(1, rows // 2) * len(trace.types)
            assert frame.last == max(times) < high
            assert min(times) >= max(reached, low)
            assert window is None or max(times) - min(times) <= window
            reached = frame.last
    assert found == {name: list(range(len(arrivals[name]))) for name in trace.types}
