"""Whole scripts in units, at any degree of speculation: queries over queries, a Python detector above, late input listed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.time import SECOND
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.oracle import oracle
from scenarios.ticks.market import EXCHANGES, SCRIPT, detectors

DRAWN = st.lists(
    st.tuples(
        st.sampled_from(sorted(EXCHANGES)),
        st.sampled_from(["IBM", "GE"]),
        st.integers(90, 110).map(float),
        st.sampled_from([5, 30_000, 60_000, 100_000]),
        st.integers(0, 6_000),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(DRAWN, st.integers(1, 9), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([SECOND // 10, 2 * SECOND, 10 * SECOND]))
def test_finals_are_those_of_the_sorted_input_whatever_the_speculation(drawn, batch, alpha, floor):
    ticks = [
        SCRIPT.types[name](
            symbol, ms // 1000, price, quantity, EXCHANGES[name], ts=ms * 1_000_000, id=number, source=EXCHANGES[name]
        )
        for number, (name, symbol, price, quantity, ms) in enumerate(drawn)
    ]
    applied = detectors()
    found = run([*ticks, *ticks[::7]], applied, policies=Policies(alpha=alpha, lateness=Lateness(1.0, floor)), batch=batch)
    assert found.finals == oracle(ticks, applied, found.late_identities())
