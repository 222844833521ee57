"""All kinds of windows over any history come to what the definitions say (by_definition)."""

import math
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from detectors.cql.partitions import trees
from detectors.cql.query_operators.stepped_queries import can_run
from detectors.cql.query_operators.windowed import WindowedOperation
from middleware.model.event import ORDER, Event
from middleware.model.operator import Operator
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play
from tests.property.cql.by_definition import Extent, Spec, naive_delta, naive_windows


class Tick(Event):
    symbol: str
    price: float
    quantity: int
    at: int


PRICES = st.one_of(st.integers(-4, 4).map(float), st.sampled_from([0.1, 1e15, -1e15, 2.5, -0.0, 1e308, -1e308]))
DRAWN = st.tuples(
    st.sampled_from("AB"), PRICES, st.integers(-3, 9), st.integers(0, 12), st.integers(0, 30), st.sampled_from("xy")
)


def ticks(drawn, first=0):
    return [Tick(s, p, q, at, ts=ts * SECOND, id=n, source=src) for n, (s, p, q, at, ts, src) in enumerate(drawn, first)]


MODELS = {"tuple": "", "time": "EXECUTE TIME DRIVEN", "batch": "EXECUTE BATCH DRIVEN", "by": "EXECUTE BATCH DRIVEN BY quantity"}


def extent(draw, measure):
    amount = draw(st.integers(1, 7))
    if measure == "count":
        return Extent("count", amount), str(amount)
    if measure == "clock":
        return Extent("clock", amount, 1), f"{amount} ON at"
    return Extent("ts", amount * SECOND), draw(st.sampled_from([f"{amount} seconds", f"{amount} ON ts"]))


@st.composite
def specs(draw):
    """A window specification as text, by definition, and what the query says behind it."""
    measures = st.sampled_from(["ts", "count", "clock"])
    landmark = draw(st.integers(0, 4)) == 0
    slide, every = extent(draw, draw(measures))
    size, written = (None, "") if landmark else extent(draw, draw(measures))
    if not landmark and draw(st.integers(0, 2)) == 0:  # tumbling
        slide, every = size, None
    clocked = "clock" in (slide.measure, size.measure if size else "")
    model = draw(st.sampled_from(["tuple"] if clocked else list(MODELS)))
    start = lower = None
    if landmark:
        at = draw(st.none() | st.integers(0, 15))
        lower = None if at is None else at * SECOND if slide.measure != "clock" else at
        text = f"[LANDMARK {'' if at is None else f'AT {at}'} EVERY {every}"
    else:
        text = f"[SIZE {written}" + (f" EVERY {every}" if every else "")
        if slide.measure != "count" and draw(st.booleans()):
            at = draw(st.integers(0, 15))
            start = at * SECOND if slide.measure == "ts" else at
            text += f" STARTING AT {at}"
    by = (lambda e: e.quantity) if model == "by" else None
    kind = "batch" if model == "by" else model
    return text, MODELS[model], Spec(size, slide, kind, start, lower, lambda e: e.at, by)


def summary(values):
    return (len(values), min(values), max(values), values[0].hex(), values[-1].hex())


def expected(events, windows_of, where, grouped):
    """(symbol, ts, numbers) of each window, partition by partition."""
    parts = {}
    for event in events:
        if where is None or event.quantity > where:
            parts.setdefault(event.symbol if grouped else "", []).append(event)
    found = []
    for symbol, part in parts.items():
        for window in windows_of(part):
            found.append((symbol, window.ts, *summary([event.price for event in window.events])))
    return sorted(found)


SELECT = (
    "SELECT {key} count(*) AS n, min(price) AS low, max(price) AS high, first(price) AS opened, last(price) AS closed FROM Tick"
)


def found(results, grouped):
    return sorted((e.symbol if grouped else "", e.ts, e.n, e.low, e.high, e.opened.hex(), e.closed.hex()) for e in results)


HISTORY = {
    "drawn": st.lists(DRAWN, max_size=25),
    "others": st.lists(DRAWN, max_size=8),
    "seed": st.integers(0, 2**32),
    "restarts": st.sets(st.integers(0, 12), max_size=3),
}


pytestmark = pytest.mark.usefixtures("purging")


def run_history(operator, drawn, others, seed, restarts):
    """The results of any history that ends with the drawn ticks, and the ticks."""
    events = ticks(drawn)
    passing = ticks(others, 1000)
    revised = [(Tick("B", 9.0, 5, 3, ts=max(e.ts - 2 * SECOND, 0), id=e.id, source=e.source), e) for e in events[::4]]
    kept = [event for n, event in enumerate(events) if n % 4]
    results = play(operator, history(kept, Random(seed), passing, revised), restarts)
    assert results == play(operator, in_order(events)), "depends on the history"
    return results, events


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(specs(), st.sampled_from([None, 2]), st.booleans(), *HISTORY.values())
def test_windows_come_to_their_definition(spec, where, grouped, drawn, others, seed, restarts):
    text, model, definition = spec
    inside = f" WHERE quantity > {where}" if where is not None else ""
    key, group = ("symbol,", "GROUP BY symbol") if grouped else ("", "")
    script = compile_cql(f"{SELECT.format(key=key)} {text}{inside}] {group} INTO Bar {model}", [Tick])
    results, events = run_history(script.operators[0], drawn, others, seed, restarts)
    assert found(results, grouped) == expected(events, lambda part: naive_windows(part, definition), where, grouped)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 6), st.booleans(), *HISTORY.values())
def test_delta_windows_come_to_their_definition(threshold, grouped, drawn, others, seed, restarts):
    key, group = ("symbol,", "GROUP BY symbol") if grouped else ("", "")
    script = compile_cql(f"{SELECT.format(key=key)} [DELTA {threshold} ON quantity] {group} INTO Bar", [Tick])
    results, events = run_history(script.operators[0], drawn, others, seed, restarts)
    by_definition = lambda part: naive_delta(part, lambda e: e.quantity, threshold)  # noqa: E731
    assert found(results, grouped) == expected(events, by_definition, None, grouped)


def uphill(one, other):
    """A distance of a user's own, which is defined upwards alone."""
    return (other[0] - one[0]) ** 0.5 + 0 * (other[1] - one[1])


DISTANCES = {
    "": math.dist,
    "BY Manhattan": lambda one, other: abs(one[0] - other[0]) + abs(one[1] - other[1]),
    "BY maximum": lambda one, other: max(abs(one[0] - other[0]), abs(one[1] - other[1])),
    "BY uphill": lambda one, other: other[0] - one[0] if other[0] >= one[0] else math.inf,
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(DISTANCES)), st.integers(0, 6), *HISTORY.values())
def test_delta_windows_of_points_come_to_their_definition(distance, threshold, drawn, others, seed, restarts):
    """Of two attributes, by several distances; where one cannot be compared with a number, a window ends."""
    limit = threshold**0.5 if "uphill" in distance else threshold
    text = f"{SELECT.format(key='')} [DELTA {limit!r} ON quantity, at {distance}] INTO Bar"
    script = compile_cql(text, [Tick], {"Uphill": uphill})
    results, events = run_history(script.operators[0], drawn, others, seed, restarts)
    by_definition = lambda part: naive_delta(part, lambda e: (e.quantity, e.at), threshold, DISTANCES[distance])  # noqa: E731
    assert found(results, False) == expected(events, by_definition, None, False)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(specs(), st.sampled_from([None, 2]), *HISTORY.values())
def test_windows_without_aggregates_give_their_tuples(spec, where, drawn, others, seed, restarts):
    text, model, definition = spec
    after = f"WHERE quantity > {where}" if where is not None else ""
    script = compile_cql(f"SELECT price, quantity FROM Tick {text}] {after} INTO Bar {model}", [Tick])
    results, events = run_history(script.operators[0], drawn, others, seed, restarts)
    joined = [
        (window.ts, event.price, event.quantity)
        for window in naive_windows(sorted(events, key=ORDER), definition)
        for event in window.events
        if where is None or event.quantity > where
    ]
    assert sorted((e.ts, e.price, e.quantity) for e in results) == sorted(joined)


STEPPED = """SELECT {key} count(*) AS n, sum(price) AS total, avg(price) AS mean, max(price) AS top, sum(volume) AS volume,
             range(volume) AS spread, avg(volume) + min(price) AS both, window_start() AS since
             FROM Trade [SIZE {size} seconds EVERY {slide} seconds] WHERE volume > 0 {group} INTO Bar"""
TRADES = "CREATE STREAM Trade (symbol String, price Double NOT NULL, volume Int NOT NULL);"


class Plain(Operator):
    """The plain operation of a query, whether the native core could run it or not."""

    def __init__(self, plan):
        self.plan, self.subscribes, self.publishes = plan, (plan.source.event_type,), (plan.target.event_type,)

    def start(self, name, level):
        return WindowedOperation(self.plan, name, level)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans(), *HISTORY.values())
def test_the_native_core_gives_the_same_bits_and_identities(size, slide, grouped, bare, drawn, others, seed, restarts):
    key, group = ("symbol,", "GROUP BY symbol") if grouped else ("", "")
    text = STEPPED.format(key=key, group=group, size=size, slide=slide)
    script = compile_cql(TRADES + (text.replace("avg(volume) + min(price) AS both,", "") if bare else text))
    operator, trade = script.operators[0], script.types["Trade"]
    assert can_run(operator.plan)

    def trades(drawn, first=0):
        made = ticks(drawn, first)
        return [trade(None if e.symbol == "B" else "A", e.price, e.quantity, ts=e.ts, id=e.id, source=e.source) for e in made]

    moments = history(trades(drawn), Random(seed), trades(others, 1000))
    results = play(operator, moments, restarts)
    assert results == play(Plain(operator.plan), moments)
    assert [repr(e) for e in results] == [repr(e) for e in play(Plain(operator.plan), in_order(trades(drawn)))]


OF_NUMBERS = [
    "sum",
    "avg",
    "min",
    "max",
    "range",
    "stddev",
    "var_pop",
    "geomean",
    "median",
    "first",
    "last",
    "count",
    "count_distinct",
    "max_count",
]
TREES = ", ".join(
    [
        "count(*) AS n", "sum(quantity) AS volume", "avg(quantity) AS mean", "range(quantity) AS wide", "min(symbol) AS name",
        "argmin(symbol, price) AS worst", "argmax(quantity, price) AS most", "quantile(price, 0.25 + quantity * 0) AS quarter",
        *(f"{name}(price) AS {name}_" for name in OF_NUMBERS),
    ]
)  # fmt: skip
HARD = [None, 0.0, -0.0, 1e-300, 1e200, -1e200, 1.7e308]  # infinities and NaN: test_hostile_values
NULLS = {"NOT NULL": " NOT NULL", "nullable": ""}


@pytest.mark.parametrize("null", NULLS.values(), ids=NULLS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(specs(), st.booleans(), st.booleans(), st.lists(st.sampled_from(HARD), max_size=3), *HISTORY.values())
def test_large_windows_give_the_same_bits_from_trees(null, spec, grouped, filtered, hard, drawn, others, seed, restarts):
    """All aggregates, nullable or not, over the hardest numbers, and where WHERE is decided in the window."""
    text, model, _ = spec
    key, group = ("symbol,", "GROUP BY symbol") if grouped else ("", "")
    made = f"CREATE STREAM Trade (symbol String, price Double{null}, quantity Long{null}, at Long NOT NULL);"
    where = "WHERE quantity > 0 OR price > 0" if filtered else ""
    script = compile_cql(f"{made} SELECT {key} {TREES} FROM Trade {text}] {where} {group} INTO Bar {model}")
    operator, trade = Plain(script.operators[0].plan), script.types["Trade"]

    def trades(drawn, first=0):
        def price(e):
            value = hard[e.id % 5] if e.id % 5 < len(hard) else e.price
            return 0.5 if null and value is None else value

        def volume(e):
            return None if not null and e.quantity == 3 else e.quantity * 10**15

        return [trade(e.symbol, price(e), volume(e), e.at, ts=e.ts, id=e.id, source=e.source) for e in ticks(drawn, first)]

    moments = history(trades(drawn), Random(seed), trades(others, 1000))
    folded = play(operator, moments, restarts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "SMALL", 0)
        patch.setattr(trees, "STEPS", 0)
        looked_up = play(operator, moments, restarts)
    assert [repr(e) for e in looked_up] == [repr(e) for e in folded]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 15), st.integers(1, 15), st.booleans(), st.booleans(), *HISTORY.values())
def test_fixed_windows_come_to_their_definition(lower, length, is_clocked, grouped, drawn, others, seed, restarts):
    key, group = ("symbol,", "GROUP BY symbol") if grouped else ("", "")
    text = f"[FIXED FROM {lower} TO {lower + length}{' ON at' if is_clocked else ''}]"
    script = compile_cql(f"{SELECT.format(key=key)} {text} {group} INTO Bar", [Tick])
    results, events = run_history(script.operators[0], drawn, others, seed, restarts)
    if is_clocked:  # when it ends hangs on what follows: that it does not depend on the history is what counts here
        return
    fixed = [event for event in events if lower * SECOND < event.ts <= (lower + length) * SECOND]
    parts = {event.symbol if grouped else "": [] for event in fixed}
    for event in sorted(fixed, key=ORDER):
        parts[event.symbol if grouped else ""].append(event.price)
    end = (lower + length) * SECOND
    assert found(results, grouped) == sorted((symbol, end, *summary(prices)) for symbol, prices in parts.items())
