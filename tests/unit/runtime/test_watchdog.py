"""Steps that take long, or never end, are reported with their detector and event; others are not."""

import threading

import pytest
import structlog

from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.runtime.clients.publisher import Publisher
from middleware.runtime.loop.watchdog import HANGS, LONG, Watchdog
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter


class Reading(Event):
    secret: str


class Seen(Event):
    pass


class Slow(Detector):
    """While it runs, time passes for the watchdog."""

    subscribes, publishes = (Reading,), (Seen,)
    key = None

    def on_event(self, reading):
        Slow.looks()

    looks = staticmethod(lambda: None)


class Keyed(Slow):
    key = "secret"


@pytest.mark.parametrize("kind", [Slow, Keyed])
def test_a_step_that_hangs_is_reported_with_detector_and_event_while_it_does_and_again_when_it_ends(kind):
    dog, now = Watchdog("n"), 1_000 * SECOND

    def looks():
        for passed in (LONG // 2, LONG, HANGS, HANGS + SECOND, 2 * HANGS, 3 * HANGS):
            dog.look(now + passed)

    hierarchy = Hierarchy([kind()], policies=Policies(alpha=0.0))
    batch = Batch({"Reading": Delta([Reading("do not tell", ts=7, id=3, source="s")])}, {}, 7)
    Slow.looks = staticmethod(looks)
    try:
        with structlog.testing.capture_logs() as logs:
            dog.begin(now)
            hierarchy.process(batch)
            dog.end(now + 3 * HANGS)
            dog.look(now + 100 * HANGS)
    finally:
        Slow.looks = staticmethod(lambda: None)
    hanging, long = [each for each in logs if each["log_level"] == "error"], [each for each in logs if "took" in each]
    assert [each["so_far"] for each in hanging] == ["10s", "20s"] and [each["took"] for each in long] == ["30s"]
    for each in logs:
        assert (each["detector"], each["of"]) == (kind.__name__, "Reading s:3 ts=7")
        assert __file__ in each["at"] or "watchdog.py" in each["at"]
    assert "do not tell" not in str(logs)


def test_quick_steps_and_idle_nodes_are_not_reported():
    dog = Watchdog("n")
    with structlog.testing.capture_logs() as logs:
        for now in range(SECOND, 100 * SECOND, SECOND):
            dog.look(now)
            dog.begin(now)
            dog.look(now + LONG - 1)
            dog.end(now + LONG - 1)
    assert logs == []


def test_a_node_has_its_steps_watched(monkeypatch):
    calls = []

    class Recorded(Watchdog):
        def begin(self, now):
            calls.append("begin")

        def end(self, now):
            calls.append("end")

        def start(self):
            calls.append("start")

        def close(self):
            calls.append("close")

    class Stops(Slow):
        def on_event(self, reading):
            calls.append("run")
            node.stop()

    monkeypatch.setattr("middleware.runtime.node.Watchdog", Recorded)
    reporter = Reporter(Hierarchy([Stops()], policies=Policies(alpha=0.0)))
    node = Node("n", "tcp://127.0.0.1:*", {}, reporter, EventTypes([Reading, Seen]))
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    with Publisher(node.address, name="p", types=[Reading]) as publisher:
        publisher.publish([Reading("x", ts=7, id=3, source="s")])
        thread.join(30)  # it stops there, and says no more what became of what
    assert not thread.is_alive() and (calls[0], calls[-1]) == ("start", "close")
    assert "begin run end" in " ".join(calls)
