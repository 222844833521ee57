"""Applications for simulated worlds: real windows, sequences, FlinkCQL and flows, also on top of detectors.

They read the streams of ``middleware.testing.simulation.applications``, whose times are small whole numbers: nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, NamedTuple

from detectors.cql import compile_cql
from detectors.flow import Flow
from detectors.sequence import SequenceQuery
from detectors.window import (
    COUNT,
    FIRST,
    LAST,
    MEAN,
    SUM,
    Counted,
    Hopping,
    Landmark,
    Session,
    Sliding,
    Tumbling,
    Windows,
    quantile,
)
from detectors.window.aggregation.aggregates import Field
from detectors.window.aggregation.monoid import Monoid
from detectors.window.kinds import WindowKind
from middleware.model.detector import Detector
from middleware.model.event import Event, EventType
from middleware.model.identity import named
from middleware.testing.simulation import applications as plain
from middleware.testing.simulation.applications import High, Level, Low, Probe, Reading
from middleware.testing.simulation.fragile import Fragile

Deployed = dict[str, Detector]


def an_application(rng: Random) -> Deployed:
    """Small detectors, or operators, or operators on what detectors derive."""
    kind = rng.choice([plain.an_application, of_windows, of_sequences, of_cql, of_flows, a_tower])
    return kind(rng)


# -- windows ----------------------------------------------------------------------------------------------------------


class Held(Event):
    sensor: int
    start: int
    end: int
    count: int
    total: int
    share: float | None


class Seen(Event):
    order: str


class Watches(Detector):
    """Its state depends on the order of all windows and readings."""

    subscribes, publishes = (Held, Reading), (Seen,)

    def __init__(self) -> None:
        self.order = ""

    def on_event(self, event: Held | Reading) -> Event | None:
        self.order = (self.order + (str(event.count) if isinstance(event, Held) else "r"))[-5:]
        return Seen(self.order, ts=event.ts) if isinstance(event, Held) else None


def brittle(event: Reading | Probe) -> float:
    """Raises at some events, which are quarantined."""
    return 10 / (event.value - 5)


READS: list[EventType | tuple[EventType, ...]] = [Reading, (Reading, Probe)]
SHARES: list[tuple[Monoid, Field]] = [
    (MEAN, "value"),
    (MEAN, "value"),
    (MEAN, brittle),
    (quantile(0.5), "value"),
    (FIRST, brittle),
]
KINDS: list[WindowKind[Any]] = [
    Tumbling(5),
    Hopping(6, every=2),
    Hopping((3, 12), every=3),
    Hopping(20, every=4, offset=1),
    Sliding((4, 9)),
    Session(2),
    Landmark(3, every=4),
    Landmark(0, every=5, period=20),
    Counted(3),
    Counted(4, every=2),
]


def total(one: float, other: float) -> float:
    return one + other


def fragile_total(one: float, other: float) -> float:
    """Raises if windows are large. A monoid's failure cannot be blamed on one event, so the operator stops."""
    return one + other if one + other < 25 else 1 / 0


def of_windows(rng: Random) -> Deployed:
    """Windows over raw events, some of which cannot be aggregated, and a detector on top. Some monoids raise."""
    share = rng.choice([*SHARES, None])
    reads, kind, emit = rng.choice(READS), rng.choice(KINDS), rng.choice(["close", "change", "final"])

    def windows(share: tuple[Monoid, Field]) -> Windows:
        values: dict[str, Any] = {"count": COUNT, "total": (SUM.of(int), "value"), "share": share}
        return Windows(reads, kind, values, key="sensor", result=Held, emit=emit)

    def monoid(combine: Callable[[float, float], float]) -> tuple[Monoid, Field]:
        return Monoid(name="total", identity=0.0, combine=combine, lift=float), "value"

    operator = windows(share) if share else Fragile(windows(monoid(total)), windows(monoid(fragile_total)).start)
    return named([operator, Watches()][: rng.randint(1, 2)])


# -- sequences --------------------------------------------------------------------------------------------------------

QUERIES = [
    """EVENT SEQ(Reading r, !(Probe p), Reading q) WHERE [sensor] AND q.value > r.value WITHIN 6 ns
       RETURN Climb(r.value AS low, q.value AS high)""",
    """EVENT SEQ(Probe p, Reading r) WHERE p.value = r.value WITHIN 4 ns
       RETURN Echoing(p.sensor AS sensor, r.sensor AS other)""",
    """EVENT SEQ(Reading r, !(Probe p)) WHERE [sensor] AND r.value > 6 WITHIN 5 ns RETURN Alone(r.sensor AS sensor)""",
    """EVENT SEQ(!(Probe p), Reading r) WHERE p.sensor = r.sensor AND r.value < 3 WITHIN 5 ns RETURN Fresh(r.value AS value)""",
    """EVENT SEQ(Reading+ r[], Probe p) USING skip-till-next-match WHERE [sensor] AND r[i].value > r[i-1].value WITHIN 9 ns
       RETURN Rise(p.sensor AS sensor, count(r) AS count, sum(r[].value) AS total)""",
    """EVENT SEQ(Reading a, Reading+ b[]) USING strict-contiguity WHERE [sensor] AND b[i].value <= a.value WITHIN 12 ns
       RETURN Fall(a.sensor AS sensor, count(b) AS count)""",
    """EVENT SEQ(ANY(Reading, Probe) x, Probe p) USING skip-till-next-match WHERE x.value / (p.value - 4) > 1 WITHIN 5 ns
       RETURN Near(x.value / (p.value - 4) AS share)""",
]


@cache
def _query(text: str, types: tuple[type[Event], ...]) -> SequenceQuery:
    return SequenceQuery(text, types)


def of_sequences(rng: Random) -> Deployed:
    """One or two queries over raw events."""
    chosen = rng.sample(QUERIES, rng.randint(1, 2))
    return {f"Query{number}": _query(text, (Reading, Probe)) for number, text in enumerate(chosen)}


# -- FlinkCQL ---------------------------------------------------------------------------------------------------------

SCRIPTS = [
    """SELECT sensor, count(*) AS n, sum(value) AS total FROM Reading [SIZE 6 ns EVERY 2 ns] WHERE value <> 3
       GROUP BY sensor INTO Bar""",
    """SELECT sensor, count(*) AS n FROM Reading [SIZE 9 ns EVERY 3 ns] GROUP BY sensor INTO Bar""",
    """SELECT sensor, avg(value) AS mean FROM Reading [SIZE 3 EVERY 2] GROUP BY sensor INTO Bar EXECUTE TIME DRIVEN""",
    """SELECT max(value) AS top, median(value) AS middle FROM Reading [SIZE 4 PARTITIONED BY sensor]
       INTO Bar EXECUTE BATCH DRIVEN""",
    """SELECT first(value) AS one, last(value) AS other FROM Reading [DELTA 3 ON value] INTO Bar""",
    """SELECT r.sensor AS sensor, r.value AS value, p.value AS other FROM Reading AS r [SIZE 5 ns EVERY 1]
       JOIN Probe AS p [SIZE 3 ns EVERY 1] ON r.sensor = p.sensor AND r.value > p.value INTO Both""",
    """SELECT r.sensor AS sensor, p.value AS other FROM Reading AS r [SIZE 6 ns EVERY 3 ns]
       JOIN Probe AS p [SIZE 3 ns EVERY 3 ns] ON r.value = p.value INTO Both""",
    """ON Reading INSERT INTO Few SELECT sensor, value * 2 AS part WHERE value < 4
                  INSERT INTO Many SELECT sensor, 10 / value AS part;
       MERGE Few, Many INTO Both""",
    """SELECT sensor, sum(value) AS total FROM Reading [SIZE 6 ns EVERY 3 ns] GROUP BY sensor HAVING count(*) > 1
       ORDER BY total DESC, sensor LIMIT 2 INTO Best""",
    """SELECT DISTINCT value FROM Reading [SIZE 5 ns] ORDER BY value LIMIT 3 INTO Kinds""",
    """SELECT sensor, count(*) AS n, window_start FROM SESSION(TABLE Reading PARTITION BY sensor, DESCRIPTOR(ts), 2 ns)
       GROUP BY window_start, window_end, sensor INTO Busy""",
    """SELECT sensor, value, sum(value) OVER (PARTITION BY sensor ORDER BY ts ROWS 2 PRECEDING) AS total,
              lag(value) OVER (PARTITION BY sensor ORDER BY ts) AS before FROM Reading INTO Seen""",
    """SELECT value, count(*) OVER (ORDER BY ts RANGE INTERVAL '4' ns PRECEDING) AS n FROM Reading WHERE value > 2 INTO Rate""",
    """SELECT r.sensor AS sensor, r.value AS value, p.value AS other FROM Reading AS r [SIZE 6 ns EVERY 3 ns]
       LEFT JOIN Probe AS p [SIZE 4 ns EVERY 2 ns] ON r.sensor = p.sensor INTO Maybe""",
    """SELECT sensor, count(*) AS n, sum(r.value) AS total FROM Reading AS r [SIZE 6 ns EVERY 3 ns]
       FULL JOIN Probe AS p [SIZE 6 ns EVERY 3 ns] USING sensor GROUP BY sensor INTO Sums""",
    """SELECT * FROM Reading MATCH_RECOGNIZE (PARTITION BY sensor ORDER BY ts
           MEASURES FIRST(A.value) AS low, LAST(B.value) AS high, count(*) AS n
           PATTERN (A B+) WITHIN 7 ns DEFINE B AS value > PREV(value)) INTO Rises""",
    """SELECT sensor, count(*) AS n FROM Probe [SIZE 5 ns] GROUP BY sensor INTO Counts;
       SELECT c.sensor AS sensor, c.n AS n, r.value AS value FROM Counts AS c [SIZE 8 ns EVERY 1]
       JOIN Reading AS r [SIZE 8 ns EVERY 1] ON c.n = r.value INTO Hits""",
]


@cache
def _script(text: str, types: tuple[type[Event], ...]) -> Deployed:
    return named(compile_cql(text, types).operators)


def of_cql(rng: Random) -> Deployed:
    """A script over raw events."""
    return _script(rng.choice(SCRIPTS), (Reading, Probe))


# -- flows ------------------------------------------------------------------------------------------------------------


class Counting(Event):
    sensor: int
    value: int
    cause: tuple[int | str, ...] = ()


class Item(NamedTuple):
    sensor: int
    value: int


class Mark(NamedTuple):
    sensor: int
    value: int


def items(event: Any) -> list[Item]:
    return [Item(event.sensor, event.value)] * (event.value % 3)


def running(state: int | None, item: Item) -> tuple[int, list[tuple[int, int]]]:
    state = ((state or 0) * 7 + 10 // (item.value - 4)) % 50
    return state, [(item.sensor, state)] if state % 3 else []


def weighed(group: tuple[Item, ...]) -> list[tuple[int, int]]:
    return [(group[-1].sensor, sum(place * item.value for place, item in enumerate(group, 1)))]


def marked(group: tuple[Any, ...]) -> list[Mark]:
    if isinstance(group[-1], Mark):
        return []
    before = group[0].value if isinstance(group[0], Mark) else 0
    return [Mark(group[-1].sensor, (before * 3 + group[-1].value) % 101)]


def _folded() -> Flow:
    flow = Flow("folded")
    flow.source(Reading).map(items).stateful(running, key=lambda item: item.sensor).sink(Counting)
    return flow


def _grouped() -> Flow:
    flow = Flow("grouped")
    both = flow.source(Reading).union(flow.source(Probe))
    both.map(items).group(lambda item: item.sensor, window=3).map(weighed).sink(Counting)
    return flow


def _circling() -> Flow:
    flow = Flow("circling")
    cycle = flow.cycle(gives=Mark)
    found = flow.source(Reading).map(items).union(cycle).group(lambda item: item.sensor, window=2).map(marked, gives=Mark)
    cycle.close(found)
    found.sink(Counting)
    return flow


FLOWS: list[Callable[[], Flow]] = [_folded, _grouped, _circling]


def of_flows(rng: Random) -> Deployed:
    """A flow in one or two parts."""
    return dict(rng.choice(FLOWS)().operators(rng.choice([1, 1, 2])))


# -- one on the other -------------------------------------------------------------------------------------------------


def _windows_on_levels(rng: Random) -> Deployed:
    windows = Windows(
        (Low, High),
        rng.choice(KINDS),
        {"count": COUNT, "total": (SUM.of(int), "total"), "share": (LAST, "total")},
        key="sensor",
        result=Held,
        emit=rng.choice(["close", "change"]),
    )
    return named([windows, Watches()])


def _sequence_on_levels(rng: Random) -> Deployed:
    text = "EVENT SEQ(Low a, !(Probe p), High b) WHERE [sensor] WITHIN 7 ns RETURN Turn(a.total AS low, b.total AS high)"
    return {"Turns": _query(text, (Low, High, Probe))}


LEVEL_SCRIPTS = [
    "SELECT sensor, max(total) AS top FROM Low [SIZE 8 ns EVERY 2 ns] GROUP BY sensor INTO Tops",
    """MERGE Low, High INTO Levels;
       SELECT l.total AS total, r.value AS value FROM Levels AS l [SIZE 3 ns EVERY 1]
       JOIN Reading AS r [SIZE 3 ns EVERY 1] ON l.sensor = r.sensor INTO Both""",
]


def _script_on_levels(rng: Random) -> Deployed:
    return _script(rng.choice(LEVEL_SCRIPTS), (Low, High, Reading))


def a_tower(rng: Random) -> Deployed:
    """Operators over events that a detector derives, whose type and content are revised."""
    return named([Level()]) | rng.choice([_windows_on_levels, _sequence_on_levels, _script_on_levels])(rng)
