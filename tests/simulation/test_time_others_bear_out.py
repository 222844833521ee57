"""Whatever one source says of the time, honest live sources lose nothing: drawn liars beside replays, at one node or two."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.event import END, Event
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.simulation.network import SimulatedPublisher, SimulatedSubscriber, Simulation
from tests.simulation.test_sources_simulation import AHEAD, TYPES, WALL, Node, Ping, Pong, ping

HOUR = 3_600 * SECOND
STEP = 500 * MILLISECOND
STEPS = 12


def finals(subscriber: SimulatedSubscriber) -> Counter[str]:
    """How many results each source has, by now."""
    return Counter(event.text for event in subscriber.events if isinstance(event, Pong))


@settings(max_examples=8, deadline=None)
@given(
    two=st.booleans(),
    promises=st.tuples(st.booleans(), st.booleans()),
    lies=st.lists(st.tuples(st.integers(0, STEPS - 1), st.integers(-10 * HOUR, 2 * HOUR)), max_size=5),
    drift=st.sampled_from([None, 0.5, 1.0, 1.5, 100.0]),
    promised=st.none() | st.integers(-HOUR, 10_000 * HOUR),
    away=st.none() | st.integers(0, STEPS - 5),
    replays=st.none() | st.integers(0, 48 * HOUR),
)
def test_no_honest_live_event_is_late_or_rejected_for_what_one_source_says(
    two: bool,
    promises: tuple[bool, bool],
    lies: list[tuple[int, int]],
    drift: float | None,
    promised: int | None,
    away: int | None,
    replays: int | None,
) -> None:
    """``lies``: (step, offset) of single events. ``drift``: how fast the liar's clock runs, if it runs. ``promised``: by how
    much it promises ahead. ``away``: the step at which one honest publisher goes, and comes back a little later."""
    simulation = Simulation(7)
    names = "ab" if two else "a"
    nodes = [Node(simulation, name, [each for each in names if each != name], here=name == "a") for name in names]
    for node in nodes:
        node.broker.wall_is(WALL, 0)
    reader = SimulatedSubscriber(simulation, "s", "a", ["Pong"], TYPES)
    simulation.run(SECOND)
    honest = [SimulatedPublisher(simulation, f"h{place}", names[place % len(names)], [Ping]) for place in range(2)]
    liar = SimulatedPublisher(simulation, "liar", names[-1], [Ping])
    replay = SimulatedPublisher(simulation, "replay", names[0], [Ping])
    sent: Counter[str] = Counter()

    def say(publisher: SimulatedPublisher, ts: int, source: str) -> None:
        sent[source] += 1
        publisher.publish([ping(ts, source, sent[source])])

    for step in range(STEPS):
        now = WALL + simulation.now
        if step == away:
            honest[0].link.bye("away")
        elif away is not None and step == away + 2:
            honest[0] = SimulatedPublisher(simulation, "h0 again", "a", [Ping])
            simulation.run(STEP)
            now = WALL + simulation.now
        for place, publisher in enumerate(honest):
            if place or away is None or not away <= step < away + 2:
                say(publisher, now, f"h{place}")
                if promises[place]:
                    publisher.advance(Ping, now - 1)
        for at, offset in lies:
            if at == step:
                say(liar, now + offset, "liar")
        if drift is not None:
            say(liar, WALL + int(drift * simulation.now), "liar")
        if promised is not None and step == STEPS // 2:
            liar.advance(Ping, now + promised)
        if replays is not None:
            say(replay, now - replays, "replay")
        simulation.run(STEP)
    unit = nodes[0].hierarchy.units[0]
    listed = [(each.source, each.reason) for node in nodes for each in node.rejected]
    listed += [(each.event.source, "late in the unit") for each in unit.late]
    assert not [each for each in listed if each[0].startswith("h")]
    assert unit.clock.clk <= WALL + simulation.now + SECOND
    waiting = sum(count for node in nodes for count, _ in node.broker.waiting([]).withheld.values())
    assert unit.received + len([each for each in listed if each[1] != "late in the unit"]) + waiting == sent.total()
    simulation.run(13 * SECOND)
    for source in "h0", "h1":
        assert finals(reader)[source] == sent[source]


def test_who_ends_a_type_and_leaves_does_not_end_it_before_its_last_events_are_taken() -> None:
    simulation = Simulation(8)
    node = Node(simulation)
    reader = SimulatedSubscriber(simulation, "s", "a", ["Pong"], TYPES)
    slow, fast = (SimulatedPublisher(simulation, name, "a", [Ping]) for name in ("slow", "fast"))
    slow.publish([ping(SECOND, "slow")])
    simulation.run(SECOND)
    fast.publish([ping(500 * SECOND, "fast"), ping(501 * SECOND, "fast")])
    fast.advance(Ping, END)
    fast.link.bye("has sent all")
    simulation.run(SECOND)
    assert node.broker.waiting([]).withheld == {"fast": (2, 500 * SECOND)} and ("publisher", "fast") not in node.broker.sources
    slow.publish([ping(2 * SECOND, "slow"), ping(600 * SECOND, "slow")])
    slow.advance(Ping, END)
    simulation.run(3 * SECOND)
    assert finals(reader) == {"slow": 3, "fast": 2} and node.final == END
    assert not node.rejected and not node.broker.admission.room


def test_publishers_of_recordings_that_all_leap_wait_for_nobody() -> None:
    simulation = Simulation(9)
    node = Node(simulation)
    one, other = (SimulatedPublisher(simulation, name, "a", [Ping]) for name in ("one", "other"))
    for place in range(5):
        one.publish([ping(place * HOUR, "one")])
        other.publish([ping(place * HOUR + 30 * SECOND, "other")])
        simulation.run(SECOND)
    assert node.hierarchy.units[0].received >= 9 and not node.rejected
    simulation.run(15 * SECOND)
    assert node.hierarchy.units[0].received == 10, "who is alone is believed"


@pytest.mark.parametrize("others", [True, False])
def test_no_more_waits_than_there_is_room_for(others: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("middleware.broker.ingress.withheld.MOST_EVENTS", 5)
    simulation = Simulation(10)
    node = Node(simulation)
    node.broker.wall_is(WALL, 0)
    liar, honest = (SimulatedPublisher(simulation, name, "a", [Ping]) for name in ("liar", "honest"))
    simulation.run(SECOND)
    if others:
        honest.publish([ping(WALL, "honest")])
        simulation.run(SECOND)
    events: list[Event] = [ping(WALL + AHEAD // 2 + number, "liar", number) for number in range(20)]
    liar.publish(events[:8])
    simulation.run(SECOND)
    assert [each.reason for each in node.rejected] == (["ahead"] * 3 if others else [])
    node.broker.admission.room.check()
    liar.publish(events[8:])
    simulation.run(SECOND)
    assert len(node.rejected) == (15 if others else 0)
    assert node.broker.admission.stalled() == ([] if others else [("publisher", "liar")]), "it may be alone, and right"
