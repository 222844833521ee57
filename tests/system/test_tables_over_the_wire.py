"""Tables in at one end and out at the other, over real sockets: the same events as by rows, and bad ones refused whole."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs
from test_network import DEADLINE, TYPES, Echo, Echoes, Hit, NodeProcess, Other, collect, hits, node_thread
from test_network_security import drops

from middleware.link.codec import BlockHead, arrival_order_of
from middleware.link.columnar import pack_columns
from middleware.model.block.block import Block
from middleware.model.detector import Detector
from middleware.model.errors import EventError, NetworkError
from middleware.model.event import END, Event
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.clients.asynchronous import AsyncPublisher, AsyncSubscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

COUNT = 1_000


class Doubles(Detector):
    subscribes, publishes = (Hit,), (Echo,)

    def on_event(self, event: Hit) -> Echo:
        return Echo(2 * event.peak, ts=event.ts)


def table(first: int = 0, count: int = COUNT) -> pa.Table:
    return pa.Table.from_batches([Block.from_events(Hit, hits(first, count)).batch])


def tables_to_end(subscriber: Subscriber) -> pa.Table:
    found = []
    while not subscriber.has_ended:
        found.append(subscriber.receive_table(DEADLINE))
    return pa.concat_tables(found)


def heads_of(subscriber: Subscriber) -> list[BlockHead]:
    """The heads of the next blocks that there are."""
    deadline = time.monotonic() + DEADLINE
    while not (heads := [head for head, _ in subscriber.receive_encoded(1.0)]):
        assert time.monotonic() < deadline, f"no block within {DEADLINE} s"
    return heads


def events_in(found: pa.Table) -> list[Event]:
    return Block.of(Hit, found).events()


@pytest.fixture
def node() -> Iterator[Node]:
    with node_thread("a", "tcp://127.0.0.1:*", processor=Echoes(), types=TYPES) as running:
        yield running


def test_a_table_comes_out_as_it_went_in_for_readers_of_any_kind(node: Node) -> None:
    with (
        Subscriber(node.address, Hit, consistency="final") as final,
        Subscriber(node.address, Hit) as early,
        Subscriber(node.address, Echo, consistency="final") as results,
    ):
        for each in (final, early, results):
            each.wait_ready(DEADLINE)
        with Publisher(node.address, types=[Hit]) as publisher:
            mixed = table().take(pa.array([n ^ 7 for n in range(COUNT)]))
            publisher.publish_table(mixed, type=Hit)
            publisher.publish_table(table(COUNT, 10), type=Hit)  # so few that they go as rows
            publisher.publish(hits(COUNT + 10, 5))
            publisher.publish_table(table(), type=Hit)  # again
            old, gone = hits(3, 2)
            publisher.revise(old, Hit(9.5, "new", ts=old.ts, id=old.id, source=old.source))
            publisher.retract(gone)
            publisher.advance([Hit], END)
            receipt = publisher.flush(DEADLINE)
        assert (receipt.taken, receipt.repeats, receipt.rejected) == (COUNT + 17, COUNT, {})
        expected = [event for event in hits(0, COUNT + 15) if event.id != 4]
        expected[3] = Hit(9.5, "new", ts=old.ts, id=old.id, source=old.source)
        assert events_in(tables_to_end(final)) == expected
        found = tables_to_end(early)
        ops = found["op"].to_pylist()
        assert len(found) - 2 * ops.count("retract") - ops.count("revise") == len(expected)
        # what is withdrawn may have come and gone before Echoes sees it
        assert tables_to_end(results).num_rows in (COUNT + 15, COUNT + 14)
    assert drops(node) == {"duplicate": COUNT}


def test_tables_of_several_types_keep_the_order_in_which_their_rows_came(node: Node) -> None:
    """As the same events by rows: the clock has not gone ahead of any."""
    others = [Other("x", ts=event.ts, id=event.id, source="other") for event in hits(0, 3 * COUNT)]
    own, strange = (Block.from_events(type(each[0]), each).batch for each in (hits(0, 3 * COUNT), others))
    tables = {Hit: own.append_column("arrival", pa.array(range(3 * COUNT)))}
    tables[Other] = strange.append_column("arrival", pa.array([n + n % 2 for n in range(3 * COUNT)]))
    with Subscriber(node.address, [Hit, Other]) as subscriber, Publisher(node.address) as publisher:
        subscriber.wait_ready(DEADLINE)
        publisher.publish_tables(tables)
        with pytest.raises(EventError, match="gives their order: Hit"):
            publisher.publish_tables({Hit: own})
        came: dict[str, list[int]] = {"Hit": [], "Other": []}
        while sum(map(len, came.values())) < 6 * COUNT:
            for head, _ in subscriber.receive_encoded(DEADLINE):
                assert head.columns and head.arrival_order is not None
                came[head.type] += arrival_order_of(head, head.inserts) or []
    expected = sorted([(n, 0, n) for n in range(3 * COUNT)] + [(n + n % 2, 1, n) for n in range(3 * COUNT)])
    assert [came["Hit"], came["Other"]] == [[at for at, each in enumerate(expected) if each[1] == kind] for kind in (0, 1)]


def test_rows_are_numbered_where_a_table_has_no_ids(node: Node) -> None:
    bare = table().select(["peak", "text", "ts"])
    with Subscriber(node.address, Hit) as subscriber, Publisher(node.address) as publisher:
        subscriber.wait_ready(DEADLINE)
        publisher.publish_table(bare, type=Hit, source="meter")
        publisher.publish_table(bare.to_batches()[0], type=Hit, source="meter")
        events = collect(subscriber, 2 * COUNT)
        assert [(event.source, event.id) for event in events] == [("meter", n) for n in range(2 * COUNT)]
        publisher.publish_table(bare, type=Hit)
        assert {event.source.split("@")[0] for event in collect(subscriber, COUNT)} == {publisher.name}


def test_threads_that_share_a_publisher_number_rows_one_after_the_other(node: Node) -> None:
    large, rounds = table(count=9_000).select(["peak", "text", "ts"]), 3
    with Publisher(node.address) as publisher:

        def work() -> None:
            for _ in range(rounds):
                publisher.publish_table(large, type=Hit, source="meter")

        threads = [threading.Thread(target=work) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        receipt = publisher.flush(DEADLINE)
    assert (receipt.taken, receipt.repeats, receipt.rejected) == (2 * rounds * len(large), 0, {})


def test_closing_without_the_node_says_what_it_never_took() -> None:
    node = NodeProcess("a", "tcp://127.0.0.1:*")
    publisher = Publisher(node.address)
    publisher.publish(hits(0, 3))
    publisher.flush(DEADLINE)
    node.kill()
    publisher.publish(hits(3, 3))
    with capture_logs() as logs:
        publisher.close()
    (error,) = [each for each in logs if each["log_level"] == "error"]
    assert error["event"] == "closed before the node had taken all events" and "flush" in error["hint"]


def test_what_cannot_be_an_event_is_an_error_before_anything_is_sent(node: Node) -> None:
    with Publisher(node.address) as publisher:
        with pytest.raises(EventError, match=r"Hit\.peak is null in row 3"):
            publisher.publish_table(table().set_column(0, "peak", [[0.5] * 3 + [None] * (COUNT - 3)]), type=Hit)
        with pytest.raises(EventError, match="lacks ts"):
            publisher.publish_table(table().drop_columns(["ts"]), type=Hit)
        with pytest.raises(EventError, match="raw events only"):
            publisher.publish_table(table().append_column("level", [[1] * COUNT]), type=Hit)
        assert publisher.flush(DEADLINE).taken == 0


def test_bad_columns_are_refused_whole_counted_and_reported(node: Node) -> None:
    batch = table().to_batches()[0]
    good = pack_columns(batch)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    with Subscriber(node.address, Hit) as subscriber, Publisher(node.address, types=[Hit]) as publisher:
        subscriber.wait_ready(DEADLINE)
        for block in (good[: len(good) // 2], bytes(out.getvalue()), pack_columns(batch.drop_columns(["peak"]))):
            publisher.publish_blocks([(BlockHead("Hit", COUNT, raw=True, newest=10_000, columns=True), block)])
        publisher.publish(hits(0, 3))
        receipt = publisher.flush(DEADLINE)
        assert receipt.taken == 3 and receipt.rejected == {"malformed block": 3 * COUNT}
        assert any("compressed" in sample.details for sample in receipt.samples)
        assert collect(subscriber, 3) == hits(0, 3)
    assert drops(node) == {"malformed block": 3 * COUNT}


def test_peers_that_take_no_columns_get_rows(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A former version, or a process without Arrow, at either end."""
    with Subscriber(node.address, Hit) as modern:
        modern.wait_ready(DEADLINE)
        monkeypatch.setattr("middleware.link.link.takes_columns", lambda: False)
        with Subscriber(node.address, Hit) as former:
            former.wait_ready(DEADLINE)
            monkeypatch.undo()
            with Publisher(node.address) as publisher:
                publisher.publish_table(table(), type=Hit)
                assert publisher.flush(DEADLINE).taken == COUNT
            assert not any(head.columns for head in heads_of(former))
            assert all(head.columns for head in heads_of(modern))


def test_a_publisher_sends_rows_to_a_node_that_takes_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("middleware.link.link.takes_columns", lambda: False)
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        with Publisher(node.address) as publisher:
            publisher.publish_table(table(), type=Hit)
            heads = heads_of(subscriber)
            assert sum(head.inserts for head in heads) == COUNT and not any(head.columns for head in heads)


def test_a_node_with_a_log_resumes_after_columns(tmp_path: Path) -> None:
    """Its log has the blocks as they came: repeats are known in the next life, and readers are served from it."""
    for life in range(3):
        store = Store(tmp_path, "a")
        with node_thread("a", "tcp://127.0.0.1:*", processor=Hierarchy({"E": Doubles()}), types=TYPES, store=store) as node:
            with Subscriber(node.address, Echo, consistency="final", resume="reader") as reader:
                reader.wait_ready(DEADLINE)
            with Publisher(node.address, types=[Hit]) as publisher:
                publisher.publish_table(table(0, COUNT * (life + 1)), type=Hit)
                if life == 2:
                    publisher.advance([Hit], END)
                receipt = publisher.flush(DEADLINE)
                assert (receipt.taken, receipt.repeats) == (COUNT, COUNT * life)
            if life == 2:
                with Subscriber(node.address, Echo, consistency="final", resume="reader") as reader:
                    found = tables_to_end(reader)
    assert found["ts"].to_pylist() == [event.ts for event in hits(0, 3 * COUNT)]


def test_asyncio_publishes_and_receives_tables(node: Node) -> None:
    async def both() -> pa.Table:
        async with AsyncSubscriber(node.address, Hit) as subscriber, AsyncPublisher(node.address) as publisher:
            await subscriber.wait_ready(DEADLINE)
            await publisher.publish_table(table(), type=Hit)
            return (await subscriber.receive_tables(DEADLINE))["Hit"]

    assert events_in(asyncio.run(both()).drop_columns(["op"])) == hits(0, COUNT)


def test_rows_that_are_given_again_after_an_error_count_once() -> None:
    rows = pa.table({"peak": [0.5] * 200_000, "text": ["some text"] * 200_000, "ts": range(1, 200_001)})
    with NodeProcess("a", "tcp://127.0.0.1:*") as node, Publisher(node.address, types=[Hit], patience=1.0) as publisher:
        publisher.publish_table(table(count=1), Hit)
        publisher.flush(DEADLINE)
        assert node.process.pid is not None
        os.kill(node.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(NetworkError):
                publisher.publish_table(rows, Hit, source="rows")
        finally:
            os.kill(node.process.pid, signal.SIGCONT)
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:  # until the node answers again
            with suppress(NetworkError):
                publisher.publish_table(rows, Hit, source="rows")
                break
        receipt = publisher.flush(DEADLINE)
    assert receipt.taken == 200_000 and receipt.repeats > 0 and not receipt.rejected


def test_what_is_no_table_of_events_is_reported_and_uses_up_no_numbers(node: Node) -> None:
    good = pa.table({"text": ["a", "b"], "ts": [1, 2], "arrival": [0, 1]})
    bad = pa.table({"ts": [1], "arrival": [2]})
    with Subscriber(node.address, [Other]) as subscriber, Publisher(node.address) as publisher:
        subscriber.wait_ready(DEADLINE)
        with pytest.raises(EventError, match=r"a subclass of slackline\.Event, not of 'Other'"):
            publisher.publish_table(good, "Other")
        with pytest.raises(EventError, match="a text, not 5"):
            publisher.publish_table(good, Other, source=5)  # type: ignore[arg-type]
        with pytest.raises(EventError, match="Hit: the table lacks"):
            publisher.publish_tables({Other: good, Hit: bad}, source="mine")
        publisher.publish_tables({Other: good}, source="mine")
        publisher.advance(Other, END)
        assert tables_to_end(subscriber)["id"].to_pylist() == [0, 1]
