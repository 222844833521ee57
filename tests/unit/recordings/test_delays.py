"""Delay models: text form, bounds, and the same bytes for the same seed however the rows are cut."""

import numpy as np
import pytest

from middleware.model.errors import TraceError
from middleware.recordings.prepare.delays import Constant, Delays, Lognormal, Nanoseconds, Uniform, parse_delays, parse_model

MS = 1_000_000
TEXTS = [
    "constant(3ms)",
    "uniform(5ms, 250ms, spread=0.5)",
    "lognormal(median=20ms, sigma=0.8, max=900ms)",
    "bursts(base=10ms, burst=600ms, every=5s, length=200ms, fifo=true)",
]


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.arange(count, dtype=np.int64)
    return ids * 5 * MS + 7, ids


@pytest.mark.parametrize("text", TEXTS)
def test_text_form_survives_a_round_trip(text: str) -> None:
    model = parse_model(text)
    assert parse_model(str(model)) == model


@pytest.mark.parametrize("text", TEXTS)
def test_the_cut_and_the_order_of_rows_do_not_matter(text: str) -> None:
    delays = parse_delays(text, duplicates=0.3, seed=5)
    ts, ids = rows(1_000)
    whole = delays.arrivals("a", ts, ids, {})
    shuffled = np.random.default_rng(0).permutation(1_000)
    assert (delays.arrivals("a", ts[shuffled], ids[shuffled], {}) == whole[shuffled]).all()
    parts = [delays.arrivals("a", ts[i : i + 1], ids[i : i + 1], {}) for i in range(100)]
    assert (np.concatenate(parts) == whole[:100]).all()
    assert (delays.duplicated("a", ids)[shuffled] == delays.duplicated("a", ids[shuffled])).all()


def test_seed_and_source_make_a_difference() -> None:
    ts, ids = rows(100)
    draw = [
        parse_delays("uniform(5ms, 250ms)", seed=seed).arrivals(source, ts, ids, {})
        for seed, source in ((0, "a"), (1, "a"), (0, "b"))
    ]
    assert (draw[0] != draw[1]).any()
    assert (draw[0] != draw[2]).any()


def test_uniform_fills_its_bounds_evenly() -> None:
    ts, ids = rows(20_000)
    delays = Delays(Uniform(low=Nanoseconds(5 * MS), high=Nanoseconds(250 * MS))).arrivals("a", ts, ids, {}) - ts
    assert delays.min() >= 5 * MS
    assert delays.max() <= 250 * MS
    counts, _ = np.histogram(delays, bins=10, range=(5 * MS, 250 * MS))
    assert counts.min() > 1_800
    assert counts.max() < 2_200


def test_lognormal_has_its_median_and_its_maximum() -> None:
    ts, ids = rows(20_000)
    model = Lognormal(median=Nanoseconds(20 * MS), sigma=1.5, max=Nanoseconds(900 * MS))
    delays = Delays(model).arrivals("a", ts, ids, {}) - ts
    assert np.median(delays) == pytest.approx(20 * MS, rel=0.05)
    assert np.std(np.log(delays[delays < 900 * MS])) == pytest.approx(1.5, rel=0.1)
    assert delays.max() == 900 * MS


def test_bursts_hit_a_run_of_events_once_a_period() -> None:
    ts, ids = rows(10_000)  # 50 s at 200 Hz
    delays = parse_delays("bursts(base=10ms, burst=600ms, every=5s, length=200ms)").arrivals("a", ts, ids, {}) - ts
    assert set(delays.tolist()) == {10 * MS, 600 * MS}
    starts = np.flatnonzero(np.diff((delays > 10 * MS).astype(int)) == 1)
    assert len(starts) == 10
    assert np.count_nonzero(delays > 10 * MS) == pytest.approx(10 * 40, abs=10)


def test_overrides_by_source_and_spread() -> None:
    delays = parse_delays("constant(100ms, spread=0.5)", {"sensor-1*": "constant(2s)"})
    ts, ids = rows(3)
    assert (delays.arrivals("sensor-17", ts, ids, {}) - ts == 2_000 * MS).all()
    spread = {int((delays.arrivals(f"sensor-{n}", ts, ids, {}) - ts)[0]) for n in range(20, 60)}
    assert len(spread) == 40
    assert 50 * MS <= min(spread) < 70 * MS
    assert 130 * MS < max(spread) <= 150 * MS


def test_empirical_draws_from_the_samples() -> None:
    delays = parse_delays("empirical(somewhere)")
    ts, ids = rows(3_000)
    samples = np.array([1.0, 5.0, 9.0])
    drawn = delays.arrivals("a", ts, ids, {"somewhere": samples}) - ts
    assert {value: drawn.tolist().count(value) > 900 for value in (1, 5, 9)} == {1: True, 5: True, 9: True}


def test_duplicates_come_as_often_as_asked() -> None:
    _, ids = rows(20_000)
    assert Delays(Constant(delay=Nanoseconds(0)), duplicates=0.14).duplicated("a", ids).mean() == pytest.approx(0.14, abs=0.01)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("gauss(3ms)", "no delay model"),
        ("uniform(5ms)", "needs low, high"),
        ("uniform(5ms, 1ms)", "at least low"),
        ("uniform(5ms, 6ms, 7ms)", "does not fit"),
        ("constant(3)", "no duration"),
        ("constant(-3ms)", "must not be negative"),
        ("constant(3ms, spread=2)", "below 1"),
        ("bursts(base=1ms, burst=2ms, every=1s, length=2s)", "at most every"),
        ("lognormal(median=20ms, sigma=x)", "no value for sigma"),
        ("constant(delay=3ms, delay=4ms)", "does not fit"),
    ],
)
def test_what_is_no_model_is_reported(text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        parse_model(text)


def test_duplicates_must_be_a_probability() -> None:
    with pytest.raises(TraceError, match="probability"):
        parse_delays("constant(1ms)", duplicates=1.5)
