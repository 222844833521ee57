"""What FiBA is measured against is right itself."""

import random
from functools import reduce

import pytest
from slackline_benchmarks.window_baselines import TwoStacks

from detectors.window.aggregation.monoids import CONCAT, MAX, SUM


@pytest.mark.parametrize("monoid", [SUM.of(int), MAX.of(int), CONCAT], ids=lambda monoid: monoid.name)
def test_two_stacks_have_the_aggregate_of_what_is_there(monoid):
    generator, window, there = random.Random(3), TwoStacks(monoid), []
    for number in range(400):
        if there and generator.random() < 0.48:
            window.evict()
            del there[0]
        else:
            there.append(str(number) if monoid is CONCAT else generator.randrange(100))
            window.insert(there[-1])
        expected = monoid.lower(reduce(monoid.combine, map(monoid.lift, there), monoid.identity))
        assert window.query() == expected
    for _ in there:
        window.evict()
    with pytest.raises(IndexError):
        window.evict()
