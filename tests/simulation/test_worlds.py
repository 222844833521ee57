"""Simulated worlds with crashes: 200 seeds in which every promise must hold, and proof that the checks would see it if not."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pytest

from middleware.change import Delta
from middleware.clock import SECOND
from middleware.durability import recovery
from middleware.durability.core import Core, Doings
from middleware.event import END
from middleware.ordering.hierarchy import Hierarchy
from middleware.pubsub import journal
from middleware.pubsub.codec import Gap, Interest, Payload, Resumed, encode
from middleware.pubsub.cursor import Cursor
from middleware.pubsub.journal import Journal
from middleware.pubsub.lasting import LastingBroker
from middleware.pubsub.subscription import Subscription
from middleware.pubsub.wire import Parts
from middleware.testing.simulation import SimulatedPublisher, Simulation
from middleware.testing.worlds.applications import TYPES, Level, Reading
from middleware.testing.worlds.disk import Disk
from middleware.testing.worlds.hunt import Outcome, hunt, play, shrunk
from middleware.testing.worlds.nodes import DurableNode
from middleware.testing.worlds.plan import draw
from middleware.testing.worlds.watch import Sink, Watch
from middleware.testing.worlds.world import World


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_whatever_fails_the_promise_holds(first: int) -> None:
    troubles: Counter[str] = Counter()
    for outcome in hunt(first, 20):
        assert outcome.failure is None, f"seed {outcome.seed}: {outcome.failure}"
        troubles += outcome.troubles
    assert troubles["crash"] > 5 and troubles["records"] > 20 and troubles["rollbacks"] > 500, "worlds without trouble"


def test_processes_change_nothing() -> None:
    assert list(hunt(0, 6, 2)) == list(hunt(0, 6))


@pytest.mark.parametrize("seed", [2, 9, 17])
def test_a_world_is_replayed_exactly(seed: int) -> None:
    def history() -> list[str]:
        world = World(draw(seed))
        world.run()
        return world.history()

    first = history()
    assert len(first) > 5
    assert history() == first


def losing(count: int) -> list[Outcome]:
    """The outcomes of the first worlds in which a node loses its disk."""
    plans = (plan for plan in map(draw, itertools.count()) if any(each.kind == "lose disk" for each in plan.incidents))
    return list(map(play, itertools.islice(plans, count)))


def test_a_lost_disk_breaks_nothing_that_was_final_and_readers_are_told() -> None:
    outcomes = losing(12)
    assert [f"seed {outcome.seed}: {outcome.failure}" for outcome in outcomes if outcome.failure is not None] == []
    assert sum(outcome.troubles["lose disk"] for outcome in outcomes) > 6


def test_a_reader_that_is_not_told_of_a_lost_disk_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "start_of", lambda self, *_: (self.oldest, False))
    assert any(outcome.failure is not None for outcome in losing(12))


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


@pytest.mark.parametrize("bug", ["cursor", "place", "name", "gap"])
def test_a_subscriber_that_goes_wrong_would_be_seen(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds check what ships: the core of ``Subscriber`` itself."""
    restarted, heed = Subscription.restarted, Subscription._heed

    def without_place(self: Subscription) -> Parts:
        self._place = None
        return restarted(self)

    def without(kind: type[Resumed | Gap]) -> Callable[[Subscription, Payload], None]:
        return lambda self, payload: None if isinstance(payload, kind) else heed(self, payload)

    if bug == "cursor":
        monkeypatch.setattr(Cursor, "position", property(lambda self: self.place[1]))
    elif bug == "place":
        monkeypatch.setattr(Subscription, "restarted", without_place)
    else:
        monkeypatch.setattr(Subscription, "_heed", without(Resumed if bug == "name" else Gap))
    seen = map(play, map(draw, [606, 741, 799, 1129, 1250])) if bug == "name" else hunt(0, 100)  # the name seldom matters
    assert any(outcome.failure is not None for outcome in seen)


def test_a_failing_world_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "correcting", lambda *_: Delta())
    outcome = next(outcome for outcome in hunt(0, 60) if outcome.failure is not None)
    plan = draw(outcome.seed)
    smaller = shrunk(plan, attempts=30)
    assert play(smaller).failure is not None
    assert len(smaller.incidents) <= len(plan.incidents)
    assert sum(len(source.arrivals) for source in smaller.sources) < sum(len(source.arrivals) for source in plan.sources)


def test_places_are_kept_for_so_many_named_subscriptions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_NAMES", 2)
    simulation, disk = Simulation(1), Disk(1, random.Random(1))
    hierarchy = Hierarchy([Level()], ["Level"])
    node = DurableNode(simulation, "a", ["a"], TYPES, hierarchy, Watch("a"), random.Random(1), disk)
    sinks = [Sink(simulation, f"sink{number}", "a", ["Low"], TYPES, resumes=True) for number in range(3)]
    sinks.append(Sink(simulation, "anonymous", "a", ["Low"], TYPES))
    simulation.run(2 * SECOND)
    assert [sink.ready for sink in sinks].count(True) == 3 and sinks[3].ready
    (refused,) = (sink for sink in sinks if not sink.ready)
    assert "named subscriptions are kept here, which is all" in str(refused.link.closed)
    assert node.broker.drops["a name that cannot be had"] == 1
    simulation.crash(refused.name)
    again = Sink(simulation, next(sink.name for sink in sinks if sink.ready), "a", ["Low"], TYPES, resumes=True)
    simulation.run(2 * SECOND)
    assert again.ready, "a name that has its place finds it again"


def test_a_gap_is_heeded_in_its_turn() -> None:
    """What came before a gap is not called final after it, however late the reader gets round to reading."""
    simulation, disk = Simulation(1), Disk(1, random.Random(1))
    node = DurableNode(simulation, "a", ["a"], TYPES, Hierarchy([Level()]), Watch("a"), random.Random(1), disk)
    sink = Sink(simulation, "sink", "a", ["Reading"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Reading])
    simulation.run(SECOND)
    sink.reading = False
    publisher.publish([Reading(1, 1, ts=5, id=1, source="p")])
    simulation.run(SECOND)
    node.broker._broken(("node", "b"), ["Reading"])
    publisher.publish([Reading(1, 2, ts=6, id=2, source="p")])
    publisher.advance(Reading, END)
    simulation.run(SECOND)
    sink.reading = True
    simulation.run(SECOND)
    assert sink.gaps == 1
    assert [event.id for event in sink.finals] == [2]
    late = Sink(simulation, "late", "a", ["Reading"], TYPES)
    late.link.greeting = [encode(Interest(1, ["Reading"], line=1))]  # it was there from the beginning: served from the log
    simulation.run(SECOND)
    assert (late.gaps, [event.id for event in late.finals]) == (sink.gaps + 1, [2])
