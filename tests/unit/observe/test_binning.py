"""Counts over time show no waves that are not in the events: bins are whole periods of what is periodic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from middleware.model.time import SECOND
from middleware.runtime.local.binning import BINS, binned

LENGTHS = st.integers(1, 10**12)


@given(
    period=st.integers(2, 10 * SECOND),
    count=st.integers(8, 3_000),
    keys=st.integers(1, 12),
    before=st.integers(0, 5 * SECOND),
    after=st.integers(0, 5 * SECOND),
    data=st.data(),
)
def test_periodic_events_are_as_many_in_all_bins_but_the_outer_ones(
    period: int, count: int, keys: int, before: int, after: int, data: st.DataObject
) -> None:
    phases = data.draw(st.lists(st.integers(0, period - 1), min_size=keys, max_size=keys))
    first = data.draw(st.sampled_from([0, 1_700_000_000 * SECOND]))
    times = sorted(first + before + number * period + phase for number in range(count) for phase in phases)
    found = binned(times, (first, times[-1] + after))
    inner = [n for n in found.counts if n][1:-1]
    assert len(set(inner)) <= 1, "the same count wherever events are"
    assert sum(found.counts) == len(times) and len(found.counts) <= BINS + 1


@given(
    period=st.integers(1_000, 10 * SECOND),
    share=st.floats(0, 0.08),
    count=st.integers(50, 100),
    seed=st.randoms(use_true_random=False),
)
def test_a_little_jitter_makes_no_holes(period: int, share: float, count: int, seed: object) -> None:
    times = [number * period + round(period * share * seed.uniform(-1, 1)) for number in range(1, count)]  # type: ignore[attr-defined]
    counts = binned(times, (0, times[-1])).counts
    inside = counts[counts.index(next(filter(None, counts))) : len(counts) - next(at for at, n in enumerate(counts[::-1]) if n)]
    assert min(inside[1:-1], default=1) >= 1


@given(st.lists(st.integers(0, 10**12), max_size=300), LENGTHS)
def test_each_event_is_counted_in_the_bin_of_its_time(times: list[int], more: int) -> None:
    times.sort()
    last = max(times, default=0) + more
    start, width, counts = binned(times, (0, last))
    found = [0] * len(counts)
    for ts in times:
        (at,) = [n for n in range(len(counts)) if start + n * width <= ts < start + (n + 1) * width][:1] or [len(counts) - 1]
        found[at] += 1
    assert sum(abs(one - other) for one, other in zip(found, counts, strict=True)) <= 2, (
        "but for what lies on an edge of floats"
    )
    assert sum(counts) == len(times) and start <= 0 and start + width * len(counts) >= last
