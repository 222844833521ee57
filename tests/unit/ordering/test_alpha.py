from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.ordering.alpha.adaptation import STEP, Alpha


def run(start, *busy):
    states = [start]
    for factor in busy:
        states.append(states[-1].adapted(factor))
    return states


def test_the_papers_run():
    """Section 5.2: halving down to 0.125, back-off at busy 0.95, halving again to the bisection line 0.43, then small steps."""
    states = run(Alpha(), 0.3, 0.4, 0.6, 0.85, 0.85, 0.95, 0.4, 0.5, 0.5, 0.6, 0.82)
    alphas = [state.alpha for state in states]
    assert alphas[:7] == [1.0, 0.5, 0.25, 0.125, 0.125, 0.125, 1.0]
    assert states[6].best == 0.125
    line = (1 - 0.125) / 2
    assert alphas[7] == 0.5 and 0.5 > line > 0.25, "halving once more would cross the line of 0.4375"
    assert alphas[8:] == pytest.approx([0.45, 0.40, 0.35, 0.35])
    assert states[8].slow


def test_within_the_zone_nothing_changes():
    assert run(Alpha(alpha=0.3), 0.8, 0.9, 0.85)[-1] == Alpha(alpha=0.3)


def test_an_overload_at_full_buffering_teaches_nothing():
    assert run(Alpha(best=0.2), 0.99)[-1] == Alpha(best=0.2)


@given(st.lists(st.floats(0, 1), max_size=50))
def test_alpha_stays_in_range_and_moves_as_it_should(factors):
    states = run(Alpha(), *factors)
    for (before, after), busy in zip(pairwise(states), factors, strict=True):
        assert 0.0 <= after.alpha <= 1.0
        if busy > 0.9:
            assert after.alpha == 1.0
        elif busy >= 0.8:
            assert after == before
        else:
            assert before.alpha - max(before.alpha / 2, STEP) - 1e-9 <= after.alpha <= before.alpha
