"""The index on real nodes with disks, whose processes are killed while they work: no result twice, none missing."""

from __future__ import annotations

import signal
import threading
from contextlib import closing

import pytest

from middleware.change import Insert
from middleware.event import END, Event
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from middleware.testing.flows import sequential
from scenarios.search.index import Indexed, Page, Posted, flow
from scenarios.search.pages import pages

pytestmark = pytest.mark.system


def test_workers_are_killed_and_every_result_comes_once() -> None:
    given = [Page(**row) for row in pages(5, 5.0, 40)["search.Page"].to_pylist()]
    scenario = load_scenario("search")
    finals: list[Event] = []
    with Cluster(scenario, durability="disk") as cluster:
        publisher = Publisher(cluster.addresses["entry"], types=[Page], patience=60)
        subscriber = Subscriber(
            cluster.addresses["worker1"], [Posted, Indexed], consistency="final", resume="sink", patience=60
        )
        with closing(publisher), closing(subscriber):
            cluster.await_ready(subscriber.wait_ready)

            def publish() -> None:
                for start in range(0, len(given), 10):
                    publisher.publish(given[start : start + 10][::-1])
                    publisher.advance(Page, given[min(start + 9, len(given) - 1)].ts)
                    if start in (50, 100, 150):
                        victim = {50: "worker0", 100: "entry", 150: "worker1"}[start]
                        cluster.kill(victim, signal.SIGKILL)
                        cluster.start(victim)
                publisher.advance(Page, END)
                publisher.flush(60)

            feeding = threading.Thread(target=publish)
            feeding.start()
            told = 0
            while told < END:
                for change in subscriber.receive(60):
                    if isinstance(change, Insert):
                        finals.append(change.event)
                    else:
                        told = change.progress
            feeding.join()
    wanted = [(each.ts, *each.fields) for each in sequential(flow().nodes, given)]
    posted = sorted((e for e in finals if isinstance(e, Posted)), key=lambda event: (event.ts, event.cause))
    indexed = [e for e in finals if isinstance(e, Indexed)]
    got = [(e.ts, e.word, e.page, e.places, e.rank, e.before) for e in posted] + [
        (e.ts, e.page, e.words, e.ranks) for e in indexed
    ]
    assert len(finals) == len({(event.source, event.id) for event in finals})
    assert sorted(map(repr, got)) == sorted(map(repr, wanted))
    assert len(indexed) == len(given)
