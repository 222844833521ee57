"""A pickled window comes back: the same entries, answers and order, and it continues as if nothing had happened."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.window.naive import NaiveWindow
from tests.property.window.test_fiba import CASES, CLASSES, LEVELS, ORDERS, TIMES, close


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_pickled_window_goes_on(kind, case, data):
    monoid, values = CASES[case]
    ordered, times = data.draw(st.sampled_from([(False, TIMES), (True, ORDERS), (True, LEVELS)]))
    window, naive = (each(monoid, min_arity=3, ordered=ordered) for each in (kind, NaiveWindow))
    copied = window
    for number, ts in enumerate(data.draw(st.lists(times, max_size=12))):  # times come again, so that values share entries
        value = data.draw(values)
        for each in (window, naive):
            each.insert(ts, value)
        if number == 5:
            copied = copy.deepcopy(window)
            assert copied is not window
            window = pickle.loads(pickle.dumps(window))
    window = pickle.loads(pickle.dumps(window))
    window.check()
    copied.check()
    assert (window.min_arity, window.ordered, window.monoid) == (3, ordered, monoid)
    assert len(window) == len(naive) and close(window.query(), naive.query())
    for one, other in zip(window, naive, strict=True):
        assert one[0] == other[0] and close(one[1], other[1])
    ts, value = data.draw(times), data.draw(values)
    for each in (window, naive):
        each.insert(ts, value)
    assert close(window.query(), naive.query())
