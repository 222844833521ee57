"""``slackline why-waiting`` on real nodes: it names the source, the key and the buffer that hold a stream back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from test_network import DEADLINE, Echo, Event, EventTypes, Hit, node_thread, poll_until
from typer.testing import CliRunner

from middleware.broker.ingress.sources import SourcePolicy
from middleware.cli.main import application
from middleware.model.detector import Detector
from middleware.model.errors import NetworkError
from middleware.model.event import END
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack
from middleware.runtime.clients import Publisher
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.report import Reporter

pytestmark = pytest.mark.system


class Sum(Event):
    peak: float


class Echoing(Detector):
    subscribes, publishes, key = (Hit,), (Echo,), "text"

    def on_event(self, event: Event) -> Event:
        return Echo(0.5, ts=event.ts)


class Summing(Detector):
    subscribes, publishes = (Echo,), (Sum,)

    def on_event(self, event: Event) -> Event:
        return Sum(0.5, ts=event.ts)


TYPES = EventTypes([Hit, Echo, Sum])
DETECTORS = {"Echoing": Echoing(), "Summing": Summing()}
PATIENT = Policies(slack=lambda: FixedSlack(5 * SECOND))


def processor(name: str) -> Reporter:
    return Reporter(Hierarchy(DETECTORS, [name], PATIENT))


def asked(*arguments: str) -> list[str]:
    """The lines of all explanations (those of the nodes of this process, which log here too, are not among them)."""
    with tempfile.NamedTemporaryFile() as file:
        answer = CliRunner().invoke(application(), ["why-waiting", *arguments, "--json", file.name])
        assert answer.exit_code == 0, answer.output
        explained = msgspec.json.decode(Path(file.name).read_bytes())["explained"]
    lines = [line.strip() for lines in explained.values() for line in lines]
    assert all(line in answer.stdout for line in lines)
    return lines


def hit(ts: int, source: str, text: str) -> Event:
    return Hit(0.5, text, ts=ts, id=ts, source=source)


def test_a_stream_is_followed_over_two_nodes_down_to_the_publisher_that_holds_it_back(tmp_path: Path) -> None:
    addresses = {name: f"ipc://{tmp_path}/{name}" for name in "ab"}
    with (
        node_thread("a", addresses["a"], addresses, processor("Echoing"), TYPES) as first,
        node_thread("b", addresses["b"], addresses, processor("Summing"), TYPES) as second,
        Publisher(first.address, name="lively", types=[Hit]) as lively,
        Publisher(first.address, name="sleepy", types=[Hit]) as sleepy,
        Inquiry(second.address) as inquiry,
    ):
        sleepy.publish([hit(100 * SECOND, "gauge", "north")])
        sleepy.advance(Hit, 100 * SECOND)
        sleepy.flush(DEADLINE)  # or what is lively could come before it, and make it late
        lively.publish([hit(101 * SECOND, "meter", "east"), hit(104 * SECOND, "meter", "west")])
        lively.advance(Hit, 104 * SECOND)
        lively.flush(DEADLINE)

        def arrived() -> bool:
            (unit,) = inquiry.ask(DEADLINE).units
            return unit.watermark == 100 * SECOND

        poll_until(arrived, "the promise has come up")
        lines = asked(addresses["b"], addresses["a"], "--type", "Sum")
        assert lines[0] == f"Sum: final up to {100 * SECOND} (4s behind the clock), made by Summing on node b"
        assert any(line.startswith("waits for its input Echo, promised up to") for line in lines)
        assert f"Echo: final up to {100 * SECOND} (4s behind the clock), made by Echoing on node a" in lines
        buffer = next(
            line for line in lines if line.startswith("buffer: 2 events wait, the first Hit from 'meter' of key 'east'")
        )
        assert f"when clk ({104 * SECOND}) reaches {101 * SECOND} + 1 * K (5s)" in buffer
        culprit, other = [line for line in lines if line.startswith("publisher")]
        assert culprit.startswith(f"publisher sleepy: promised up to {100 * SECOND} (4s behind the clock); last message")
        assert other.startswith("publisher lively: promised up to")
        assert "ask node a too, by giving its address" in asked(addresses["b"])
        sleepy.advance(Hit, END)
        lively.advance(Hit, END)
        poll_until(lambda: inquiry.ask(DEADLINE).units[0].watermark == END, "the end has come up")
        assert asked(addresses["b"], addresses["a"], "--type", "Sum") == ["Sum: final to the end, made by Summing on node b"]


def test_silence_and_what_nobody_offers_are_named() -> None:
    policy = SourcePolicy(idle=SECOND // 10)
    with (
        node_thread("a", "tcp://127.0.0.1:*", None, processor("Echoing"), TYPES, sources=policy) as node,
        Publisher(node.address, name="p", types=[Hit]) as publisher,
        Inquiry(node.address) as inquiry,
    ):
        text = "".join(asked(node.address))
        assert "waits for the clock: nobody promises for Hit" in text and "no event has come yet" in text
        publisher.publish([hit(5 * SECOND, "gauge", "north")])
        publisher.flush(DEADLINE)
        poll_until(lambda: inquiry.ask(DEADLINE).streams["Hit"].promised is not None, "the node stands in for it")
        assert "silent: the node promises for it" in "".join(asked(node.address, "--type", "Hit"))
        assert asked(node.address, "--type", "Nonsense") == ["Nonsense: no node that was asked knows this type"]


def test_a_node_that_does_not_answer_is_a_clear_error() -> None:
    with Inquiry("tcp://127.0.0.1:9", patience=0.3) as inquiry, pytest.raises(NetworkError, match="does not answer"):
        inquiry.ask(5.0)
