"""Shrinking keeps the failure, keeps the order, and stays within its attempts."""

import random

import pytest

from middleware.provenance.smallest import smallest


@pytest.mark.parametrize("seed", range(30))
def test_nothing_but_the_culprits_is_left(seed: int) -> None:
    generator = random.Random(seed)
    items = list(range(generator.randint(1, 60)))
    culprits = sorted(generator.sample(items, generator.randint(1, min(4, len(items)))))
    assert smallest(items, lambda part: set(culprits) <= set(part), attempts=10_000) == culprits


@pytest.mark.parametrize("attempts", [0, 1, 7])
def test_attempts_are_bounded_and_the_answer_still_fails(attempts: int) -> None:
    tried: list[list[int]] = []

    def fails(part: list[int]) -> bool:
        tried.append(part)
        return 17 in part and 3 in part

    answer = smallest(range(40), fails, attempts)
    assert len(tried) <= attempts
    assert {3, 17} <= set(answer)
    assert answer == sorted(answer)
