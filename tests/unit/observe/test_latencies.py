"""Latencies by batch: what is counted when, against the plain account of every single result."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Batch, Delta
from middleware.model.event import END, Event
from middleware.model.time import MILLISECOND, SECOND
from middleware.runtime.latencies import BOUNDS, MOST_OPEN, Histogram, Latencies, Latency


class Hit(Event):
    text: str = ""


def hit(ts: int, number: int = 0) -> Hit:
    return Hit(ts=ts, id=number, source="d")


def batch(clock: int, watermark: int | None = None, **delta: Any) -> Batch:
    return Batch({"Hit": Delta(**delta)} if delta else {}, {"Hit": watermark} if watermark is not None else {}, clock)


def test_a_histogram_counts_by_bucket_and_beyond() -> None:
    histogram = Histogram()
    for duration in (-5, 0, MILLISECOND, MILLISECOND + 1, 300 * SECOND, 301 * SECOND):
        histogram.add(duration)
    assert histogram.counts[:2] == [3, 1], "bounds belong to their bucket; before its time is at once"
    assert histogram.counts[-2:] == [1, 1]
    assert len(histogram.counts) == len(BOUNDS) + 1
    assert histogram.sum == 601 * SECOND + 2 * MILLISECOND + 1


def test_early_stayed_and_final_of_results_of_which_one_is_withdrawn_and_one_revised() -> None:
    latencies = Latencies()
    latencies.publish(batch(10 * SECOND, inserts=[hit(9 * SECOND, 1)]))
    latencies.publish(batch(11 * SECOND, inserts=[hit(10 * SECOND, 2)]))
    latencies.publish(batch(12 * SECOND, retracts=[hit(9 * SECOND, 1)]))
    latencies.publish(batch(14 * SECOND, revises=[(hit(10 * SECOND, 2), hit(10 * SECOND, 2))]))
    latency = latencies.by_type["Hit"]
    assert (latency.early.sum, sum(latency.early.counts)) == (6 * SECOND, 3)
    assert sum(latency.stayed.counts) == 0, "nothing is final"
    latencies.publish(batch(20 * SECOND, watermark=10 * SECOND - 1))
    assert sum(latency.final.counts) == 0
    latencies.publish(batch(20 * SECOND, watermark=10 * SECOND))
    assert (latency.stayed.sum, sum(latency.stayed.counts)) == (4 * SECOND, 1), "the revision is what stayed"
    assert (latency.final.sum, sum(latency.final.counts)) == (10 * SECOND, 1)


def test_without_a_clock_there_is_no_latency() -> None:
    latencies = Latencies()
    latencies.publish(Batch({"Hit": Delta([hit(5)])}, {"Hit": END}, None))
    assert latencies.by_type == {}


steps = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "retract", "revise", "watermark"]), st.integers(0, 50), st.integers(0, 9)),
    max_size=60,
)


@settings(max_examples=140, deadline=None)
@given(steps)
def test_results_one_by_one_are_counted_as_each_by_itself(steps: list[tuple[str, int, int]]) -> None:
    """Steps of one result each, at distinct times: then the account by batch is the exact one."""
    latencies, provisional, clock, watermark = Latencies(), dict[int, int](), 0, -1
    early, stayed, final = [], [], []
    for what, ts, pause in steps:
        clock = max(clock, ts) + pause
        if what == "insert" and ts > watermark and ts not in provisional:
            latencies.publish(batch(clock, inserts=[hit(ts)]))
            provisional[ts] = clock - ts
            early.append(clock - ts)
        elif what in ("retract", "revise") and ts in provisional:
            changes: dict[str, Any] = {"retracts": [hit(ts)]} if what == "retract" else {"revises": [(hit(ts), hit(ts))]}
            latencies.publish(batch(clock, **changes))
            del provisional[ts]
            if what == "revise":
                provisional[ts] = clock - ts
                early.append(clock - ts)
        elif what == "watermark":
            watermark = max(watermark, ts)
            latencies.publish(batch(clock, watermark=watermark))
            for each in sorted(provisional):
                if each <= watermark:
                    stayed.append(provisional.pop(each))
                    final.append(clock - each)
    found = latencies.by_type.get("Hit", Latency())
    for histogram, durations in ((found.early, early), (found.stayed, stayed), (found.final, final)):
        expected = Histogram()
        for duration in durations:
            expected.add(duration)
        assert histogram == expected


@pytest.mark.parametrize("seed", range(5))
def test_of_many_results_a_step_all_are_counted_and_the_mean_of_what_stayed_is_close(seed: int) -> None:
    """Half of all results are corrected, some of them again and again."""
    random, latencies = Random(seed), Latencies()
    provisional, stayed, clock, watermark = dict[int, int](), list[int](), 0, -1
    for _ in range(80):
        clock += random.randrange(50)
        new = [ts for ts in range(max(watermark + 1, clock - 60), clock) if ts not in provisional and random.random() < 0.5]
        changed = sorted(ts for ts in provisional if random.random() < 0.15)
        revised = [ts for ts in changed if random.random() < 0.5]
        for ts in set(changed) - set(revised):
            del provisional[ts]
        provisional |= {ts: clock - ts for ts in (*revised, *new)}
        delta = Delta(
            [hit(ts) for ts in new], [(hit(ts), hit(ts)) for ts in revised], [hit(ts) for ts in changed if ts not in revised]
        )
        watermark = max(watermark, clock - 80)
        latencies.publish(Batch({"Hit": delta}, {"Hit": watermark}, clock))
        stayed += [provisional.pop(ts) for ts in sorted(provisional) if ts <= watermark]
    latencies.publish(batch(clock, watermark=END))
    stayed += provisional.values()
    found = latencies.by_type["Hit"]
    assert sum(found.stayed.counts) == sum(found.final.counts) == len(stayed) > 500
    assert found.stayed.sum / len(stayed) == pytest.approx(sum(stayed) / len(stayed), rel=0.03)


def test_a_type_without_watermarks_holds_a_bounded_number_of_batches_and_loses_no_result() -> None:
    latencies = Latencies()
    for ts in range(3 * MOST_OPEN):
        latencies.publish(batch(ts, inserts=[hit(ts, 1), hit(ts, 2)]))
    assert latencies.held("Hit") <= MOST_OPEN
    latencies.publish(batch(3 * MOST_OPEN, watermark=END))
    assert sum(latencies.by_type["Hit"].final.counts) == 6 * MOST_OPEN
    assert not latencies.held("Hit")
