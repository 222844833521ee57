"""There is one number for each hash of Spark's; that it is Spark's hash, ``test_each_part_has_a_partition`` asks Spark."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from middleware.spark.spark_hash import hash_of, number_with_hash

ints = st.integers(-(2**31), 2**31 - 1)


@given(ints)
@example(0)
@example(-1)
def test_each_hash_has_its_number(hashed: int) -> None:
    assert -(2**31) <= number_with_hash(hashed) < 2**31
    assert hash_of(number_with_hash(hashed)) == hashed
    assert number_with_hash(hash_of(hashed)) == hashed
