"""There is one number for each hash of Spark's; that it is Spark's hash, ``test_each_part_has_a_partition`` asks Spark."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from middleware.spark.places import number_at, place_of

ints = st.integers(-(2**31), 2**31 - 1)


@given(ints)
@example(0)
@example(-1)
def test_each_hash_has_its_number(place: int) -> None:
    assert -(2**31) <= number_at(place) < 2**31
    assert place_of(number_at(place)) == place
    assert number_at(place_of(place)) == place
