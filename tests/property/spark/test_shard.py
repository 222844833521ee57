"""Shards give the finals of the oracle, whatever comes when, and however often they are put away and taken up again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.window import COUNT, SUM, Hopping, Windows
from middleware.durability.encoding import decode_state, encode_state
from middleware.model.detector import Detector
from middleware.model.errors import StateError
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event
from middleware.spark.archive.plan import Plan
from middleware.spark.stream.shard import Row, Shard, StreamPlan, common_key
from middleware.testing.oracle import oracle
from tests.property.spark.test_archive import Again, Count, Gather, Ping, Pong, Total, pings

WINDOWS = Windows(Ping, Hopping(7, 3), {"n": COUNT, "ports": (SUM, "port")}, key="host", result=Total, name="Totals")
KEYED: list[Detector] = [Count(), Again(), WINDOWS]


class Pongs(Detector):
    """Publishes what ``Again`` reads, so that two levels are in one shard."""

    subscribes, publishes, key = (Ping,), (Pong,), "host"

    def __init__(self) -> None:
        self.number = 0

    def on_event(self, ping: Ping) -> Pong:
        self.number += ping.port + 1
        return Pong(ping.host, self.number, ts=ping.ts)


KEYED += [Pongs()]


def planned(shards: int, lateness: int = 1_000, finals: bool = False) -> StreamPlan:
    plan = Plan.of(KEYED)
    assert common_key(plan.detectors.values()) == "host"
    return StreamPlan(plan, "host" if shards > 1 else None, shards, lateness, finals)


def streamed(plan: StreamPlan, batches: Iterable[tuple[list[Event], int]]) -> list[Row]:
    """The rows of all shards; each is put away after each batch, as Spark does it."""
    stored: dict[int, tuple[bytes, dict[int, bytes]]] = {}
    rows: list[Row] = []
    for events, watermark in batches:
        for number in range(plan.shards):
            own = [event for event in events if plan.shard_of(event) == number]
            if not own and watermark == NEVER:
                continue
            shard = Shard(plan, number)
            base, buckets = stored.get(number, (b"", {}))
            if base:
                shard.restore(base, buckets)
            rows += shard.take(own, watermark)
            base, changed = shard.state()
            kept = {bucket: data for bucket, data in (buckets | changed).items() if data}
            stored[number] = base, kept
    return rows


def events_of(plan: StreamPlan, rows: Iterable[Row]) -> list[Event]:
    found = [msgspec.msgpack.decode(row.body, type=plan.types[row.type]) for row in rows]
    return sorted(found, key=ORDER)


def netted(plan: StreamPlan, rows: list[Row]) -> list[Event]:
    standing: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row.op in ("insert", "revise"):
            assert ((row.source, row.id) in standing) == (row.op == "revise")
            standing[row.source, row.id] = row
        elif row.op == "retract":
            del standing[row.source, row.id]
    return events_of(plan, standing.values())


def late(rows: list[Row], came: list[Event]) -> dict[str, set[tuple[str, int]]]:
    """The events that were late each time they came, by detector: a repeat of one that was taken may be late, too."""
    times = Counter(IDENTITY(event) for event in came)
    told = [(msgspec.json.decode(row.fields)["detector"], row.source, row.id) for row in rows if row.op == "late"]
    found: dict[str, set[tuple[str, int]]] = {}
    for (detector, *identity), count in Counter(told).items():
        if count == times[identity[0], identity[1]]:
            found.setdefault(detector, set()).add((identity[0], identity[1]))
    return found


@settings(max_examples=20, deadline=None)
@given(pings(), st.integers(4, 12), st.sampled_from([1, 3]), st.sampled_from([3, 1_000]), st.booleans())
def test_shards_give_the_finals_of_the_oracle(events: list[Event], size: int, shards: int, lateness: int, finals: bool) -> None:
    plan = planned(shards, lateness, finals)
    batches = [(events[at : at + size], NEVER) for at in range(0, len(events), size)]
    rows = streamed(plan, [*batches, (events[:3], END)])
    left_out = late(rows, [*events, *events[:3]])
    expected = sorted((e for some in oracle(events, KEYED, left_out).values() for e in some), key=ORDER)
    found = events_of(plan, [row for row in rows if row.op == "final"]) if finals else netted(plan, rows)
    assert found == expected


@pytest.mark.parametrize("hosts", [500, 3_000])
def test_only_lanes_that_have_changed_are_written(hosts: int) -> None:
    plan = planned(1)
    shard = Shard(plan, 0)
    shard.take([Ping(f"h{number}", 1, ts=1, id=number, source="s") for number in range(hosts)])
    base, buckets = shard.state()
    again = Shard(plan, 0)
    again.restore(base, buckets)
    again.state()  # what has changed is written once more: pickles differ in what they share until they were read
    again.take([Ping("h7", 1, ts=2, id=10_000, source="s")])
    _, changed = again.state()
    assert len(buckets) > hosts // 10
    assert 1 <= len(changed) <= 4
    assert sum(map(len, changed.values())) < sum(map(len, buckets.values())) / 20  # one blob would be all of it


def test_a_clash_is_a_row_and_a_repeat_is_none() -> None:
    first = Ping("a", 1, ts=1, id=1, source="s")
    others: list[Event] = [Ping("a", 2, ts=1, id=1, source="s"), Ping("a", 1, ts=2, id=1, source="s")]
    rows = streamed(planned(1), [([first], NEVER), ([first, *others], NEVER), ([], END)])
    assert events_of(planned(1), [row for row in rows if row.op == "clash"]) == sorted(others, key=ORDER)
    assert netted(planned(1), rows) == sorted((e for some in oracle([first], KEYED).values() for e in some), key=ORDER)


def test_a_checkpoint_of_another_version_is_refused() -> None:
    plan = planned(1)
    base, buckets = Shard(plan, 0).state()
    (_, *layout), *rest = decode_state(base, plan.types)
    with pytest.raises(StateError, match="of another version of Slackline"):
        Shard(plan, 0).restore(encode_state((("1", *layout), *rest), plan.types), buckets)


def test_a_checkpoint_of_another_layout_is_refused() -> None:
    base, buckets = Shard(planned(3), 0).state()
    with pytest.raises(StateError, match="by host in 3 shards, this one is by None in 1"):
        Shard(planned(1), 0).restore(base, buckets)


def test_detectors_without_a_common_key_have_none() -> None:
    assert common_key([Count(), Gather()]) is None
