"""AsyncPublisher and AsyncSubscriber against a node: the promises of the others, awaited and cancelled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from slackline import AsyncPublisher, AsyncSubscriber
from test_network import DEADLINE, TYPES, Hit, hits, node_thread

from middleware.model.change import Insert
from middleware.model.errors import NetworkError
from middleware.model.event import END, Event
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


def run(program: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(2 * DEADLINE):
            await program

    asyncio.run(within())


async def read(subscriber: AsyncSubscriber) -> list[Event]:
    return [change.event async for change in subscriber if isinstance(change, Insert)]


def test_what_came_while_nobody_waited_is_given_before_all_has_ended() -> None:
    async def within(address: str) -> None:
        async with AsyncSubscriber(address, Hit, consistency="final") as subscriber, AsyncPublisher(address) as publisher:
            await subscriber.wait_ready(DEADLINE)
            assert await subscriber.receive(0.01) == [], "it continues in the background"
            await publisher.publish(hits(0, 3))
            await publisher.advance(Hit, END)
            while (read := subscriber.statistics()).events < 3 or read.held_back:
                await asyncio.sleep(0.01)
            found: list[Any] = []
            while not subscriber.has_ended:
                found += await subscriber.receive(DEADLINE)
            assert [change.event for change in found if isinstance(change, Insert)] == hits(0, 3)
            assert await subscriber.receive(0.01) == [] and subscriber.has_ended, "though it is waited for more"

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        run(within(node.address))


def test_finals_are_received_in_order_though_publishing_and_receiving_are_cancelled(tmp_path: Path) -> None:
    """What a cancelled call may have sent is sent again; what a cancelled call would have given comes with the next one."""

    async def publish(address: str, draw: random.Random) -> None:
        async with AsyncPublisher(address, types=[Hit]) as publisher:
            events = hits(1, 20_000)
            for start in range(0, len(events), 500):
                while True:
                    try:
                        await asyncio.wait_for(publisher.publish(events[start : start + 500]), draw.choice([0.0, 0.0005, 5.0]))
                        break
                    except TimeoutError:
                        continue
            await publisher.advance(Hit, END)
            receipt = await publisher.flush(DEADLINE)
            assert receipt.is_whole and receipt.taken == len(events)

    async def receive(address: str, draw: random.Random, ready: asyncio.Event) -> list[Event]:
        found: list[Event] = []
        async with AsyncSubscriber(address, Hit, consistency="final", resume="reader") as subscriber:
            await subscriber.wait_ready(DEADLINE)
            ready.set()
            while not subscriber.has_ended:
                with suppress(TimeoutError):
                    async with asyncio.timeout(draw.choice([0.0, 0.001, 0.02])):
                        found += [change.event for change in await subscriber.receive() if isinstance(change, Insert)]
                        await subscriber.commit()
        return found

    async def both(address: str) -> None:
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(receive(address, random.Random(1), ready))
            await ready.wait()
            tasks.create_task(publish(address, random.Random(2)))
        assert reading.result() == hits(1, 20_000)

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path, "a")) as node:
        run(both(node.address))


def test_what_was_not_given_was_not_taken(tmp_path: Path) -> None:
    """A reader that is gone with changes it has received and not given: the next one of its name gets them."""

    async def program(address: str) -> None:
        async with AsyncPublisher(address, types=[Hit]) as publisher:
            async with AsyncSubscriber(address, Hit, resume="reader") as first:
                await first.wait_ready(DEADLINE)
                await publisher.publish(hits(1, 10))
                assert len(await first.receive()) == 10
                await first.commit()
                assert await first.receive(timeout=0.0) == []
                await publisher.publish(hits(11, 10))
                await publisher.flush(DEADLINE)
            await publisher.advance(Hit, END)
            async with AsyncSubscriber(address, Hit, resume="reader") as second:
                assert await read(second) == hits(11, 10)

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path, "a")) as node:
        run(program(node.address))


def test_back_pressure_is_awaited_while_the_loop_continues() -> None:
    async def program(address: str) -> None:
        sent = 0

        async def publish() -> None:
            nonlocal sent
            async with AsyncPublisher(address, types=[Hit]) as publisher:
                for start in range(1, 1_200, 100):
                    await publisher.publish(hits(start, 100, text="x" * 50_000))
                    sent += 100
                await publisher.advance(Hit, END)
                await publisher.flush(DEADLINE)

        async with AsyncSubscriber(address, Hit, on_slow="block") as slow:
            await slow.wait_ready(DEADLINE)
            task = asyncio.create_task(publish())
            before = -1
            while sent != before:  # until it waits: this loop continues meanwhile
                before = sent
                for _ in range(50):
                    await asyncio.sleep(0.01)
            assert sent < 1_200 and not task.done()
            assert len(await read(slow)) == 1_200
            await task

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        run(program(node.address))


def test_closing_ends_what_waits() -> None:
    async def program() -> None:
        subscriber = AsyncSubscriber("tcp://127.0.0.1:1", Hit)
        with pytest.raises(RuntimeError, match="async with"):
            await subscriber.receive()
        async with subscriber:
            waiting = asyncio.create_task(subscriber.receive())
            await asyncio.sleep(0)
        with pytest.raises(NetworkError, match="closed"):
            await waiting

    run(program())
