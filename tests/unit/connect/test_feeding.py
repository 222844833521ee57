"""A source is acknowledged only once the node has the events, and a ledger the others; with a node that loses its mind."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline_benchmarks.servers import until

from detectors.cql import compile_cql
from middleware.connect.connectors import Connectors
from middleware.connect.feeding import Feed
from middleware.connect.messages.message_blocks import Blocks
from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import Message, Messages, MissingMessage
from middleware.extensions import fitting
from middleware.model.errors import ScenarioError, SlacklineError, SourceError, UnreachableError
from middleware.model.event import NEVER, Event, EventTypes
from middleware.runtime.clients import Receipt
from middleware.runtime.endpoints import expanded
from middleware.runtime.scenario import load_scenario
from middleware.runtime.storage.late_ledger import Ledger, read_ledger


class Place(Event):
    x: float


class Script:
    """A source that gives these batches, then is lost or has no more; and a publisher that answers with these receipts."""

    address = "tcp://nowhere"

    def __init__(self, batches: list[list[Message]], receipts: list[Receipt], is_lost: bool = False) -> None:
        self.batches, self.receipts, self.is_lost = batches, receipts, is_lost
        self.log: list[tuple[str, Any]] = []

    def receive(self, timeout: float) -> Messages:
        if self.batches:
            return Messages.of(self.batches.pop(0))
        if self.is_lost:
            raise UnreachableError("lost")
        return Messages()

    def acknowledge(self, messages: Messages) -> None:
        self.log.append(("acknowledged", list(messages.ids)))

    def close(self) -> None:
        pass

    def publish_blocks(self, blocks: Blocks) -> None:
        events = [event for _, block in blocks for event in msgspec.msgpack.decode(block, type=list[Place])]
        self.log.append(("published", [event.id for event in events]))

    def flush(self) -> Receipt:
        self.log.append(("flushed", None))
        return self.receipts.pop(0)


def message(number: int, content: object = 1.5) -> Message:
    return Message("places", json.dumps({"x": content}).encode(), "src", number, 1_000 + number)


def feed(script: Script, folder: Path) -> Feed:
    reader = MessageReader({"places": "Place"}, EventTypes([Place]))
    with closing(Ledger("hub", folder)) as ledger:
        feed = Feed(script, reader, ledger, lambda: not script.batches and not script.is_lost)  # type: ignore[arg-type]
        feed.run(script)
    return feed


class Halves(Script):
    """A source of two parts; ``more``: which of them have more, after each batch."""

    def __init__(self, batches: list[list[Message]], more: list[set[str]]) -> None:
        super().__init__(batches, [Receipt(taken=1)] * len(batches))
        self.more = [set[str](), *more]

    def receive(self, timeout: float) -> Messages:
        found = super().receive(timeout) if timeout else Messages()  # each batch is stored before the next comes
        if found:
            del self.more[0]
        return found

    def behind(self) -> set[str]:
        return self.more[0]

    def advance(self, types: list[type[Event]], watermark: int) -> None:
        assert types == [Place]
        self.log.append(("promised", watermark))


def test_watermarks_follow_the_part_that_is_furthest_behind(tmp_path: Path) -> None:
    def part(name: str, number: int) -> list[Message]:
        return [Message("places", b'{"x": 1.5}', name, number, 1_000 + number)]

    script = Halves(
        [part("a", 500), part("b", 100), part("b", 90), part("b", 700), part("a", 600)],
        [{"a", "b"}, {"a", "b"}, {"b"}, {"a"}, set()],
    )
    reader = MessageReader({"places": "Place"}, EventTypes([Place]))
    with closing(Ledger("hub", tmp_path)) as ledger:
        Feed(script, reader, ledger, lambda: not script.batches, disorder=10).run(script)  # type: ignore[arg-type]
    entries = [entry for what, entry in script.log if what in ("published", "promised")]
    assert entries == [NEVER + 1, [500], [100], 1_089, [90], [700], 1_489, [600], 1_689]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(0, 20))
def test_no_promise_covers_a_message_within_the_disorder(steps: list[int], disorder: int) -> None:
    numbers = [1 + sum(steps[: place + 1]) for place in range(len(steps))]
    arrived = [each for number in numbers for each in (number, max(number - disorder, 1))]
    script = Halves([[message(each)] for each in arrived], [set() for _ in arrived])
    reader = MessageReader({"places": "Place"}, EventTypes([Place]))
    with TemporaryDirectory() as folder, closing(Ledger("hub", Path(folder))) as ledger:
        Feed(script, reader, ledger, lambda: not script.batches, disorder=disorder).run(script)  # type: ignore[arg-type]
    promised = NEVER
    for what, entry in script.log:
        if what == "promised":
            promised = entry
        elif what == "published":
            assert all(1_000 + number > promised for number in entry), "a promise covers what keeps to the disorder"
    assert promised == 1_000 + numbers[-1] - disorder - 1, "and no time less than that is promised"


def test_a_wrong_clock_that_is_far_ahead_moves_no_promise(tmp_path: Path) -> None:
    now = time.time_ns()
    days = [Message("places", b'{"x": 1.5}', "a", number, at) for number, at in ((1, now - 9), (2, now + 3 * 86_400 * 10**9))]
    script = Halves([[each] for each in days], [set(), set()])
    reader = MessageReader({"places": "Place"}, EventTypes([Place]))
    with closing(Ledger("hub", tmp_path)) as ledger:
        Feed(script, reader, ledger, lambda: not script.batches, disorder=10).run(script)  # type: ignore[arg-type]
    assert [entry for what, entry in script.log if what == "promised"] == [NEVER + 1, now - 20]


def test_it_acknowledges_once_all_is_stored_and_listed(tmp_path: Path) -> None:
    script = Script([[message(1), message(2, "far")], [message(3)]], [Receipt(taken=2)])
    done = feed(script, tmp_path)
    assert script.log == [("published", [1]), ("published", [3]), ("flushed", None), ("acknowledged", [1, 2, 3])]
    assert (done.taken, done.unread) == (2, 1)
    (entry,) = read_ledger(tmp_path)
    assert (entry.reason, entry.type, entry.source, entry.id, entry.ts) == ("unread", "Place", "src", 2, 1_002)
    assert "Expected `float`" in entry.details


def test_what_a_server_has_no_more_is_listed_and_acknowledged(tmp_path: Path) -> None:
    gone = Message("places", MissingMessage(b"5 to 9 were deleted"), "src", 9, 1_009)
    script = Script([[message(4), gone, message(10)]], [Receipt(taken=2)])
    feed(script, tmp_path)
    assert script.log == [("published", [4, 10]), ("flushed", None), ("acknowledged", [4, 9, 10])]
    (entry,) = read_ledger(tmp_path)
    assert (entry.reason, entry.details, entry.id) == ("unread", "5 to 9 were deleted", 9)


def test_what_the_node_cannot_answer_for_is_published_again(tmp_path: Path) -> None:
    script = Script([[message(1), message(2)]], [Receipt(taken=1, unknown=1), Receipt(taken=1, repeats=1)])
    feed(script, tmp_path)
    assert script.log == [
        ("published", [1, 2]),
        ("flushed", None),
        ("published", [1, 2]),
        ("flushed", None),
        ("acknowledged", [1, 2]),
    ]


def test_late_events_are_the_nodes_to_list_and_others_that_it_refuses_end_it(tmp_path: Path) -> None:
    script = Script([[message(1)]], [Receipt(rejected={"late for what was promised": 1})])
    feed(script, tmp_path)
    assert script.log[-1] == ("acknowledged", [1])
    refused = Script([[message(1)]], [Receipt(rejected={"unknown type": 1})])
    with pytest.raises(SourceError, match="1 x unknown type; nothing is acknowledged"):
        feed(refused, tmp_path)
    assert "acknowledged" not in dict(refused.log)


def test_what_is_held_when_the_server_is_lost_is_not_acknowledged(tmp_path: Path) -> None:
    script = Script([[message(1)]], [Receipt(taken=1)], is_lost=True)
    with pytest.raises(UnreachableError):
        feed(script, tmp_path)
    assert script.log == [("published", [1])]


PLANT = """
from slackline import Detector, Event

class Place(Event):
    x: float

class Step(Event):
    dx: float

class Steps(Detector):
    subscribes, publishes = (Place,), (Step,)

    def on_event(self, event):
        return Step(event.x, ts=event.ts)
"""

TOP = 'name = "p"\ndetectors = ["connected_plant:Steps"]\n[[nodes]]\nname = "n"\ndetectors = ["*"]\n'
HUB = '[[inputs]]\nname = "hub"\nfrom = "{}"\ntypes = {{ t = "{}" }}\n'
KEEP = '[[outputs]]\nname = "keep"\nto = "x.jsonl"\ntypes = ["{}"]\nnode = "{}"\n'


def test_a_file_names_its_ends_and_its_mistakes_are_reported(tmp_path: Path) -> None:
    (tmp_path / "connected_plant.py").write_text(PLANT)
    file = tmp_path / "nodes.toml"

    def refused(text: str, match: str) -> None:
        file.write_text(TOP + text)
        with pytest.raises(ScenarioError, match=match):
            Connectors(load_scenario(tmp_path), {"n": "tcp://127.0.0.1:1"}, tmp_path / "state", ["hub"])

    refused(HUB.format("mqtt://h", "Plaice"), "inputs.hub: there is no event type 'Plaice'")
    refused(KEEP.format("Step", "m"), "outputs.keep: there is no node 'm'")
    refused(2 * HUB.format("mqtt://h", "Place"), r"inputs.hub: two have this name")
    refused("", r"has no \[\[inputs\]\] and no \[\[outputs\]\]")
    refused(KEEP.format("Step", "n"), "has no input or output 'hub'; it has keep")
    file.write_text(TOP + HUB.format("gopher://h", "Place"))
    connections = Connectors(load_scenario(tmp_path), {"n": "tcp://127.0.0.1:1"}, tmp_path / "state")
    with pytest.raises(ScenarioError, match="there is no connector 'gopher'; there are http, kafka, mqtt"):
        connections.run()


@pytest.mark.parametrize(
    ("end", "options", "message"),
    [
        (HUB.format("mqtt://h", "Place"), 'window = "many"', "mqtt: option window: Expected `int`, got `str`"),
        (HUB.format("mqtt://h", "Place"), "session = -1", "mqtt: option session: Expected `int` >= 0"),
        (HUB.format("mqtt://h", "Place"), "colour = 1", "mqtt: there is no option 'colour'; there are window, session"),
        (HUB.format("http://127.0.0.1:0", "Place"), "token = 5", "http: option token: Expected `str | null`, got `int`"),
        (HUB.format("kafka://h", "Place"), "start = 5", "kafka: option start: Expected `str`, got `int`"),
        (HUB.format("postgresql://h", "Place"), "slot = 5", "postgresql: there is no option 'slot'; there are none"),
        (KEEP.format("Step", "n").replace("x.jsonl", "postgresql://a:secret@h"), "schema = 1", "postgresql: option schema: "),
        (KEEP.format("Step", "n").replace("x.jsonl", "http://h"), "timeout = 0", "http: option timeout: Expected `float` > 0"),
        (KEEP.format("Step", "n").replace("x.jsonl", "mqtt://h/x"), 'name = "y"', "mqtt: there is no option 'name'"),
        (
            KEEP.format("Step", "n").replace("x.jsonl", "ws://127.0.0.1"),
            'origins = "*"',
            "ws: option origins: Expected `array`",
        ),
    ],
)
def test_an_option_that_does_not_fit_is_reported_with_its_place(end: str, options: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "connected_plant.py").write_text(PLANT)
    (tmp_path / "nodes.toml").write_text(TOP + end + f"options = {{ {options} }}\n")
    connections = Connectors(load_scenario(tmp_path), {"n": "tcp://127.0.0.1:1"}, tmp_path / "state")
    with pytest.raises(SlacklineError, match=re.escape(message)) as refused:
        connections.run()
    (note,) = refused.value.__notes__
    assert str(tmp_path / "nodes.toml") in note and "secret" not in str(refused.value)


def test_a_text_is_read_as_the_number_that_an_option_wants() -> None:
    """Environment variables are texts."""

    def make(address: str, name: str, *, window: int = 1, timeout: float = 1.0, **more: object) -> None:
        pass

    assert fitting(make, {"window": "5", "timeout": 3, "other": "5"}) == {"window": 5, "timeout": 3.0, "other": "5"}


class Lacking:
    """A connector whose library is not installed."""

    def load(self) -> None:
        raise ModuleNotFoundError("No module named 'paho'", name="paho")


def test_a_library_that_is_missing_is_reported_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "connected_plant.py").write_text(PLANT)
    (tmp_path / "nodes.toml").write_text(TOP + HUB.format("mqtt://h", "Place"))
    monkeypatch.setattr("middleware.connect.connectors.extensions", lambda _: {"mqtt": Lacking()})
    with pytest.raises(SlacklineError, match=r"input hub needs paho; .*mqtt"):
        Connectors(load_scenario(tmp_path), {"n": "tcp://127.0.0.1:1"}, tmp_path / "state").run()


def test_addresses_have_environment_variables_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQTT_PASSWORD", "secret")
    assert expanded("mqtt://app:${MQTT_PASSWORD}@h") == "mqtt://app:secret@h"
    with pytest.raises(ScenarioError, match="MQTT_NONE is not set"):
        expanded("mqtt://app:$MQTT_NONE@h")


LINES = "CREATE STREAM {0} (ts Long NOT NULL, x Int NOT NULL) SOURCE FILE ('{0}.csv', ',') DISORDER 2 seconds;"


def test_no_line_is_read_before_all_lines_are_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line moves the clock of the node, and the clock decides for a type of which nothing is promised."""
    calls: list[str] = []
    has_waited, may_promise = threading.Event(), threading.Event()

    class Publisher:
        address = "tcp://nowhere"

        def __init__(self, address: str, types: set[str], **_: object) -> None:
            (self.type,) = types

        def advance(self, types: list[type[Event]], watermark: int) -> None:
            if self.type == "Slow" and watermark == NEVER + 1:
                has_waited.wait(60)
                assert not any(each.startswith("published") for each in calls)
                may_promise.wait(60)
            calls.append(f"promised {self.type} {watermark - NEVER}")

        def publish_blocks(self, blocks: Blocks) -> None:
            calls.append(f"published {self.type}")

        def flush(self) -> Receipt:
            if self.type == "Quick":
                has_waited.set()
            return Receipt(taken=1)

        def close(self) -> None:
            pass

    monkeypatch.setattr("middleware.connect.connectors.Publisher", Publisher)
    (tmp_path / "connected_plant.py").write_text(PLANT)
    (tmp_path / "nodes.toml").write_text(TOP)
    for name in ("Quick", "Slow"):
        (tmp_path / f"{name}.csv").write_text("1,2\n")
    script = compile_cql("".join(map(LINES.format, ("Quick", "Slow"))) + "MERGE Quick, Slow INTO Both", folder=tmp_path)
    sources = script.operators[0].sources
    connections = Connectors(load_scenario(tmp_path), {"n": "tcp://127.0.0.1:1"}, None, sources=sources)
    running = threading.Thread(target=connections.run)
    running.start()
    may_promise.set()
    until(lambda: sum(each.startswith("published") for each in calls) == 2, "both are read", 60)
    connections.end()
    running.join(60)
    assert sorted(calls[:2]) == ["promised Quick 1", "promised Slow 1"]
