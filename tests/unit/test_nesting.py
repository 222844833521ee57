"""A value that is nested too deep is refused where it comes in, at the same depth everywhere."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from slackline import END, Detector, Event, EventTypes, Insert, Node, Publisher, Subscriber, run

from middleware.connect.messages.reading import Message, MessageReader
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.link.codec import Drops, EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.change import Delta
from middleware.model.errors import EventError
from middleware.model.values.nesting import MOST_NESTED, check_nesting, may_nest
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.storage.store import Store


class Doc(Event):
    body: Any


class Tree(msgspec.Struct):
    below: Tree | None


class Trees(Event):
    tree: Tree


class Plain(Event):
    names: list[dict[str, tuple[int, str]]]


class Copy(Event):
    body: Any


class Copies(Detector):
    subscribes, publishes = (Doc,), (Copy,)

    def __init__(self) -> None:
        self.last: Any = None

    def on_event(self, doc: Doc) -> Copy:
        self.last = doc.body
        return Copy(doc.body if doc.body != "deep" else nested(900), ts=doc.ts)


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


def docs(*bodies: Any) -> list[Event]:
    return [Doc(body, ts=n, id=n, source="s") for n, body in enumerate(bodies, 1)]


def test_only_types_that_can_nest_without_bounds_are_looked_at() -> None:
    assert [may_nest(kind) for kind in (Doc, Trees, Plain)] == [True, True, False]


def test_the_bound_is_the_same_for_collections_and_structs() -> None:
    tree = None
    for _ in range(MOST_NESTED):
        tree = Tree(tree)
    for kind, fits in ((Doc, nested(MOST_NESTED)), (Trees, tree)):
        check_nesting(kind, [fits])
        with pytest.raises(EventError, match="deeper than 64 levels"):
            check_nesting(kind, [[fits]] if kind is Doc else [Tree(fits)])


def test_what_fits_can_be_stored_in_any_state() -> None:
    types = EventTypes([Doc])
    (doc,) = docs(nested(MOST_NESTED))
    assert decode_state(encode_state([{"state": (doc, [doc])}], types), types) == [{"state": (doc, [doc])}]


def test_a_node_leaves_out_the_event_alone() -> None:
    drops = Drops()
    head, _ = encode_delta("Doc", Delta(docs(1, 2, 3)), raw=True)[0]
    block = msgspec.msgpack.encode(docs(nested(MOST_NESTED), nested(MOST_NESTED + 1), 3))
    read = EventCodec(EventTypes([Doc])).decode(head, block, drops)
    assert [event.id for event in read.inserts] == [1, 3]
    assert drops == {"malformed event": 1}


def test_a_run_refuses_it_and_a_result_is_a_failure_of_its_event() -> None:
    with pytest.raises(EventError, match="deeper than 64 levels"):
        run(docs(nested(MOST_NESTED + 1)), [Copies()])
    done = run(docs(1, "deep", 3), [Copies()], failing="skip")
    assert [event.body for event in done.finals["Copies"]] == [1, 3]
    assert "deeper than 64 levels" in done.failures["Copies"][0].traceback


def test_a_message_that_is_nested_too_deep_is_listed_with_the_reason() -> None:
    reader = MessageReader({"docs": "Doc"}, EventTypes([Doc]))
    bodies = [msgspec.json.encode({"body": body}) for body in (1, nested(900), 3)]
    events, unread = reader.read([Message(topic="docs", body=body, source="s", id=n, at=n) for n, body in enumerate(bodies, 1)])
    assert [event.body for event in events] == [1, 3]
    assert [("deeper than 64 levels" in each.reason) for each in unread] == [True]


def test_a_node_with_a_log_stays_up_and_its_publisher_is_notified(tmp_path: Path) -> None:
    node = Node(
        "hub",
        "tcp://127.0.0.1:*",
        processor=Hierarchy([Copies()]),
        types=EventTypes([Doc, Copy]),
        store=Store(tmp_path, "hub"),
    )
    thread = threading.Thread(target=node.run)
    thread.start()
    got: list[Any] = []
    with Subscriber(node.address, Copy, consistency="final") as reader, Publisher(node.address, types=[Doc]) as publisher:
        reader.wait_ready(20)
        with pytest.raises(EventError, match="deeper than 64 levels"):
            publisher.publish(docs(nested(900)))
        head, _ = encode_delta("Doc", Delta(docs(1, 2, 3)), raw=True)[0]
        publisher.publish_blocks([(head, msgspec.msgpack.encode(docs(1, nested(900), 3)))])  # from one that does not look
        publisher.advance([Doc], END)
        publisher.flush(20)
        while len(got) < 2:
            got += [change.event.body for change in reader.receive(20) if isinstance(change, Insert)]
    node.stop()
    thread.join()
    assert got == [1, 3]
