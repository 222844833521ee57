"""Whole applications on nodes without logs: detectors placed at random, publishers that come and go, messages lost, repeated,
reordered and cut off for seconds. As long as nobody is taken for dead, everything must be as if nothing had happened."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from middleware.broker.peers import peers as peer
from middleware.link import codec
from middleware.testing.simulation.hunt import play
from middleware.testing.simulation.network import Faults
from middleware.testing.simulation.plans.drawing import draw

SEEDS = range(40)


def test_finals_equal_the_oracle_and_no_promise_is_broken() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = play(draw(seed, crashes=False))
        assert outcome.failure is None, f"seed {seed}: {outcome.failure}"
        seen += outcome.troubles
    assert min(seen[trouble] for trouble in ("late", "rollbacks", "failures", "revised")) > 100, "worlds without trouble"
    assert min(seen[trouble] for trouble in ("partition", "pause", "clock step")) > 10, "worlds without trouble"


@pytest.mark.parametrize("seed", [1, 9, 22, 24, 49])
def test_changes_may_be_cut_into_frames_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (codec, peer):
        monkeypatch.setattr(module, "BLOCK_TARGET", 150)
    outcome = play(replace(draw(seed, crashes=False), network=Faults(), incidents=[]))
    assert outcome.failure is None
