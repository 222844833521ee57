"""Simulated worlds with crashes: 200 seeds in which every promise must hold, and proof that the checks would see it if not."""

from __future__ import annotations

from collections import Counter

import pytest

from middleware.change import Delta
from middleware.durability import recovery
from middleware.durability.core import Core, Doings
from middleware.pubsub.lasting import LastingBroker
from middleware.testing.worlds.hunt import hunt, play, shrunk
from middleware.testing.worlds.plan import draw
from middleware.testing.worlds.world import World

KINDS = ("crash", "partition", "pause", "full", "slow disk", "stop reading")


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_whatever_fails_the_promise_holds(first: int) -> None:
    troubles: Counter[str] = Counter()
    for outcome in hunt(first, 20):
        assert outcome.failure is None, f"seed {outcome.seed}: {outcome.failure}"
        troubles += outcome.troubles
    assert troubles["crash"] > 5 and troubles["records"] > 20 and troubles["rollbacks"] > 500, "worlds without trouble"


@pytest.mark.parametrize("seed", [1, 6, 17])
def test_a_world_is_replayed_exactly(seed: int) -> None:
    def history() -> list[str]:
        world = World(draw(seed))
        world.run()
        return world.history()

    first = history()
    assert len(first) > 5
    assert history() == first


def is_seen() -> bool:
    """Whether some world fails."""
    return any(outcome.failure is not None for outcome in hunt(0, 100))


def test_output_before_the_log_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Core, now: int) -> Doings:
        doings = settle(self, now)
        for _, effects in self._held:
            doings.sends += effects.sends
        self._held.clear()
        return doings

    settle = Core.settle
    monkeypatch.setattr(Core, "settle", hasty)
    assert is_seen()


def test_a_recovery_that_does_not_put_consumers_right_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "correcting", lambda *_: Delta())
    assert is_seen()


def test_a_reader_that_forgets_its_place_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = LastingBroker.restore

    def forgetful(self: LastingBroker, state: dict[str, object]) -> None:
        restore(self, state)
        self._books.places.clear()

    monkeypatch.setattr(LastingBroker, "restore", forgetful)
    assert is_seen()


def test_a_failing_world_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "correcting", lambda *_: Delta())
    outcome = next(outcome for outcome in hunt(0, 60) if outcome.failure is not None)
    plan = draw(outcome.seed)
    smaller = shrunk(plan, attempts=30)
    assert play(smaller).failure is not None
    assert len(smaller.incidents) <= len(plan.incidents)
    assert sum(len(source.arrivals) for source in smaller.sources) < sum(len(source.arrivals) for source in plan.sources)
