"""Shards give the finals of the oracle, whatever comes when, and however often they are put away and taken up again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import chain
from random import Random
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from detectors.window import COUNT, SUM, Hopping, Tumbling, Windows
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError, StateError
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event, type_name
from middleware.runtime.engine import run
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.by_value import dump_by_value
from middleware.spark.schemas import schema_of
from middleware.spark.spark_hash import hash_of
from middleware.spark.stream import explain
from middleware.spark.stream.parcels import ParcelBatch, arrived, of_results
from middleware.spark.stream.processor import HashRaw, StageProcessor
from middleware.spark.stream.shard import OutputRow, Shard
from middleware.spark.stream.stages import StreamPlan
from middleware.testing.oracle import oracle
from tests.property.spark.test_archive import Again, Both, ByHue, Count, Gather, Ping, Pong, Seen, Told, Total, pings

WINDOWS = Windows(Ping, Hopping(7, 3), {"n": COUNT, "ports": (SUM, "port")}, key="host", result=Total, name="Totals")
KEYED: list[Detector] = [Count(), Again(), WINDOWS]


class Pongs(Detector):
    """Publishes what ``Again`` reads, so that two levels are in one shard, and stamps it back in time."""

    subscribes, publishes, key, backdate = (Ping,), (Pong,), "host", 4

    def __init__(self) -> None:
        self.number = 0

    def on_event(self, ping: Ping) -> Pong:
        self.number += ping.port + 1
        return Pong(ping.host, self.number, ts=ping.ts - 4)


KEYED += [Pongs(), Windows((Ping, Pong), Tumbling(10), {"n": COUNT}, key="host", name="Numbers")]


class Tops(Detector):
    """Without a key, over raw events and results of two levels: it sees all hosts."""

    subscribes, publishes = (Ping, Pong, Told, Total), (Seen,)

    def __init__(self) -> None:
        self.sum = 0

    def on_event(self, event: Ping | Pong | Told | Total) -> Seen | None:
        self.sum = (self.sum * 7 + event.ts) % 1_009
        return Seen(event.host, self.sum % 3, self.sum, ts=event.ts) if self.sum % 2 else None


class Back(Detector):
    """Publishes what ``Tops`` does, in a lower stage, and back in time."""

    subscribes, publishes, key, backdate = (Ping,), (Seen,), "host", 20

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, ping: Ping) -> Seen | None:
        self.last += ping.port
        return Seen(ping.host, self.last % 3, self.last, ts=ping.ts - 20) if self.last % 2 else None


class ByPort(Detector):
    """By another field than those below, of which it reads results."""

    subscribes, publishes, key = (Ping, Seen), (Both,), "port"

    def __init__(self) -> None:
        self.seen: tuple[int, ...] = ()

    def on_event(self, event: Ping | Seen) -> Both:
        self.seen = (*self.seen[-2:], event.ts)
        return Both(event.host, self.seen, ts=event.ts)


STAGED: list[Detector] = [*KEYED[1:], Back(), Tops(), ByPort()]


def planned(shards: int, lateness: int = 1_000, finals: bool = False, detectors: list[Detector] = KEYED) -> StreamPlan:
    return StreamPlan.of(ArchivePlan.of(detectors), shards, lateness, finals)


class Value:
    """A value, or a map, in a state store that is none."""

    def __init__(self) -> None:
        self.held: dict[Any, Any] = {}

    def get(self) -> Any:
        return self.held.get(())

    def update(self, value: Any) -> None:
        self.held[()] = value

    def updateValue(self, key: Any, value: Any) -> None:
        self.held[key] = value

    def removeKey(self, key: Any) -> None:
        del self.held[key]

    def iterator(self) -> Iterator[Any]:
        return iter(list(self.held.items()))


class Handle:
    """What a processor gets its state from."""

    def __init__(self) -> None:
        self.states: dict[str, Value] = {}

    def state(self, name: str, *_: Any) -> Value:
        return self.states.setdefault(name, Value())

    getValueState = getMapState = state


def streamed(plan: StreamPlan, batches: Iterable[tuple[list[Event], int]], rng: Random | None = None) -> list[list[OutputRow]]:
    """The rows of each micro-batch, given with its raw events and its watermark, as the executors' part makes them of it.

    Between stages, parcels are mixed up. Every micro-batch is done twice, as if a task had been lost: with equal results.
    """
    rng, code = rng or Random(1), dump_by_value(plan)
    handles: dict[tuple[int, int], Handle] = {}
    rows: list[list[OutputRow]] = []
    for events, watermark in batches:
        frame = pd.concat([hashed(plan, code, number, events, watermark) for number in range(len(plan.plan.raw))])
        for stage in range(1, plan.stages + 1):
            out = []
            for shard in sorted(set(frame["shard"])):
                own = frame[frame["shard"] == shard]
                handle, lost = handles.setdefault((stage, shard), Handle()), deepcopy(handles[stage, shard])
                found = processed(code, stage, shard, own.sample(frac=1, random_state=rng.randrange(99)), handle)
                again = processed(code, stage, shard, own, lost)
                assert not is_own(plan, shard, stage) or found.equals(again)
                out.append(found)
            frame = pd.concat(out)
        rows.append([OutputRow(*row) for row in frame.itertuples(index=False, name=None)])
    return rows


def is_own(plan: StreamPlan, shard: int, stage: int) -> bool:
    return hash_of(shard) >= 0 and plan.group_of(hash_of(shard)).stage == stage


def hashed(plan: StreamPlan, code: bytes, number: int, events: list[Event], watermark: int) -> pd.DataFrame:
    """The parcels of raw events of one type, of two tasks, one of which has no rows."""
    event_type = plan.plan.raw[number]
    batch = schema_of(event_type).batch([event for event in events if type(event) is event_type])
    batch = batch.append_column("watermark", pa.nulls(len(batch), pa.int64()))
    end = pa.RecordBatch.from_pylist([{"watermark": watermark}] if watermark != NEVER else [], batch.schema)
    task = HashRaw(code, plan.plan.types.index(event_type))
    return pa.Table.from_batches([*task(iter([batch, end])), *task(iter([]))]).to_pandas()


def processed(code: bytes, stage: int, shard: int, frame: pd.DataFrame, handle: Handle) -> pd.DataFrame:
    processor = StageProcessor(code, stage)
    processor.init(handle)
    return pd.concat(list(processor.handleInputRows((shard,), iter([frame]), None)))


def events_of(plan: StreamPlan, rows: Iterable[OutputRow]) -> list[Event]:
    found = [msgspec.msgpack.decode(row.body, type=plan.types[row.type]) for row in rows]
    return sorted(found, key=ORDER)


def netted(plan: StreamPlan, rows: list[OutputRow]) -> list[Event]:
    present: dict[tuple[str, int], OutputRow] = {}
    for row in rows:
        if row.op in ("insert", "revise"):
            assert ((row.source, row.id) in present) == (row.op == "revise")
            present[row.source, row.id] = row
        elif row.op == "retract":
            del present[row.source, row.id]
    return events_of(plan, present.values())


def late(micro_batches: list[tuple[list[Event], int]], rows: list[list[OutputRow]]) -> dict[str, set[tuple[str, int]]]:
    """The events that were late when they came first, by detector; a repeat of one that was taken may be late, too."""
    found: dict[str, set[tuple[str, int]]] = {}
    known: set[tuple[str, int]] = set()
    for (came, _), output in zip(micro_batches, rows, strict=True):
        for row in output:
            if row.op == "late" and (row.source, row.id) not in known:
                found.setdefault(msgspec.json.decode(row.fields)["detector"], set()).add((row.source, row.id))
        known.update(map(IDENTITY, came))
    return found


@settings(max_examples=20, deadline=None)
@given(pings(), st.integers(4, 12), st.sampled_from([1, 3]), st.sampled_from([3, 1_000]), st.booleans())
def test_shards_give_the_finals_of_the_oracle(events: list[Event], size: int, shards: int, lateness: int, finals: bool) -> None:
    check(planned(shards, lateness, finals), KEYED, events, size, finals)


@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(st.randoms(use_true_random=False), st.integers(4, 12), st.sampled_from([3, 1_000]), st.booleans())
def test_stages_give_the_finals_of_the_oracle(rng: Random, size: int, lateness: int, finals: bool) -> None:
    plan = planned(3, lateness, finals, STAGED)
    assert [(group.by, len(group.shards)) for group in plan.groups] == [("host", 3), (None, 1), ("port", 3)]
    events: list[Event] = [
        Ping(rng.choice("abcde"), rng.randrange(4), ts=rng.randrange(45), id=number, source=f"s{number % 3}")
        for number in range(45)
    ]
    check(plan, STAGED, events, size, finals)


def check(plan: StreamPlan, detectors: list[Detector], events: list[Event], size: int, finals: bool) -> None:
    """Hold what comes of the events, so many a micro-batch, some of them again in the next one, against the oracle."""
    batches = [(events[max(at - 3, 0) : at + size], NEVER) for at in range(0, len(events), size)]
    batches.append((events[:3], END))
    outputs = streamed(plan, batches)
    rows = list(chain(*outputs))
    assert all(row.level == 0 for row in rows if row.op == "late")
    left_out = late(batches, outputs)
    expected = sorted((e for some in oracle(events, detectors, left_out).values() for e in some), key=ORDER)
    found = events_of(plan, [row for row in rows if row.op == "final"]) if finals else netted(plan, rows)
    assert found == expected


@pytest.mark.parametrize("hosts", [500, 3_000])
def test_only_lanes_that_have_changed_are_written(hosts: int) -> None:
    plan = planned(1)
    shard = Shard(plan, 0)
    shard.take(ParcelBatch([Ping(f"h{number}", 1, ts=1, id=number, source="s") for number in range(hosts)]))
    base, buckets = shard.state()
    again = Shard(plan, 0)
    again.restore(base, buckets)
    again.state()  # what has changed is written once more: pickles differ in what they share until they were read
    again.take(ParcelBatch([Ping("h7", 1, ts=2, id=10_000, source="s")]))
    _, changed = again.state()
    assert len(buckets) > hosts // 10
    assert 1 <= len(changed) <= 4
    assert sum(map(len, changed.values())) < sum(map(len, buckets.values())) / 20  # one blob would be all of it


def test_a_clash_is_a_row_and_a_repeat_is_none() -> None:
    first = Ping("a", 1, ts=1, id=1, source="s")
    others: list[Event] = [Ping("a", 2, ts=1, id=1, source="s"), Ping("a", 1, ts=2, id=1, source="s")]
    rows = list(chain(*streamed(planned(1), [([first], NEVER), ([first, *others], NEVER), ([], END)])))
    assert events_of(planned(1), [row for row in rows if row.op == "clash"]) == sorted(others, key=ORDER)
    assert netted(planned(1), rows) == sorted((e for some in oracle([first], KEYED).values() for e in some), key=ORDER)


class Size(Event):
    size: float


class Root(Size):
    pass


class Passed(Size):
    pass


class Sizes(Detector):
    """Some of its results have no key for who reads them."""

    subscribes, publishes, key = (Size,), (Root,), "size"

    def on_event(self, event: Size) -> Root:
        return Root(event.size if event.size < 5 else math.nan, ts=event.ts)


class Passes(Detector):
    """Without a key, so that it, and who reads it, are in stages of their own."""

    subscribes, publishes = (Root,), (Passed,)

    def on_event(self, event: Root) -> Passed:
        return Passed(event.size, ts=event.ts)


class Counts(Detector):
    subscribes, publishes, key = (Root, Passed), (Seen,), "size"

    def __init__(self) -> None:
        self.number = 0

    def on_event(self, event: Size) -> Seen:
        self.number += 1
        return Seen("a", int(event.size), self.number, ts=event.ts)


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("detectors", [[Sizes(), Counts()], [Sizes(), Passes(), Counts()]], ids=len)
def test_what_cannot_be_a_key_is_reported_and_costs_nothing_else(shards: int, detectors: list[Detector]) -> None:
    sizes = [1.0, math.nan, 2.0, 6.0, 7.0, -0.0, 1.0, 0.0]
    events: list[Event] = [Size(size, ts=number, id=number, source="s") for number, size in enumerate(sizes)]
    plan = planned(shards, detectors=detectors, finals=True)
    rows = list(chain(*streamed(plan, [(events[:5], NEVER), (events[5:], NEVER), ([], END)])))
    found = run(events, detectors, failing="skip")
    failed = [failure.event.ts for failures in found.failures.values() for failure in failures]
    assert sorted(row.ts for row in rows if row.op == "failed") == sorted(failed) != []
    finals = events_of(plan, [row for row in rows if row.op == "final"])
    assert repr(finals) == repr(sorted(chain(*found.finals.values()), key=ORDER))


def test_a_checkpoint_of_another_version_is_refused() -> None:
    plan = planned(1)
    base, buckets = Shard(plan, 0).state()
    _, *rest = decode_state(base, plan.types)
    with pytest.raises(StateError, match="of another version of Slackline"):
        Shard(plan, 0).restore(encode_state(("1", *rest), plan.types), buckets)


def test_a_checkpoint_of_another_layout_is_refused() -> None:
    base, buckets = Shard(planned(3), 0).state()
    with pytest.raises(StateError, match="of a stream by host in 3 shards, this one is in 1 shard: start it as it was"):
        Shard(planned(1), 0).restore(base, buckets)


def test_a_shard_takes_rounds_one_after_another() -> None:
    plan = planned(3, detectors=STAGED)
    sent = [Seen("a", 1, count, ts=count, id=count, source="Back", level=1) for count in (1, 2, 3)]
    moved = Seen("a", 2, 3, ts=3, id=3, source="Back", level=1)
    deltas = Delta(sent), Delta(retracts=sent[:1]), Delta(sent[:1], [(sent[2], moved)])
    first, *others = (Batch({type_name(Seen): delta}) for delta in deltas)
    stored: dict[int, tuple[bytes, dict[int, bytes]]] = {}
    rows: list[OutputRow] = []
    ports = next(group for group in plan.groups if group.by == "port")
    for batches in ([first], others):
        parcels = list(of_results(plan, 0, batches, {type_name(Seen): NEVER}))
        assert {parcel.shard for parcel in parcels} == set(ports.shards)
        for number in ports.shards:
            shard = Shard(plan, number)
            if number in stored:
                shard.restore(*stored[number])
            rows += shard.take(arrived(plan, [parcel for parcel in parcels if parcel.shard == number][::-1]))
            stored[number] = shard.state()
    assert [event.seen for event in netted(plan, rows) if isinstance(event, Both)] == [(1,), (1, 2), (3,)]
    assert [row.ts for row in rows if row.op == "retract"].count(1) == 1  # after the first round, before the second


def test_detectors_of_which_none_has_a_key_are_not_put_into_shards() -> None:
    detectors: list[Detector] = [ByHue(), Gather()]
    assert len(planned(1, detectors=detectors).groups) == 1
    with pytest.raises(DetectorError, match="no detector has a key of fields, so 2 shards are of no use"):
        planned(2, detectors=detectors)


def test_the_stages_are_explained() -> None:
    assert explain([Count(), ByHue(), Gather(), Again()], 2) == [
        "stage 1, in 1 shard: ByHue (reads Ping)",
        "stage 1, by host in 2 shards: Count (reads Ping)",
        "stage 2, in 1 shard: Gather (reads Seen, Both)",
        "stage 3, by host in 2 shards: Again (reads Ping, Pong)",
    ]


def test_without_lateness_results_are_final_behind_the_newest_event() -> None:
    """A lateness of nothing at all would mean: nothing is final before a delay is seen."""
    assert planned(1, lateness=0).policies.lateness.of(0) == 1
    assert planned(1, lateness=7).policies.lateness.of(0) == 7
