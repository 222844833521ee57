"""Clients that are shared, stopped in between, or misused: nothing is lost or given twice, and waiting ends in time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from slackline import AsyncPublisher, AsyncSubscriber, Event
from slackline_benchmarks.servers import free_port
from test_network import DEADLINE, TYPES, Hit, collect, hits, node_thread, poll_until

from middleware.model.change import Insert
from middleware.model.errors import EventError, NetworkError
from middleware.model.event import END, EventTypes
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


class Count(Event):
    number: int


class Note(Event):
    text: str


class Either(Event):
    value: int | str


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@contextmanager
def clients(**options: Any) -> Iterator[tuple[Publisher, Subscriber]]:
    with ExitStack() as stack:
        node = stack.enter_context(node_thread("a", "tcp://127.0.0.1:*", types=TYPES))
        subscriber = stack.enter_context(Subscriber(node.address, Hit, **options))
        subscriber.wait_ready(DEADLINE)
        yield stack.enter_context(Publisher(node.address, types=[Hit])), subscriber


READ: dict[str, Callable[[Subscriber], list[int]]] = {
    "receive": lambda given: [change.event.id for change in given.receive(0.05) if isinstance(change, Insert)],
    "receive_batch": lambda given: [event.id for delta in given.receive_batch(0.05).deltas.values() for event in delta.inserts],
    "receive_table": lambda given: given.receive_table(0.05)["id"].to_pylist(),
}


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("read", READ.values(), ids=READ.keys())
def test_threads_that_share_a_subscriber_get_each_final_once_between_them(read: Callable[[Subscriber], list[int]]) -> None:
    found: list[int] = []

    def reads(subscriber: Subscriber) -> None:
        while not subscriber.has_ended:
            found.extend(read(subscriber))

    with clients(consistency="final") as (publisher, subscriber):
        threads = [threading.Thread(target=reads, args=[subscriber]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for start in range(0, 20_000, 500):
            publisher.publish(hits(start, 500))
            publisher.advance(Hit, 1_000 + start + 499)
        publisher.advance(Hit, END)
        assert publisher.flush(DEADLINE).is_whole
        for thread in threads:
            thread.join(DEADLINE)
        assert sorted(found) == list(range(20_000))
        assert not subscriber.statistics().violations


@pytest.mark.parametrize("consistency", ["early", "final"])
@pytest.mark.parametrize("read", READ.values(), ids=READ.keys())
def test_whoever_stops_an_iteration_loses_nothing(read: Callable[[Subscriber], list[int]], consistency: str) -> None:
    with clients(consistency=consistency) as (publisher, subscriber):
        publisher.publish(hits(0, 10))
        publisher.advance(Hit, END)
        found = []
        for change in subscriber:
            assert isinstance(change, Insert)
            found.append(change.event.id)
            if len(found) == 3:
                break
        assert not subscriber.has_ended, "there is more to be given"
        found += read(subscriber)
        deadline = time.monotonic() + DEADLINE
        while len(found) < 10 and time.monotonic() < deadline:
            found += read(subscriber)
        assert found == list(range(10))
        found += [change.event.id for change in subscriber if isinstance(change, Insert)] if not subscriber.has_ended else []
        assert len(found) == 10


def test_a_commit_in_the_middle_of_an_iteration_commits_nothing_that_was_not_given(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node, Publisher(node.address) as publisher:
        with Subscriber(node.address, Hit, resume="reader") as subscriber:
            subscriber.wait_ready(DEADLINE)
            publisher.publish(hits(0, 10))
            assert publisher.flush(DEADLINE).is_whole
            assert isinstance(next(iter(subscriber)), Insert)
            subscriber.commit()
        with Subscriber(node.address, Hit, resume="reader") as subscriber:
            assert {event.id for event in collect(subscriber, 9)} >= set(range(1, 10))


def test_a_commit_up_to_a_final_leaves_those_behind_it_for_the_next_reader_of_that_name(tmp_path: Path) -> None:
    store = Store(tmp_path, "a")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node, Publisher(node.address) as publisher:
        with Subscriber(node.address, Hit, consistency="final", resume="reader") as subscriber:
            subscriber.wait_ready(DEADLINE)
            publisher.publish(hits(0, 10))
            publisher.advance(Hit, END)  # all ten become final, and arrive, at once
            finals = iter(subscriber)
            third = [next(finals) for _ in range(3)][-1]
            assert isinstance(third, Insert)
            subscriber.commit_upto(third.event)
        with Subscriber(node.address, Hit, consistency="final", resume="reader") as subscriber:
            assert [change.event.id for change in subscriber if isinstance(change, Insert)] == list(range(3, 10))


def test_types_without_columns_are_reported_before_anything_is_taken_or_skipped_if_a_pattern_covers_them() -> None:
    types = EventTypes([Hit, Either])
    with node_thread("a", "tcp://127.0.0.1:*", types=types) as node, Publisher(node.address, types=[Hit, Either]) as publisher:
        named, all_of_them = Subscriber(node.address, [Hit, Either]), Subscriber(node.address, "*", event_types=types)
        with named, all_of_them:
            named.wait_ready(DEADLINE)
            all_of_them.wait_ready(DEADLINE)
            publisher.publish([*hits(0, 3), Either("x", ts=2_000, id=1, source="s")])
            publisher.advance([Hit, Either], END)
            with pytest.raises(EventError, match="no table holds Either, as a field of it has no column"):
                named.receive_tables(DEADLINE)
            assert len(collect(named, 4)) == 4
            found = 0
            while not all_of_them.has_ended:
                found += sum(table.num_rows for table in all_of_them.receive_tables(DEADLINE).values())
            assert found == 3
            assert all_of_them.statistics().drops == {"a type has no columns": 1}


def test_whoever_stops_an_asynchronous_iteration_loses_nothing() -> None:
    async def program(address: str) -> list[int]:
        found: list[int] = []
        async with AsyncSubscriber(address, Hit) as subscriber, AsyncPublisher(address, types=[Hit]) as publisher:
            await subscriber.wait_ready(DEADLINE)
            await publisher.publish(hits(0, 10))
            await publisher.advance(Hit, END)
            async for change in subscriber:
                found += [change.event.id] if isinstance(change, Insert) else []
                if len(found) == 3:
                    break
            return found + [change.event.id async for change in subscriber if isinstance(change, Insert)]

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        assert asyncio.run(asyncio.wait_for(program(node.address), DEADLINE)) == list(range(10))


def test_a_call_waits_no_longer_than_it_may_while_another_thread_waits() -> None:
    with clients() as (publisher, subscriber):
        waiting = threading.Thread(target=lambda: subscriber.receive(DEADLINE))
        waiting.start()
        time.sleep(0.2)
        began = time.monotonic()
        assert subscriber.receive(0.1) == []
        assert subscriber.receive_tables(0.1) == {}
        subscriber.wait_ready(0.1)
        assert time.monotonic() - began < 5
        publisher.publish(hits(0, 1))
        waiting.join(DEADLINE)
        assert not waiting.is_alive()


def test_an_asynchronous_call_waits_no_longer_than_it_may_while_another_task_waits() -> None:
    async def program(address: str) -> None:
        async with AsyncSubscriber(address, Hit) as subscriber:
            waiting = asyncio.create_task(subscriber.receive())
            await asyncio.sleep(0.1)
            assert await subscriber.receive(0.1) == []
            await subscriber.wait_ready(DEADLINE)
            async with AsyncPublisher(address, types=[Hit]) as publisher:
                await publisher.publish(hits(0, 1))
            assert await waiting
        with pytest.raises(NetworkError, match="has been closed"):
            await subscriber.receive(0.1)
        with pytest.raises(NetworkError, match="has been closed"):
            await publisher.publish(hits(1, 1))

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        asyncio.run(asyncio.wait_for(program(node.address), DEADLINE))


def test_an_asynchronous_client_belongs_to_one_loop() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        subscriber = AsyncSubscriber(node.address, Hit)

        async def enter() -> None:
            await subscriber.__aenter__()
            await subscriber.receive(0.05)

        async def use() -> None:
            with pytest.raises(RuntimeError, match="belongs to the event loop"):
                await subscriber.receive(0.1)
            await subscriber.close()

        asyncio.run(enter())
        asyncio.run(asyncio.wait_for(use(), DEADLINE))


@pytest.mark.parametrize("consistency", ["early", "final"])
def test_a_value_that_no_column_holds_costs_its_event_alone(consistency: Any) -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=EventTypes([Count])) as node,
        Subscriber(node.address, Count, consistency=consistency) as subscriber,
        Publisher(node.address, types=[Count]) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        publisher.publish([Count(2**63 if n == 5 else n, ts=n, id=n, source="s") for n in range(10)])
        publisher.advance(Count, END)
        found: list[int] = []
        while not subscriber.has_ended:
            found += subscriber.receive_table(DEADLINE)["number"].to_pylist()
        assert found == [0, 1, 2, 3, 4, 6, 7, 8, 9]
        assert subscriber.statistics().drops == {"a value has no place in a column": 1}


def test_nothing_of_a_table_is_sent_if_a_row_is_too_large_and_small_rows_do_not_suffer_from_large_ones() -> None:
    def table(longest: int, rows: int = 9_001) -> pa.Table:
        texts = ["x"] * (rows - 1) + ["x" * longest]
        return pa.table({"text": texts, "ts": range(rows)})

    with node_thread("a", "tcp://127.0.0.1:*", types=EventTypes([Note])) as node, Publisher(node.address) as publisher:
        with pytest.raises(EventError, match=r"Note: row 9000 takes 9,000,\d+ bytes, .* nothing was sent"):
            publisher.publish_table(table(9_000_000), Note)
        assert publisher.flush(DEADLINE).taken == 0
        publisher.publish_table(table(7_000_000), Note)
        assert publisher.flush(DEADLINE).taken == 9_001


def test_rows_that_were_refused_while_the_node_was_away_are_not_sent_later() -> None:
    address, table = f"tcp://127.0.0.1:{free_port()}", pa.table({"text": ["a", "b"], "ts": [1, 2]})
    with Publisher(address, patience=0.5) as publisher:
        for _ in range(2):
            with pytest.raises(NetworkError, match="does not answer"):
                publisher.publish_table(table, Note)
        with node_thread("a", address, types=EventTypes([Note])):
            poll_until(lambda: publisher.is_connected, "the node answers")
            publisher.publish_table(table, Note)
            assert publisher.flush(DEADLINE).taken == 2


def test_the_place_of_a_bad_event_is_that_in_what_was_given() -> None:
    with clients() as (publisher, _):
        with pytest.raises(EventError, match="event 9000, "):
            publisher.publish([*hits(0, 9_000), Hit(0.5, ts="noon", id=9_000, source="ball")])  # type: ignore[arg-type]
        for wrong in (hits(0, 1)[0], iter(hits(0, 1))):
            with pytest.raises(EventError, match="publish takes a list of events, not"):
                publisher.publish(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"consistency": "Final"}, "consistency is early or final, not 'Final'"),
        ({"on_slow": "drop"}, "on_slow is block or disconnect, not 'drop'"),
        ({"name": "x" * 257}, "a name has 1 to 256 characters, not 257"),
        ({"resume": ""}, "a name has 1 to 256 characters, not 0"),
    ],
)
def test_what_is_misspelt_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Subscriber("tcp://127.0.0.1:5700", Hit, **options)


def test_a_closed_client_says_so_whatever_is_asked() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        address = node.address
    publisher, subscriber = Publisher(address), Subscriber(address, Hit)
    publisher.close()
    subscriber.close()
    for call in (
        lambda: publisher.advance(Hit, 1),
        lambda: publisher.retract(hits(0, 1)[0]),
        lambda: publisher.publish(hits(0, 1)),
        lambda: subscriber.receive(0.1),
        lambda: subscriber.wait_ready(0.1),
    ):
        with pytest.raises(NetworkError, match="has been closed"):
            call()


def test_calls_of_other_threads_end_as_it_is_closed() -> None:
    with clients() as (_, subscriber):
        ended: list[type[Exception]] = []

        def read() -> None:
            try:
                subscriber.receive()
            except NetworkError as error:
                ended.append(type(error))

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        subscriber.close()
        poll_until(lambda: len(ended) == 3, "all have been notified")


def test_all_who_iterate_hear_of_the_end() -> None:
    with clients(consistency="final") as (publisher, subscriber):
        given: list[int] = []

        def read() -> None:
            given.extend(change.event.id for change in subscriber if isinstance(change, Insert))

        threads = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        publisher.publish(hits(0, 500))
        publisher.advance(Hit, END)
        for thread in threads:
            thread.join(DEADLINE)
        assert not any(thread.is_alive() for thread in threads)
        assert sorted(given) == list(range(500))


def test_all_tasks_that_iterate_hear_of_the_end() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:

        async def main() -> None:
            given: list[int] = []
            async with AsyncSubscriber(node.address, Hit, consistency="final") as subscriber:
                await subscriber.wait_ready(DEADLINE)

                async def read() -> None:
                    given.extend([change.event.id async for change in subscriber if isinstance(change, Insert)])

                tasks = [asyncio.create_task(read()) for _ in range(3)]
                async with AsyncPublisher(node.address, types=[Hit]) as publisher:
                    await publisher.publish(hits(0, 500))
                    await publisher.advance(Hit, END)
                    await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE)
            assert sorted(given) == list(range(500))

        asyncio.run(main())


def test_a_program_uses_one_way_to_receive() -> None:
    """What the call whose time was up gives would be lost, or come as something else."""
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:

        async def main() -> None:
            async with AsyncSubscriber(node.address, Hit) as subscriber:
                await subscriber.wait_ready(DEADLINE)
                assert await subscriber.receive_tables(0.01) == {}
                with pytest.raises(RuntimeError, match="receive_tables still waits for what comes"):
                    await subscriber.receive(0.01)
                assert await subscriber.receive_tables(0.01) == {}

        asyncio.run(main())


def test_a_forked_child_is_notified_and_its_parent_continues() -> None:
    with clients() as (publisher, subscriber):
        publisher.publish(hits(0, 1))
        publisher.flush(DEADLINE)
        out, into = os.pipe()
        if not (child := os.fork()):
            for call in (lambda: publisher.publish(hits(1, 1)), lambda: publisher.flush(1), lambda: subscriber.receive(1)):
                try:
                    call()
                except NetworkError as error:
                    os.write(into, f"{error}\n".encode())
            publisher.close()
            subscriber.close()
            os.kill(os.getpid(), signal.SIGKILL)  # nothing of the parent is to run to its end here
        os.close(into)
        poll_until(lambda: os.waitpid(child, os.WNOHANG)[0] == child, "the child ends")
        with os.fdopen(out) as lines:
            assert lines.read().count("is that of the process that forked: make one in the child") == 3
        publisher.publish(hits(1, 1))
        assert publisher.flush(DEADLINE).taken == 1
        assert [event.id for event in collect(subscriber, 2)] == [0, 1]
