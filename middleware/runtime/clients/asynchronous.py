"""Publisher and Subscriber for asyncio: the same clients, each working in one thread of its own, awaited by a program's loop.

There is one implementation of the protocol, that of ``Publisher`` and ``Subscriber``; here is only how to wait for it. At most
one call of a client is under way; others wait their turn. Whoever is cancelled while it waits loses nothing: see each method.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from middleware.broker.log.log_records import LogOffset
from middleware.link.codec import OnSlow, SinkPosition
from middleware.model.change import Batch, Change, EventT_co
from middleware.model.errors import NetworkError
from middleware.model.event import Event, EventType, EventTypes
from middleware.model.quantities import Duration, seconds_of
from middleware.runtime.clients.connection import PATIENCE, Connection
from middleware.runtime.clients.publisher import Publisher, PublisherStatistics, Receipt
from middleware.runtime.clients.subscriber import Consistency, Subscriber, SubscriberStatistics
from middleware.runtime.transport.keys import Keys

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Client = TypeVar("Client", bound=Connection)


class _Asynchronous(Generic[Client]):
    """A client whose calls are awaited. Used with ``async with``, it connects at the entry, and is closed at the end.

    It belongs to the event loop in which it was entered.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make: Callable[[], Client] = make
        self._open: Client | None = None
        self._thread = ThreadPoolExecutor(1, "slackline async")
        self._turn = asyncio.Lock()
        self._under_way: asyncio.Future[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    @property
    def _client(self) -> Client:
        if self._open is None:
            raise RuntimeError(f"{type(self).__name__} is used inside of: async with {type(self).__name__}(...) as ...")
        return self._open

    def _in_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make a call in the client's thread. Raises NetworkError if it is closed."""
        if self._is_closed:
            raise NetworkError("this client has been closed")
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _check_loop(self) -> None:
        if self._loop is not asyncio.get_running_loop():  # what is awaited there would never come here
            raise RuntimeError(f"an {type(self).__name__} belongs to the event loop in which it was entered")

    async def _call(self, call: Callable[[], T]) -> T:
        """Make a call in the thread, behind the one under way. Cancelled before it begins, it is never made; after that, it
        continues, and the next one waits for it."""
        self._check_loop()
        async with self._turn:
            await self._settled()
            self._under_way = under_way = self._in_thread(call)
            return await asyncio.shield(under_way)

    async def _settled(self, timeout: float | None = None) -> bool:
        """Wait for the call that its caller has not waited for; what came of it was theirs to hear. False if time is up."""
        if self._under_way is not None:
            await asyncio.wait([self._under_way], timeout=timeout)
            if not self._under_way.done():
                return False
            self._under_way.exception()
        return True

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._open = self._make()  # it dials, and does not wait
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Say goodbye, once everything sent has arrived or two seconds have passed; a call under way raises NetworkError."""
        self._is_closed = True
        if self._open is not None:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._open.close))
        if self._loop is asyncio.get_running_loop():
            await self._settled()
        self._thread.shutdown(wait=False)

    @property
    def name(self) -> str:
        """The name under which the node knows this client."""
        return self._client.name

    @property
    def is_connected(self) -> bool:
        """Whether the node answers, as far as this client knows. Never waits."""
        return self._client.is_connected


class AsyncPublisher(_Asynchronous[Publisher]):
    """``Publisher`` for asyncio, made with the same arguments. Back-pressure is what ``publish`` waits for.

    A ``publish`` that is cancelled while it waits its turn sends nothing; one that is cancelled while it waits for room is
    carried on in the background, and all that is called next waits behind it. So after a cancellation it is not known whether
    the events were sent: publish them again, with the same ids, and each counts once.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str | None = None,
        types: Iterable[EventType | str] = (),
        keys: Keys | None = None,
        node: str | None = None,
        patience: float | Duration = PATIENCE,
        shares: bool = False,
    ) -> None:
        make = partial(Publisher, address, name=name, types=types, keys=keys, node=node, patience=patience, shares=shares)
        super().__init__(make)

    async def publish(self, events: Sequence[Event]) -> None:
        """Send new events, in this order. Waits while there is no credit. Raises NetworkError, EventError."""
        await self._call(partial(self._client.publish, events))

    async def publish_table(self, table: Any, type: EventType, source: str | None = None) -> None:  # noqa: A002
        """Send new events of one type, a row each: see ``Publisher.publish_table``."""
        await self._call(partial(self._client.publish_table, table, type, source))

    async def publish_tables(self, tables: Mapping[EventType, Any], source: str | None = None) -> None:
        """Send tables of several types: see ``Publisher.publish_tables``."""
        await self._call(partial(self._client.publish_tables, tables, source))

    async def retract(self, event: Event) -> None:
        """Withdraw an event that was published."""
        await self._call(partial(self._client.retract, event))

    async def revise(self, old: Event, new: Event) -> None:
        """Replace the content of a published event: same type, source and id."""
        await self._call(partial(self._client.revise, old, new))

    async def advance(self, types: EventType | str | Iterable[EventType | str], watermark: int) -> None:
        """Promise that this publisher sends nothing more of these types with ts <= ``watermark`` (END: nothing at all)."""
        await self._call(partial(self._client.advance, types, watermark))

    async def flush(self, timeout: float | Duration | None = None) -> Receipt:
        """Wait until the node has dealt with everything sent; returns the receipt since the last call.

        Cancelled, it may have used up the receipt: the events that it covered are then unknown; publish them again.
        """
        return await self._call(partial(self._client.flush, timeout))

    def statistics(self) -> PublisherStatistics:
        """A record of the counts so far."""
        return self._client.statistics()


class AsyncSubscriber(_Asynchronous[Subscriber[EventT_co]], Generic[EventT_co]):
    """``Subscriber`` for asyncio, made with the same arguments.

    The next ``receive`` gives what a cancelled one, or one whose time was up, would have given: nothing is lost, and nothing
    counts as taken that was not given.
    """

    def __init__(
        self,
        address: str,
        types: Collection[type[EventT_co] | str] | type[EventT_co] | str,
        *,
        event_types: EventTypes | None = None,
        consistency: Consistency = "early",
        on_slow: OnSlow = "block",
        name: str | None = None,
        resume: str | None = None,
        after: SinkPosition | None = None,
        start: LogOffset | None = None,
        keys: Keys | None = None,
        node: str | None = None,
        patience: float | Duration = PATIENCE,
    ) -> None:
        def make() -> Subscriber[EventT_co]:
            return Subscriber(
                address,
                types,
                event_types=event_types,
                consistency=consistency,
                on_slow=on_slow,
                name=name,
                resume=resume,
                after=after,
                start=start,
                keys=keys,
                node=node,
                patience=patience,
            )

        super().__init__(make)
        self._receiving: asyncio.Future[Any] | None = None
        self._receive: Callable[..., Any] = self.receive
        """The kind of the call under way."""
        self._had_ended = False
        """Whether all had ended when the call under way began: else the end may be in what it has not given yet."""

    async def wait_ready(self, timeout: float | Duration | None = None) -> None:
        """Wait until all nodes know this subscription, so that nothing published from now on is missed."""
        self._check_loop()
        wait = partial(self._client.wait_ready, timeout)  # not behind a receive that waits, too
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, wait))

    async def receive(self, timeout: float | Duration | None = None) -> list[Change[EventT_co]]:
        """The next changes: all that have arrived, or, if there are none, the first to come within ``timeout``: seconds, or a
        duration such as "5s".

        Empty only if none came in time. Raises NetworkError if the node has left or never answers.
        """
        return await self._received(self._client.receive, timeout, [])

    async def receive_batch(self, timeout: float | Duration | None = None) -> Batch:
        """Like ``receive``, but gives the net effect of what has arrived, in columns by type. A program uses one of both."""
        return await self._received(self._client.receive_batch, timeout, Batch({}, {}))

    async def receive_tables(self, timeout: float | Duration | None = None) -> dict[str, pa.Table]:
        """Like ``receive_batch``, but gives Arrow tables: see ``Subscriber.receive_tables``. A program uses one of these."""
        return await self._received(self._client.receive_tables, timeout, {})

    async def _received(
        self, receive: Callable[..., T], timeout: float | Duration | None, nothing: T, until_end: bool = False
    ) -> T:
        """The result of the call under way. It is not ended when nobody waits any more: then the next one waits for it.

        ``until_end``: if all has ended once it is its turn, nothing more is waited for.
        """
        self._check_loop()
        loop, timeout = asyncio.get_running_loop(), seconds_of(timeout, "timeout")
        end = None if timeout is None else loop.time() + timeout

        def left() -> float | None:
            return None if end is None else max(0.0, end - loop.time())

        try:
            async with asyncio.timeout(timeout):
                await self._turn.acquire()
        except TimeoutError:
            return nothing
        try:
            if until_end and self.has_ended:
                return nothing
            if self._receiving is None:
                if not await self._settled(left()):
                    return nothing
                self._had_ended, self._receive = self._client.has_ended, receive
                self._receiving = self._under_way = self._in_thread(receive)
            elif self._receive != receive:
                raise RuntimeError(f"{self._receive.__name__} still waits for what comes: a program uses one way to receive")
            await asyncio.wait([self._receiving], timeout=left())
            if not self._receiving.done():
                return nothing
            done, self._receiving = self._receiving, None
            result: T = done.result()
            return result
        finally:
            self._turn.release()

    async def commit(self) -> None:
        """Confirm to the node that everything received has been taken: it is not sent again under this name.

        While the next changes are waited for, there is nothing to confirm: that began with a commit.
        """
        if self._receiving is None:
            await self._call(self._client.commit)

    async def __aiter__(self) -> AsyncIterator[Change[EventT_co]]:
        """Changes one by one, until all subscribed streams have ended or the node leaves for good.

        Whoever stops in between loses nothing: the next call gives what follows.
        """
        rest = self._client.rest
        while True:
            while rest:
                yield rest.popleft()
            if self.has_ended:
                return
            try:
                changes: list[Change[EventT_co]] = await self._received(self._client.receive, None, [], until_end=True)
            except NetworkError:
                if self._client.node_has_left:
                    return
                raise
            rest.extend(changes)

    @property
    def has_ended(self) -> bool:
        """Whether all of its types have ended, by what has been given so far; a new publisher may resume them."""
        return self._client.has_ended and (self._receiving is None or self._had_ended)

    @property
    def gaps(self) -> int:
        """The number of gaps (missing changes) before what has been read."""
        return self._client.gaps

    def statistics(self) -> SubscriberStatistics:
        """A record of the counts so far."""
        return self._client.statistics()
