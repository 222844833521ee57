"""Whole applications on simulated networks: detectors placed at random on several nodes, publishers that come and go,
messages lost, repeated, reordered and cut off for seconds. In the end everything must be as if nothing had happened."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated_hierarchies import World, troubles

from middleware.pubsub import codec, peer
from middleware.testing.simulation import Faults

SEEDS = range(40)


def test_finals_equal_the_oracle_and_no_promise_is_broken() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed)
        try:
            world.run()
            world.check()
        except Exception as error:
            error.add_note(f"in the world of seed {seed}")
            raise
        seen += troubles(world)
    assert min(seen[trouble] for trouble in ("late", "rollbacks", "failures", "revised")) > 100, "worlds without trouble"


@pytest.mark.parametrize("seed", [3, 11, 28])
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    def history() -> list[str]:
        world = World(seed)
        world.run()
        return world.history()

    first = history()
    assert len(first) > 5
    assert history() == first


@pytest.mark.parametrize("seed", [1, 9, 22, 24, 49])
def test_changes_may_be_cut_into_frames_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (codec, peer):
        monkeypatch.setattr(module, "BLOCK_TARGET", 150)
    world = World(seed, Faults())
    world.run()
    world.check()
