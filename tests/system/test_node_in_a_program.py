"""A node that a program makes itself: as a context manager, with detectors, and with what people give by mistake."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from slackline import (
    END,
    ORDER,
    SECOND,
    Detector,
    Event,
    Hierarchy,
    Insert,
    Node,
    Publisher,
    Revise,
    SequenceQuery,
    SlacklineError,
    Subscriber,
    compile_cql,
    run,
)


class Quote(Event):
    price: float


class Rise(Event):
    by: float


class Rises(Detector):
    subscribes, publishes = (Quote,), (Rise,)

    def __init__(self) -> None:
        self.last: float | None = None

    def on_event(self, event: Quote) -> Rise | None:
        last, self.last = self.last, event.price
        return Rise(event.price - last, ts=event.ts) if last is not None and event.price > last else None


QUOTES = [Quote(float(at), ts=at, id=at, source="x") for at in (1, 4, 2, 3)]
SCRIPT = "SELECT price FROM Quote WHERE price > 2 INTO Dear"


def test_it_runs_in_a_block_with_the_types_of_its_detectors() -> None:
    node = Node("desk", "tcp://127.0.0.1:*", processor=Hierarchy([Rises()]))
    with node, Subscriber(node.address, Rise, consistency="final") as rises:
        rises.wait_ready(30)
        with Publisher(node.address, types=[Quote]) as publisher:
            publisher.publish(QUOTES)
            publisher.advance(Quote, END)
        found = [change.event for change in rises if isinstance(change, Insert)]
    assert found == run(QUOTES, [Rises()]).of(Rise)
    with Node("desk", node.address):  # the address is free again
        pass


def test_streams_that_ended_resume_with_the_state_of_operators() -> None:
    """The last quote before the end and the first one after it are a pair."""

    def pairs() -> SequenceQuery:
        return SequenceQuery("EVENT SEQ(Quote a, Quote b) WITHIN 2 ns RETURN Rise(b.price - a.price AS by)", [Quote, Rise])

    later = [Quote(float(at), ts=at, id=at, source="x") for at in (6, 8)]
    expected = run([*QUOTES, *later], [pairs()]).of(Rise)
    found = dict[int, Rise]()
    node = Node("desk", "tcp://127.0.0.1:*", processor=Hierarchy([pairs()]))
    with node, Subscriber(node.address, Rise) as rises:
        rises.wait_ready(30)
        for quotes, count in ((QUOTES, len(expected) - 2), (later, len(expected))):
            with Publisher(node.address) as publisher:  # a new one: the one before has promised that nothing comes
                publisher.publish(quotes)
                publisher.advance(Quote, END)
                publisher.flush(30)
            while len(found) < count and (changes := rises.receive(10)):
                found |= {change.event.id: change.event for change in changes if isinstance(change, Insert | Revise)}
    assert sorted(found.values(), key=ORDER) == expected and len(expected) == 7


def test_a_node_that_was_stopped_in_the_block_keeps_its_patience() -> None:
    asked: list[int] = []

    class Noting(Node):
        def stop(self, patience: int = 7 * SECOND) -> None:
            asked.append(patience)
            super().stop(patience)

    with Noting("desk", "tcp://127.0.0.1:*") as node:
        node.stop(SECOND)
    with Noting("desk", "tcp://127.0.0.1:*"):
        pass
    assert asked == [SECOND, 7 * SECOND]


def test_what_ends_a_node_is_raised_at_the_end_of_the_block() -> None:
    class Broken(Hierarchy):
        def process(self, batch: Any) -> Any:
            raise RuntimeError("no more")

    def use(node: Node) -> None:
        with node, suppress(SlacklineError), Publisher(node.address, types=[Quote], patience=5) as publisher:
            publisher.publish(QUOTES)
            publisher.flush(30)

    with pytest.raises(RuntimeError, match="no more"):
        use(Node("desk", "tcp://127.0.0.1:*", processor=Broken([Rises()])))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"peers": {"D": Rises()}}, "peers are addresses of other nodes, .* detectors are given as processor=Hierarchy"),
        ({"peers": ["tcp://127.0.0.1:5701"]}, "peers are addresses of other nodes"),
        ({"processor": [Rises()]}, r"a processor is Hierarchy\(\[MyDetector\(\)\]\), not"),
        ({"processor": Rises()}, r"a processor is Hierarchy"),
    ],
)
def test_what_is_given_by_mistake_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SlacklineError, match=f"node desk: {says}"):
        Node("desk", "tcp://127.0.0.1:*", **given)


def test_a_script_stands_in_a_list_of_detectors() -> None:
    script = compile_cql(SCRIPT, [Quote])
    alone, listed = run(QUOTES, script), run(QUOTES, [Rises(), script])
    assert [each.price for each in alone.finals["Dear"]] == [3.0, 4.0]
    assert listed.finals.keys() == {"Rises", "Dear"} and listed.finals["Dear"] == alone.finals["Dear"]
    with pytest.raises(SlacklineError, match="is no detector"):
        run(QUOTES, [[3]])
