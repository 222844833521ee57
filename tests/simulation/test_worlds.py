"""Simulated worlds with crashes: 40 seeds in which every promise must hold; ``slackline simulate`` plays any others."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from middleware.broker import pacing
from middleware.broker.log.log import MOST_NAMES
from middleware.durability import recovery
from middleware.link.codec import Interest, encode
from middleware.model.change import Batch, Delta
from middleware.model.event import END
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.testing.simulation.applications import TYPES, Level, Reading
from middleware.testing.simulation.disk import Disk
from middleware.testing.simulation.hunt import WorldOutcome, hunt, play, shrunk
from middleware.testing.simulation.network import Faults, SimulatedPublisher, Simulation
from middleware.testing.simulation.nodes import DurableNode
from middleware.testing.simulation.plans.drawing import draw
from middleware.testing.simulation.plans.world_plan import Incident, SinkPlan
from middleware.testing.simulation.promise_watch import PromiseError, Watch, WatchedSink
from middleware.testing.simulation.world import World


@pytest.mark.parametrize("first", range(0, 30, 15))
def test_whatever_fails_the_promise_holds(first: int) -> None:
    troubles: Counter[str] = Counter()
    for outcome in hunt(first, 15):
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


def losing(count: int) -> list[WorldOutcome]:
    """The outcomes of the first worlds in which a node loses its disk."""
    plans = (plan for plan in map(draw, itertools.count()) if any(each.kind == "lose disk" for each in plan.incidents))
    return list(map(play, itertools.islice(plans, count)))


def test_a_lost_disk_breaks_nothing_that_was_final_and_readers_are_notified() -> None:
    outcomes = losing(12)
    assert [f"seed {outcome.seed}: {outcome.failure}" for outcome in outcomes if outcome.failure is not None] == []
    assert sum(outcome.troubles["lose disk"] for outcome in outcomes) > 6


def test_a_reader_without_a_position_at_a_node_that_has_lost_it_gets_no_gap() -> None:
    """It comes back, and its node loses its disk before it has received anything from it (seed 5063 of former draws)."""
    plan = next(plan for plan in map(draw, itertools.count()) if plan.nodes == ["a"] and not plan.forgetful)
    plan.network = Faults(delay_least=80 * MILLISECOND, delay_most=80 * MILLISECOND)
    plan.sinks = [SinkPlan("a", resumes=True, marks=False)]
    for source in plan.sources:
        source.promises, source.pauses, source.dies = True, 0, 0
    silent = 0
    for at in range(300, 1_500, 300):
        kill = Incident(at * MILLISECOND, "kill sink", "sink0", 20 * MILLISECOND)
        lose = Incident((at + 40) * MILLISECOND, "lose disk", "a", 300 * MILLISECOND)
        world = World(replace(plan, incidents=[kill, lose]))
        world.run()
        world.check()
        silent += not world.sinks[0].gaps
    assert silent, "no world in which its node has not answered again"


def test_a_world_without_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1009703 was one: a node read the same records for ever, and so did the hunt."""

    def turn(self: World) -> None:
        while True:
            pass

    monkeypatch.setattr(World, "run", turn)
    assert play(draw(0), most=0.2).failure == "TimeoutError: it turns in a circle: no end after 0.2 s of processor time"


def test_a_failing_world_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "correcting", lambda *_: Delta())
    outcome = next(outcome for outcome in hunt(0, 60) if outcome.failure is not None)
    plan = draw(outcome.seed)
    smaller = shrunk(plan, attempts=30)
    assert play(smaller).failure is not None
    assert len(smaller.incidents) <= len(plan.incidents)
    assert sum(len(source.says) for source in smaller.sources) < sum(len(source.says) for source in plan.sources)


def test_places_are_kept_for_so_many_named_subscriptions_and_no_more() -> None:
    simulation, disk = Simulation(1), Disk(1, random.Random(1))
    hierarchy = Hierarchy([Level()], ["Level"])
    node = DurableNode(simulation, "a", ["a"], TYPES, hierarchy, Watch("a"), random.Random(1), disk)
    for number in range(MOST_NAMES - 2):
        node.log.subscribed(("subscriber", f"before{number}"), Interest(1, ["Low"], resumes=True))
    sinks = [WatchedSink(simulation, f"sink{number}", "a", ["Low"], TYPES, resumes=True) for number in range(3)]
    sinks.append(WatchedSink(simulation, "anonymous", "a", ["Low"], TYPES))
    simulation.run(2 * SECOND)
    assert [sink.ready for sink in sinks].count(True) == 3 and sinks[3].ready
    (refused,) = (sink for sink in sinks if not sink.ready)
    assert "named subscriptions for clients without a key, the most" in str(refused.link.closed)
    assert node.broker.drops["a subscription that cannot be had"] == 1
    simulation.crash(refused.name)
    again = WatchedSink(simulation, next(sink.name for sink in sinks if sink.ready), "a", ["Low"], TYPES, resumes=True)
    simulation.run(2 * SECOND)
    assert again.ready, "a name that has its place finds it again"


def test_a_gap_is_heeded_in_its_turn() -> None:
    """What came before a gap is not called final after it, however late the reader gets round to reading."""
    simulation, disk = Simulation(1), Disk(1, random.Random(1))
    node = DurableNode(simulation, "a", ["a"], TYPES, Hierarchy([Level()]), Watch("a"), random.Random(1), disk)
    sink = WatchedSink(simulation, "sink", "a", ["Reading"], TYPES)
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
    late = WatchedSink(simulation, "late", "a", ["Reading"], TYPES)
    late.link.greeting = [encode(Interest(1, ["Reading"], line=1))]  # it was there from the beginning: served from the log
    simulation.run(SECOND)
    assert (late.gaps, [event.id for event in late.finals]) == (sink.gaps + 1, [2])


def test_the_promise_holds_where_most_steps_are_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at nodes with very many types: watermarks and clock marks reach units and readers late."""
    monkeypatch.setattr(pacing, "AT_ONCE", 0)
    monkeypatch.setattr(pacing, "EACH", 10 * MILLISECOND)
    partial = 0

    def counting(self: Hierarchy, batch: Batch, finals: Mapping[str, int | None] | None = None) -> list[Batch]:
        nonlocal partial
        partial += batch.is_partial
        return process(self, batch, finals)

    process = Hierarchy.process
    monkeypatch.setattr(Hierarchy, "process", counting)
    for outcome in hunt(5000, 8):
        assert outcome.failure is None, f"seed {outcome.seed}: {outcome.failure}"
    assert partial > 200


def test_a_stream_resumes_after_what_was_final_not_after_what_had_been_withdrawn() -> None:
    """World 20261663772: a window that had been withdrawn before the end was later than all results that stood."""
    watch = Watch("a")
    early, late = Reading(1, 5, ts=165, id=1, source="x"), Reading(1, 5, ts=173, id=2, source="x")
    watch.take({"Reading": Delta([early, late])}, {})
    watch.take({"Reading": Delta(retracts=[late])}, {"Reading": END})
    watch.resume()
    assert watch.watermarks == {"Reading": 165}
    with pytest.raises(PromiseError, match="final since 165"):
        watch.take({"Reading": Delta([Reading(1, 5, ts=165, id=3, source="x")])}, {})
    watch.take({"Reading": Delta([Reading(1, 5, ts=169, id=4, source="x")])}, {})
