"""A node that a program makes itself: as a context manager, with detectors, and with what people give by mistake."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from slackline import (
    END,
    Detector,
    Event,
    Hierarchy,
    Insert,
    Node,
    Publisher,
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
    assert [each.price for each in alone.finals["Dear"]] == [3.0, 4.0]  # type: ignore[attr-defined]
    assert listed.finals.keys() == {"Rises", "Dear"} and listed.finals["Dear"] == alone.finals["Dear"]
    with pytest.raises(SlacklineError, match="is no detector"):
        run(QUOTES, [[3]])
