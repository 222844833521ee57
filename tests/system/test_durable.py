"""Real nodes with real disks, killed while they work: nothing is lost, nothing is published twice."""

from __future__ import annotations

import random
import signal
import threading
from contextlib import closing

import pytest

from middleware.model.change import Insert
from middleware.model.event import END, ORDER, Event, type_name
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from middleware.testing.oracle import oracle
from scenarios.soccer.match import events

pytestmark = pytest.mark.system


def out_of_order(rows: list[Event], seed: int) -> list[Event]:
    """The events with up to 100 ms of disorder."""
    rng = random.Random(seed)
    return [row for _, _, row in sorted((row.ts + rng.randrange(100_000_000), at, row) for at, row in enumerate(rows))]


def test_nodes_are_killed_and_a_subscriber_comes_back_and_finals_are_the_oracles():
    scenario = load_scenario("soccer")
    rows = out_of_order(list(events(3, 1.5)), 1)
    names = sorted({type_name(t) for detector in scenario.detectors.values() for t in detector.publishes})
    kinds = sorted({type_name(type(row)) for row in rows})
    finals: list[Event] = []

    def subscribe(address: str) -> Subscriber:
        options = {"event_types": scenario.types, "consistency": "final"}
        return Subscriber(address, names, resume="referee", patience=60, **options)

    with Cluster(scenario, alpha=0.0, durability="disk") as cluster:
        publisher = Publisher(cluster.addresses["field"], types=kinds, patience=60)
        with closing(publisher):
            subscriber = subscribe(cluster.addresses["match"])
            cluster.await_ready(subscriber.wait_ready)

            def publish() -> None:
                for number, start in enumerate(range(0, len(rows), 2_000)):
                    publisher.publish(rows[start : start + 2_000])
                    if number in (4, 11, 17):
                        victim = ("field", "match")[number % 2]
                        cluster.kill(victim, signal.SIGKILL)
                        cluster.start(victim)
                publisher.advance(scenario.types, END)
                publisher.flush(60)

            feeding = threading.Thread(target=publish)
            feeding.start()
            committed, received = 0, 0
            while committed < END:
                for change in subscriber.receive(60):
                    if isinstance(change, Insert):
                        finals.append(change.event)
                    else:
                        committed = change.ts
                received += 1
                if received == 10:  # this program dies, too, with what it has taken written down
                    subscriber.commit()
                    subscriber.close()
                    subscriber = subscribe(cluster.addresses["match"])
            feeding.join()
            subscriber.close()
    late = {name: set(listed) for report in cluster.reports.values() for name, listed in report.late.items()}
    expected = sorted((e for made in oracle(rows, scenario.detectors, late).values() for e in made), key=ORDER)
    assert len(finals) == len(expected) > 1_000
    assert finals == expected
    assert not any(
        report.broker.drops.keys() & {"gap for a reader", "gap in what a node sends"} for report in cluster.reports.values()
    )
