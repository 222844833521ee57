"""An archive gives what the oracle gives: the executors' part of it over any events, with a shuffle made here, not by Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from detectors.cql import Script
from detectors.sequence import SequenceQuery
from detectors.window import COUNT, SUM, Hopping, Tumbling, Windows
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError, EventError
from middleware.model.event import ORDER, Event, type_name
from middleware.spark.archive.archive_plan import ArchivePlan, lane_text
from middleware.spark.archive.archive_tasks import RunLanes
from middleware.spark.archive.decoding import FailureRows, TypedResults, events_of
from middleware.spark.archive.packing import FAILURE, RESULT, PackRaw, parts_of
from middleware.spark.by_value import dump_by_value
from middleware.spark.schemas import schema_of
from middleware.spark.spark_blocks import columns_of, opened
from middleware.testing.flows import sequential
from middleware.testing.oracle import oracle
from tests.property.flow.random_flows import INPUT, Out, flows


class Hue(Enum):
    RED = "red"
    BLUE = "blue"


class Ping(Event):
    host: str
    port: int
    hue: Hue = Hue.RED
    size: float | None = None


class Pong(Event):
    host: str
    number: int


class Seen(Event):
    host: str
    port: int
    count: int


class Told(Event):
    host: str
    number: int


class Both(Event):
    host: str
    seen: tuple[int, ...]


class Odd(Event):
    what: dict[str, Any]


class Total(Event):
    host: str
    start: int
    end: int
    n: int
    ports: int


class Count(Detector):
    """Keyed by two fields; raises now and then, and gives several events at once."""

    subscribes, publishes, key = (Ping,), (Seen,), ("host", "port")

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, ping: Ping) -> Any:
        self.count += 1
        if ping.size == 3.0:
            raise ValueError("three")
        return [Seen(ping.host, ping.port, self.count, ts=ping.ts + extra) for extra in range(ping.port % 3)]


class ByHue(Detector):
    """Keyed by a function, which refuses some events."""

    subscribes, publishes = (Ping,), (Both,)
    key: ClassVar[Any] = staticmethod(lambda ping: ping.hue if ping.size != 2.0 else 1 / 0)

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_event(self, ping: Ping) -> Both:
        self.seen = [*self.seen[-2:], ping.port]
        return Both(ping.host, tuple(self.seen), ts=ping.ts)


class Trips(Detector):
    """Without a key; changes itself before it raises; its results have values that no column holds as they are."""

    subscribes, publishes = (Ping,), (Odd, Told)

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_event(self, ping: Ping) -> Iterator[Event]:
        self.seen.append(ping.port)
        self.seen = self.seen[-5:]
        yield Told(ping.host, 2**62 * (sum(self.seen) % 3), ts=ping.ts)
        if sum(self.seen) % 4 == 3:
            raise ValueError("four")
        yield Odd({"seen": list(self.seen), ping.host: ping.size}, ts=ping.ts)


class Gather(Detector):
    """Without a key, over raw and derived events of several levels."""

    subscribes, publishes = (Seen, Both), (Pong,)

    def __init__(self) -> None:
        self.all = 0

    def on_event(self, event: Seen | Both) -> Pong | None:
        self.all = (self.all * 31 + event.ts + len(event.host)) % 10_007
        return Pong(event.host, self.all, ts=event.ts) if self.all % 2 else None


class Again(Detector):
    """Keyed, and reads both raw and derived events."""

    subscribes, publishes, key = (Ping, Pong), (Told,), "host"

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, event: Ping | Pong) -> Told:
        self.last += event.ts
        return Told(event.host, self.last, ts=event.ts)


WINDOWS = Windows(Ping, Hopping(7, 3), {"n": COUNT, "ports": (SUM, "port")}, key="host", result=Total, name="Totals")
BIG = Windows(Seen, Tumbling(10), {"n": COUNT, "ports": (SUM, "count")}, name="Bigs")
PAIRS = SequenceQuery("EVENT SEQ(Ping a, Pong b) WHERE [host] WITHIN 9 ns RETURN Pair(a.host, b.number)", [Ping, Pong], "Pairs")
SQL = Script([Ping])
SQL.add(
    "SELECT host, sum(port) AS ports FROM Ping [SIZE 3] GROUP BY host INTO Sums; SELECT host FROM Sums WHERE ports > 4 INTO Hi;"
    "SELECT host, sum(port) AS ports FROM Ping [SIZE 9 ON ts EVERY 3 ON ts] GROUP BY host, size INTO Times;"
    "SELECT host, port FROM Ping [SIZE 3 EVERY 2 PARTITIONED BY port, host] INTO Twos;"
    "SELECT host, lag(port) OVER (PARTITION BY host ORDER BY ts) AS port FROM Ping INTO Overs;"
    "SELECT host, port FROM Ping MATCH_RECOGNIZE (PARTITION BY host ORDER BY ts MEASURES A.port AS port "
    "PATTERN (A B) DEFINE B AS B.port > A.port) INTO Ups;"
)
PARTITION_KEYS = {
    "Sums": ("host",),
    "Hi": ("source",),
    "Times": ("host",),
    "Twos": ("port", "host"),
    "Overs": ("host",),
    "UpsPart1": ("host",),
    "Ups": ("source",),
}

HIERARCHY: list[Detector] = [Count(), ByHue(), Trips(), Gather(), Again(), WINDOWS, BIG, PAIRS]


@st.composite
def pings(draw: st.DrawFn) -> list[Event]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, 40),
                st.sampled_from(["a", "b", "'c", "d:1"]),
                st.integers(0, 3),
                st.sampled_from(list(Hue)),
                st.sampled_from([None, 1.0, 1.0, 2.0, 3.0]),
            ),
            max_size=30,
        )
    )
    return [
        Ping(host, port, hue, size, ts=ts, id=number, source=f"s{number % 3}")
        for number, (ts, host, port, hue, size) in enumerate(drawn)
    ]


@cache
def planned(*detectors: Detector, stops: tuple[str, ...] = ()) -> tuple[ArchivePlan, bytes]:
    plan = ArchivePlan.of(detectors, stops)
    return plan, dump_by_value(plan)


PARTS = parts_of(3)


def raw_blocks(events: list[Event], plan: ArchivePlan, code: bytes) -> Iterator[pa.RecordBatch]:
    """Raw events as blocks, for all who read them, as ``routed`` has them."""
    for number, event_type in enumerate(plan.types):
        if event_type in plan.raw:
            schema = schema_of(event_type)
            batch = schema.batch([event for event in events if type(event) is event_type]).drop_columns(["level"])
            yield from PackRaw(code, number, plan.readers[event_type], PARTS)(iter([batch]))


def archived(
    events: list[Event], detectors: list[Detector], rows: int, buffer_bytes: int = 10**6, at_once: int = 10**6, stops: Any = ()
) -> tuple[list[Event], list[tuple[str, str, int]]]:
    """What the executors' part makes of raw events: stages as ``archive`` has them, with ``rows`` of blocks at a time."""
    plan, code = planned(*detectors, stops=stops)
    table = [row for batch in raw_blocks(events, plan, code) for row in batch.to_pylist()]
    for stage in plan.stages:
        mine = sorted((row for row in table if row["detector"] in stage), key=itemgetter("part", "detector"))
        for _, part in groupby(mine, itemgetter("part")):
            for out in RunLanes(code, PARTS, buffer_bytes, at_once)(batches(list(part), rows)):
                table += out.to_pylist()
    results: list[Event] = []
    for number, event_type in enumerate(plan.types):
        found = [row for row in table if (row["detector"], row["type"]) == (RESULT, number)]
        own = [event for row in found for event in events_of(event_type, opened(row["block"]))]
        if event_type is not Odd and not any(isinstance(event, Told) and event.number >= 2**63 for event in own):
            typed = TypedResults(dump_by_value(event_type))(batches(found, rows))
            assert [event for batch in typed for event in schema_of(event_type).events(columns_of(batch))] == own
        results += own
    failed = [row for row in table if row["detector"] == FAILURE]
    listed = [row for batch in FailureRows(code)(batches(failed, rows)) for row in batch.to_pylist()]
    return sorted(results, key=ORDER), sorted((row["detector"], row["source"], row["id"]) for row in listed)


def batches(rows: list[dict[str, Any]], size: int) -> Iterator[pa.RecordBatch]:
    names = ("part", "detector", "type", "rows")
    schema = pa.schema([*((name, pa.int32()) for name in names), ("block", pa.binary())])
    yield from pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=size)


def expected(events: list[Event], detectors: list[Detector]) -> list[Event]:
    return sorted((event for some in oracle(events, detectors).values() for event in some), key=ORDER)


@settings(max_examples=60, deadline=None)
@given(pings(), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 2_000, 10**6]), st.sampled_from([1, 3, 10**6]))
def test_an_archive_equals_the_oracle(events: list[Event], rows: int, buffer_bytes: int, at_once: int) -> None:
    results, failed = archived(events, HIERARCHY, rows, buffer_bytes, at_once)
    assert results == expected(events, HIERARCHY)
    assert len(set(failed)) == len(failed)
    assert {each for each in failed if each[0] == "Count"} == {
        ("Count", event.source, event.id) for event in events if isinstance(event, Ping) and event.size == 3.0
    }
    assert {each for each in failed if each[0] == "ByHue"} == {
        ("ByHue", event.source, event.id) for event in events if isinstance(event, Ping) and event.size == 2.0
    }


@settings(max_examples=30, deadline=None)
@given(pings(), st.sampled_from([1, 1000]), st.sampled_from([1, 10**6]), st.sampled_from([1, 3, 10**6]))
def test_events_that_come_twice_count_once(events: list[Event], rows: int, buffer_bytes: int, at_once: int) -> None:
    twice, failed = archived(events + events, HIERARCHY, rows, buffer_bytes, at_once)
    once, left_out = archived(events, HIERARCHY, rows)
    assert (twice, set(failed)) == (once, set(left_out))  # keys are asked for before repeats are skipped


@settings(max_examples=30, deadline=None)
@given(pings(), st.sampled_from([1, 10**6]), st.sampled_from([1, 3, 10**6]))
def test_detectors_that_stop_where_they_raise(events: list[Event], buffer_bytes: int, at_once: int) -> None:
    results, failed = archived(events, [Count()], 3, buffer_bytes, at_once, ("Count",))
    stopped: set[tuple[str, int]] = set()
    left: list[Event] = []
    for event in sorted(events, key=ORDER):
        assert isinstance(event, Ping)
        if event.size == 3.0:
            stopped.add((event.host, event.port))
        if (event.host, event.port) in stopped:
            left.append(event)
    assert results == expected([event for event in events if event not in left], [Count()])
    assert failed == sorted(("Count", event.source, event.id) for event in left)


def test_a_detector_raises_in_the_middle_of_a_large_lane() -> None:
    wrong = {5_000, 8_191, 8_192, 20_000, 20_001, 29_999}
    events: list[Event] = [
        Ping("a", 0 if at < 12_000 else 1, size=3.0 if at in wrong else None, ts=at, id=at, source="s") for at in range(30_000)
    ]
    results, failed = archived(events, [Count()], 1000)
    assert results == expected(events, [Count()])
    assert [event.count for event in results if isinstance(event, Seen)] == list(range(1, 18_000 - 2))
    assert failed == [("Count", "s", at) for at in sorted(wrong)]


class Sealed(Count):
    """Its state can no longer be copied after two events."""

    def snapshot(self) -> Any:
        if self.count > 2:
            raise TypeError("no copy")
        return super().snapshot()


def test_a_lane_whose_state_cannot_be_copied_runs_on() -> None:
    events: list[Event] = [Ping("a", at // 10, ts=at, id=at, source="s") for at in range(30)]
    assert archived(events, [Sealed()], 3, at_once=4) == (expected(events, [Sealed()]), [])


@pytest.mark.parametrize("rows", [1, 2, 1000])
@pytest.mark.parametrize(
    "other", [Ping("a", 1, size=0.5, ts=5, id=1, source="s"), Ping("a", 1, size=-0.0, ts=5, id=1, source="s")]
)
def test_unequal_repeats_end_the_job(rows: int, other: Ping) -> None:
    was = Ping("a", 1, size=0.0, ts=5, id=1, source="s")
    assert archived([was, was], [Count()], rows)[0] == expected([was], [Count()])
    with pytest.raises(EventError, match="two different events have source 's', id 1 and ts 5"):
        archived([was, was, other], [Count()], rows)


@pytest.mark.parametrize("detector", [Again(), WINDOWS])
def test_a_key_of_any_size_streams_through_a_task(detector: Detector) -> None:
    """One key with many times the rows of a batch: what a task holds is the same after all of them as after the first few."""
    plan, code = planned(Count(), ByHue(), Gather(), detector)
    number, reader = plan.types.index(Ping), next(at for at, name in enumerate(plan.names) if plan.detectors[name] is detector)
    size, held = 1_000, []

    def rows() -> Iterator[pa.RecordBatch]:
        for start in range(0, 30 * size, size):
            held.append(sys.getallocatedblocks())
            own = [Ping("one", 1, ts=at, id=at, source="s") for at in range(start, start + size)]
            yield from PackRaw(code, number, [reader], PARTS)(iter([schema_of(Ping).batch(own)]))

    results = sum(sum(batch.column("rows").to_pylist()) for batch in RunLanes(code, PARTS, 200_000)(rows()))
    assert results >= 5 * size
    assert max(held[20:]) - max(held[:20]) < 15 * size  # ten batches of events would be more than 30 * size


@settings(max_examples=30, deadline=None)
@given(pings(), st.sampled_from([1, 4, 1000]))
def test_queries_equal_the_oracle(events: list[Event], rows: int) -> None:
    queries = list(SQL.operators)
    assert {type_name(query.publishes[0]): query.partition_key for query in queries} == PARTITION_KEYS
    assert archived(events, queries, rows)[0] == expected(events, queries)


@settings(max_examples=100, deadline=None, phases=[Phase.generate])
@given(flows(), INPUT, st.integers(1, 2), st.sampled_from([1, 1000]))
def test_flows_equal_their_sequential_run(flow: Any, events: list[Event], parts: int, rows: int) -> None:
    results, failed = archived(events, list(flow.operators(parts).values()), rows)
    assert {(source, number) for _, source, number in failed} <= {(event.source, event.id) for event in events}
    found = sorted((event for event in results if isinstance(event, Out)), key=lambda event: (event.ts, event.cause))
    assert [(event.ts, event.place, event.value) for event in found] == [
        (result.ts, *result.fields) for result in sequential(flow.nodes, events)
    ]


def test_equal_keys_have_one_lane_and_others_another() -> None:
    assert lane_text(1) == lane_text(1.0) == lane_text(True)
    assert len({lane_text(key) for key in (1, "1", "'1", None, "None", 1.5, (1,), ("1",), b"1")}) == 9


def test_a_detector_that_changes_its_class_ends_the_job() -> None:
    class Shared(Detector):
        subscribes, publishes = (Ping,), (Pong,)
        held: ClassVar[list[int]] = []

        def on_event(self, ping: Ping) -> None:
            self.held.append(ping.port)

    with pytest.raises(DetectorError, match="Shared changes what all its instances share"):
        archived([Ping("a", 1, ts=1, id=1, source="s")], [Shared()], 10)
