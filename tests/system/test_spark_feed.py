"""Feeding a trace from Spark executors into a real node: everything arrives, in step, on time, and failures are reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import AF_INET
from threading import Thread, Timer
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

from middleware.link.codec import BlockHead
from middleware.model.change import Change, Insert
from middleware.model.detector import Detector
from middleware.model.errors import TraceError
from middleware.model.event import END, Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.recordings.prepare.delays import parse_delays
from middleware.recordings.readers import open_recording
from middleware.recordings.traces import load_trace, read_trace
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.transport.keys import Keys, new_keys
from middleware.spark.feed.feed import Timetable, feed
from middleware.spark.prepare.prepare import prepare
from middleware.spark.session import spark_session

pytestmark = [pytest.mark.system, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
DEADLINE = 240.0
GROUP = 4_096
"""Rows of a row group: few, so that each of four partitions has some."""


class Beat(Event):
    number: int


class Tone(Event):
    pitch: float


TYPES = EventTypes([Beat, Tone])


def music(seed: int, seconds: float) -> dict[str, pa.Table]:
    """Six drums at 200 Hz, two flutes at 50 Hz."""
    tables: dict[str, list[pa.Table]] = {"Beat": [], "Tone": []}
    for player in range(8):
        rate, name = (200, "Beat") if player < 6 else (50, "Tone")
        ids = np.arange(int(rate * seconds))
        own = {"number": ids % 4} if name == "Beat" else {"pitch": 440.0 + ids}
        base = {"ts": ids * (10**9 // rate) + player, "id": ids, "source": [f"player-{player}"] * len(ids)}
        tables[name].append(pa.table(base | own))
    return {name: pa.concat_tables(some) for name, some in tables.items()}


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[object]:
    with spark_session(4) as session:
        yield session


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feed") / "trace"
    delays = parse_delays("uniform(5ms, 250ms)", duplicates=0.05, seed=1)
    prepare(open_recording([], generate=f"{__name__}:music", seconds=15), folder, delays, rows_per_group=GROUP)
    return folder


@contextmanager
def running_node(keys: Keys | None = None, processor: Hierarchy | None = None) -> Iterator[Node]:
    node = Node("hub", "tcp://127.0.0.1:*", processor=processor, types=TYPES, keys=keys)
    thread = Thread(target=node.run)
    thread.start()
    try:
        yield node
    finally:
        node.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


class Listener:
    """Collects what a subscriber hears until all types have ended, or it is stopped."""

    def __init__(self, address: str) -> None:
        self.changes: list[Change] = []
        self.ended = False
        self._stopped = False
        self._subscriber = Subscriber(address, ["Beat", "Tone"], event_types=TYPES)
        self._subscriber.wait_ready(DEADLINE)
        self._thread = Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        for change in self._subscriber:
            self.changes.append(change)
            if self._stopped:
                return
        self.ended = True

    def events(self) -> list[Event]:
        self._thread.join(DEADLINE)
        assert self.ended, "the end of the types did not arrive"
        self._subscriber.close()
        return [change.event for change in self.changes if isinstance(change, Insert)]


def expected(trace: Path) -> dict[tuple[str, int], Event]:
    return {(event.source, event.id): event for some in read_trace(trace, TYPES) for event in some}


def test_every_event_arrives_once_at_full_speed(trace: Path) -> None:
    with running_node() as node:
        listener = Listener(node.address)
        counts: list[int] = []
        report = feed(trace, node.address, speed=None, end=True, progress=lambda events, arrival: counts.append(events))
        events = listener.events()
    published = expected(trace)
    assert {(event.source, event.id): event for event in events} == published
    assert len(events) == len(published)
    assert report.events == load_trace(trace).events > len(published)
    assert report.attempts == 1
    assert [part.partition for part in report.partitions] == [0, 1]
    assert counts[-1] == report.events
    assert counts == sorted(counts)


def test_a_paced_feed_keeps_its_timetable(trace: Path, tmp_path: Path) -> None:
    announce = tmp_path / "announce.json"
    with running_node() as node:
        listener = Listener(node.address)
        began = time.time_ns()
        report = feed(trace, node.address, speed=4.0, partitions=1, end=True, announce=announce)
        ended = time.time_ns()
        listener.events()
    timetable = json.loads(announce.read_bytes())
    assert timetable == json.loads(json.dumps({name: getattr(report.timetable, name) for name in Timetable.__struct_fields__}))
    described = load_trace(trace)
    assert (timetable["first_arrival"], timetable["last_arrival"]) == (described.first_arrival, described.last_arrival)
    # Never early: the last event is due (last - first) / 4 after the start, and the feed cannot be over before.
    due = timetable["start"] + (timetable["last_arrival"] - timetable["first_arrival"]) / 4
    assert began < timetable["start"]
    assert ended >= due
    assert report.events == described.events


def test_a_node_that_asks_for_keys_is_fed_by_those_it_knows(trace: Path, tmp_path: Path) -> None:
    hub, feeder = new_keys("hub", tmp_path / "hub.key"), new_keys("feeder", tmp_path / "feeder.key")
    (tmp_path / "nodes").write_text(f"{hub.public} hub\n{feeder.public} feeder\n")
    with running_node(Keys.load(tmp_path / "hub.key", tmp_path / "nodes")) as node:
        report = feed(trace, node.address, speed=None, keys=(tmp_path / "feeder.key", tmp_path / "nodes"), node="hub")
        drops = node.statistics().drops
    assert report.events == load_trace(trace).events
    assert drops == {"duplicate": report.events - len(expected(trace))}


def test_executors_reach_a_driver_that_is_not_on_loopback(trace: Path) -> None:
    places = [each.address for some in psutil.net_if_addrs().values() for each in some if each.family == AF_INET]
    place = next((address for address in places if not address.startswith("127.")), "127.0.0.1")
    recorder = Recorder()
    report = feed(trace, "nowhere", speed=None, advertise=place, connect=lambda name: recorder)
    assert report.events == load_trace(trace).events == sum(head.count for frame in recorder.frames for head, _ in frame)
    assert recorder.calls == ["flushed"]  # no end, as none was asked for


class Recorder:
    """Stands in for a publisher: keeps all that it is given."""

    def __init__(self) -> None:
        self.frames: list[list[tuple[BlockHead, bytes]]] = []
        self.calls: list[str] = []

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None:
        self.frames.append(list(blocks))

    def flush(self, timeout: float) -> None:
        self.calls.append("flushed")

    def advance(self, types: Sequence[str], watermark: int) -> None:
        self.calls.append(f"end {' '.join(types)}")


def executors() -> list[psutil.Process]:
    """The Python processes in which Spark runs tasks: those that a daemon has forked."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            above = each.parent()
            if above is not None and all("pyspark.daemon" in " ".join(one.cmdline()) for one in (each, above)):
                found.append(each)
    return found


def test_a_node_is_sent_the_same_whatever_the_partitions_and_however_slow_one_is(trace: Path) -> None:
    sent: list[Recorder] = []

    def slow(events: int, arrival: int) -> None:
        if not stopped and (running := executors()):
            stopped.append(running[0])
            running[0].suspend()
            Timer(0.5, running[0].resume).start()

    groups = {name: -(-one.events // GROUP) for name, one in load_trace(trace).types.items()}
    assert groups["Tone"] == 1  # all partitions read it, but no other group is read twice
    for partitions, progress in ((1, print), (2, print), (4, print), (4, slow)):
        stopped: list[psutil.Process] = []
        sent.append(recorder := Recorder())
        report = feed(
            trace, "nowhere", speed=None, partitions=partitions, end=True, connect=lambda name: recorder, progress=progress
        )
        assert recorder.frames == sent[0].frames
        assert sum(part.groups for part in report.partitions) == groups["Beat"] + partitions * groups["Tone"]
    described = load_trace(trace)
    assert sum(head.count for frame in sent[0].frames for head, _ in frame) == described.events
    assert len(sent[0].frames) >= 3
    assert max(len(frame) for frame in sent[0].frames) == len(described.types)  # types go together
    assert sent[0].calls == ["end Beat Tone", "flushed"]


def test_without_an_end_another_recording_and_live_events_follow_into_the_same_node(trace: Path) -> None:
    with running_node() as node:
        listener = Listener(node.address)
        first = feed(trace, node.address, speed=None)
        again = feed(trace, node.address, speed=None)
        assert (first.repeats, first.rejected) == (first.events - len(expected(trace)), {})
        assert (again.repeats, again.rejected) == (first.events, {})
        with Publisher(node.address, types=[Beat]) as live:
            live.publish([Beat(7, ts=load_trace(trace).types["Beat"].last_ts + 1, id=1, source="live")])
            assert live.flush(DEADLINE).taken == 1
            live.advance(["Beat", "Tone"], END)
            events = listener.events()
    assert {(event.source, event.id): event for event in events} == expected(trace) | {("live", 1): events[-1]}
    assert len(events) == len(expected(trace)) + 1


class Counts(Detector):
    subscribes, publishes = (Beat, Tone), ()

    def on_event(self, event: Event) -> None:
        pass


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_a_feed_as_fast_as_it_goes_makes_no_event_late(trace: Path, partitions: int) -> None:
    hierarchy = Hierarchy([Counts()])
    with running_node(processor=hierarchy) as node:
        report = feed(trace, node.address, speed=None, partitions=partitions, end=True)
    (found,) = hierarchy.statistics()
    described = load_trace(trace)
    assert (found.received, found.late, report.rejected) == (len(expected(trace)), 0, {})
    assert 0 < found.k <= max(one.max_lateness for one in described.types.values())


class Broken(Recorder):
    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None:
        super().publish_blocks(blocks)
        if len(self.frames) > 1:
            raise ConnectionError("the cable is cut")


def test_a_publisher_that_fails_ends_the_feed_without_an_end(trace: Path) -> None:
    broken = Broken()
    with pytest.raises(TraceError, match=r"the cable is cut.*its end was not announced"):
        feed(trace, "nowhere", speed=1.0, connect=lambda name: broken)
    assert broken.calls == []


def test_an_executor_that_is_killed_ends_the_feed_without_an_end(trace: Path) -> None:
    recorder = Recorder()

    def kill(events: int, arrival: int) -> None:
        for each in executors():
            with suppress(psutil.NoSuchProcess):
                each.kill()

    with pytest.raises(TraceError, match=r"the feed failed: .*its end was not announced"):
        feed(trace, "nowhere", speed=0.01, connect=lambda name: recorder, progress=kill)
    assert recorder.calls == []


def test_an_announcement_that_cannot_be_written_ends_the_feed(trace: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    with pytest.raises(TraceError, match="announce"):
        feed(trace, "nowhere", connect=lambda name: recorder, announce=tmp_path / "gone" / "announce.json")
    assert recorder.frames == recorder.calls == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"speed": 0.0}, "does not move"), ({"partitions": 0}, "at least one"), ({"partitions": 9}, "needs")],
)
def test_wrong_arguments_are_reported(trace: Path, wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        feed(trace, "nowhere", connect=lambda name: Recorder(), **wrong)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from middleware.cli.main import main; main()", "trace", *map(str, arguments)]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}


def test_the_command_feeds_and_says_so_in_json(trace: Path) -> None:
    with running_node() as node:
        listener = Listener(node.address)
        done = subprocess.run(
            command("feed", trace, node.address, "--speed", "max", "--end", "--json", "-"),
            env=environment(), capture_output=True, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        events = listener.events()
    report = json.loads(done.stdout)
    assert report["events"] == load_trace(trace).events
    assert len(events) == len(expected(trace))


def test_ctrl_c_ends_the_command_cleanly(trace: Path, tmp_path: Path) -> None:
    announce = tmp_path / "announce.json"
    with running_node() as node:
        process = subprocess.Popen(
            command("feed", trace, node.address, "--speed", "0.01x", "--announce", announce),
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + DEADLINE
        while not announce.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert announce.exists(), process.communicate()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
