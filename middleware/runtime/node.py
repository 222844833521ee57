"""A node: one process, one thread, one loop that completes each step: receive, process, publish, send."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import msgspec
import psutil
import structlog
from msgspec.structs import replace

from middleware.broker.broker import Broker
from middleware.broker.effects import BrokerStatistics, Effects
from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.ingress.receipts import LOST
from middleware.broker.ingress.sources import SourcePolicy
from middleware.broker.log.log import Log
from middleware.broker.watermarks.waiting import UnitStatus
from middleware.durability.durable_core import Recoverable
from middleware.link.link import WINDOW
from middleware.model.change import Batch
from middleware.model.errors import AddressError, DetectorError, KeyFileError, StateError
from middleware.model.event import EventTypes
from middleware.model.quantities import Duration, duration_of, format_duration
from middleware.model.time import MILLISECOND, SECOND
from middleware.model.words import shown
from middleware.ordering.alpha.adaptation import INTERVAL
from middleware.ordering.records import LedgerEntries
from middleware.runtime.latencies import Histogram, Latencies
from middleware.runtime.loop.durable_runner import DurableRunner, LoglessRunner
from middleware.runtime.loop.garbage import collect_when_idle
from middleware.runtime.loop.waker import Waker
from middleware.runtime.loop.watchdog import Watchdog
from middleware.runtime.status import Desk, Status, Vitals
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.storage.store import Store
from middleware.runtime.transport.keys import Keys
from middleware.runtime.transport.zeromq import Transport

_POLL, _POLL_QUIET = 20 * MILLISECOND, 250 * MILLISECOND
_QUIET_SHARE = 8

_REST = SECOND
"""An idle node collects garbage after this time (ns). A shorter pause may be a stall of its publishers."""

_EVENTS_A_STEP = 8_192
_RECEIVED_A_STEP = 2 * _EVENTS_A_STEP
"""A step takes so many events for detectors, or so many of all: those that are late, or that no detector here reads, cost less,
but a step that takes them in without a bound starves the others."""

_FULL_STEP = WINDOW // 2
"""A step that takes so many bytes counts as full, as a publisher may be waiting for credit. A node that only forwards takes no
more in this step: so publishers send, and readers read, while it works."""

PATIENCE = 5 * SECOND
"""How long a node that ends waits for its peers to take what is queued for them."""

_MOST_WARNED = 1_000
"""The most reasons that are remembered as logged: sources come from outside, and a flood of them must not fill the memory."""

_LOG_FIRST, _LOG_EVERY = 2 * SECOND, 30 * SECOND
"""After how long, and then how often, the node logs which nodes it waits for."""

_log = structlog.get_logger()


def wait_after(quiet: int) -> int:
    """How long the loop waits for messages (ns) before it looks after its timers, once nothing has happened for ``quiet`` ns.

    A timer that runs from the last event expires at most an eighth of its time late. Messages are received at once.

    >>> [wait_after(quiet) // MILLISECOND for quiet in (0, SECOND, 60 * SECOND)]
    [20, 125, 250]
    """
    return min(max(quiet // _QUIET_SHARE, _POLL), _POLL_QUIET)


class Processor(Protocol):
    """What a node does with events: its detectors, behind one interface. With a log it must be ``Recoverable``, too."""

    @property
    def subscriptions(self) -> frozenset[str]:
        """Names of the event types it reads."""
        ...

    @property
    def publications(self) -> frozenset[str]:
        """Names of the event types it derives."""
        ...

    @property
    def derivations(self) -> Mapping[str, Collection[str]]:
        """By type read, the publications that depend on it."""
        ...

    def process(self, batch: Batch) -> list[Batch]:
        """Take what has arrived; return the results, in order."""
        ...

    def adapt(self, busy: float, subscribed: Collection[str], behind: float, work: float) -> None:
        """Called twice a second with the share of the time that ``process`` took (0 to 1), the publications others want, the
        share of that time spent in steps that took as much as a step may, and that time (ns)."""
        ...


@runtime_checkable
class WaitStatusSource(Protocol):
    """A processor that reports what its units wait for."""

    def waiting(self) -> list[UnitStatus]:
        """Report what each unit waits for."""
        ...


@runtime_checkable
class Listing(Protocol):
    """A processor that reports late events, and events at which detectors raised. The node enters them in its ledger."""

    def take_listed(self) -> list[LedgerEntries]:
        """Return the events reported since the last call."""
        ...


def _check(name: str, peers: object, processor: object) -> None:
    """Raise AddressError unless peers are addresses by name, DetectorError unless the processor is one."""
    if peers is not None and not (isinstance(peers, Mapping) and all(isinstance(each, str) for each in peers.values())):
        raise AddressError(
            f"node {name}: peers are addresses of other nodes, such as {{'hub': 'tcp://10.0.0.7:5701'}}, not {shown(peers)}; "
            "detectors are given as processor=Hierarchy([MyDetector()])"
        )
    if processor is not None and not hasattr(processor, "subscriptions"):
        raise DetectorError(f"node {name}: a processor is Hierarchy([MyDetector()]), not {shown(processor)}")


class Node:
    """A broker with sockets, and detectors behind it if there is a processor.

    ``bind``
        where others attach: tcp://HOST:PORT or ipc://PATH; port ``*`` takes a free one, see ``address``.
    ``peers``
        the other nodes of the mesh, address by name. All nodes may list all others: of each pair only one dials.
    ``processor``
        its detectors: ``Hierarchy([MyDetector()])``.
    ``types``
        the event types that publishers may send and the processor reads. By default those of the hierarchy; without one the
        node is a broker that forwards any type.
    ``keys``
        CURVE keys; required beyond this machine.
    ``sources``
        when a silent publisher stops holding the others back, and how far a publisher may run ahead of the others.
    ``ledger``
        lists events that came too late or too early, and those at which detectors raised; the node closes it at its end.
    ``store``
        its log and checkpoints: the node resumes where its last life ended. None: a crash loses what it holds. The node
        closes it. ``rebuild``: recover not from the checkpoint, but by replaying the whole log, with detectors that have
        changed; what was final stays as it was.

    ``run`` runs it in the calling thread. As a context manager it runs in a thread of its own, which ends with the block:
    ``with Node("field", "tcp://127.0.0.1:*", processor=Hierarchy([Hots()])) as node:``.
    """

    def __init__(
        self,
        name: str,
        bind: str,
        peers: Mapping[str, str] | None = None,
        processor: Processor | None = None,
        types: EventTypes | None = None,
        *,
        keys: Keys | None = None,
        sources: SourcePolicy | None = None,
        ledger: Ledger | None = None,
        store: Store | None = None,
        rebuild: bool = False,
    ) -> None:
        self.name = name
        self._ledger = ledger if ledger is not None else Ledger(name)
        self._warned: set[str] = set()
        self._is_clock_wrong = False
        self._watchdog = Watchdog(name)
        self._processor = processor
        self._store = store
        self._stop, self._relist = threading.Event(), threading.Event()
        self._patience = PATIENCE
        self._has_keys = keys is not None
        self._started, self._process_info = time.time_ns(), psutil.Process()
        self._waker = Waker()
        self._desk, self._steps, self._latencies = Desk(self._waker.wake), Histogram(), Latencies()
        self.step_began_at = time.monotonic()
        """When its loop last began a step, on the monotonic clock (s): any thread may read it."""
        self._active_at = time.monotonic_ns()  # when last a payload came or went, or detectors ran
        self._transport = Transport(keys)
        self._transport.wake_by(self._waker.descriptor)
        try:
            _check(name, peers, processor)
            self._others = {peer: address for peer, address in (peers or {}).items() if peer != name}
            self.address = self._transport.bind(bind)
            for peer, address in self._others.items():
                self._transport.dial(peer, address, node=peer)
            self._begin(peers, types, sources, rebuild)
        except BaseException:
            self._close()
            raise

    def _begin(
        self, peers: Mapping[str, str] | None, types: EventTypes | None, sources: SourcePolicy | None, rebuild: bool
    ) -> None:
        """Make the broker and, with a store, recover the state at the end of the last life."""
        name, processor, store = self.name, self._processor, self._store
        now = time.monotonic_ns()
        types = types if types is not None else getattr(processor, "types", None) or EventTypes()
        self._broker = Broker(
            name,
            store.epoch if store is not None else time.time_ns(),
            now,
            types=types,
            subscriptions=processor.subscriptions if processor is not None else (),
            publications=processor.publications if processor is not None else (),
            derivations=processor.derivations if processor is not None else None,
            backdate=getattr(processor, "backdate", 0),
            peers=peers or (),
            rights=self._transport.rights,
            sources=sources,
            log=Log(store.line, store.read) if store is not None else None,
        )
        self._busy_ns, self._full_ns, self._idle_ns, self._adapted_at = 0, 0, 0, now
        self._is_full = False  # whether the step took as much as it may
        self._last_busy, self._waited_ns = 0.0, 0
        self._log_at = time.monotonic_ns() + _LOG_FIRST
        self._log_changes_at = 0
        self._owed: list[Effects] = []  # to be sent once the late ledger has the rejected events
        self._runner: DurableRunner | LoglessRunner = LoglessRunner(self._broker)
        if store is not None:
            if processor is not None and not isinstance(processor, Recoverable):
                raise StateError(f"{type(processor).__name__} has no state()/restore(): a node with a log cannot run it")
            self._transport.wake_by(store.wakes)
            self._runner = DurableRunner(self._broker, processor, types, store, rebuild)
            self._list()  # the last life may have reported some of them: the ledger drops repeats

    def __enter__(self) -> Self:
        """Run in a thread of its own."""
        executor = ThreadPoolExecutor(1, f"node {self.name}")
        self._running = executor.submit(self.run)
        executor.shutdown(wait=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop, once everything that arrived is processed. Raises what ended the node, if anything has."""
        if not self.is_stopping:  # who has called ``stop`` has said how long it waits
            self.stop()
        self._running.result()

    def run(self, has_ended: Callable[[], bool] = lambda: True) -> None:
        """Run until ``stop`` or, in the main thread, SIGINT or SIGTERM; then drain: process what arrived, flush, say goodbye.

        ``has_ended``: asked from then on; the node runs on until what feeds it in this process has ended, too.

        SIGHUP makes it read the allow-list again; without keys there is none, and SIGHUP ends the node, too.
        """
        handlers = self._catch_signals()
        self._watchdog.start()
        _log.info("node runs", node=self.name, address=self.address)
        try:
            while not (self._stop.is_set() and has_ended()):
                self._step(self._timeout())
            self._drain()
            self._desk.answer(self._status)  # for threads that report its end
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._close()
            _log.info("node stopped", node=self.name)

    def _close(self) -> None:
        """Close the sockets, the ledger, and the store with its lock: each of them, even if closing another fails."""
        with ExitStack() as stack:
            if self._store is not None:
                stack.callback(self._store.close)
            stack.callback(self._ledger.close)
            stack.callback(self._transport.close)
            stack.callback(self._waker.close)
            self._watchdog.close()
            self._desk.close()

    def read_allow_list_again(self) -> None:
        """Read the allow-list before the next step, and disconnect peers no longer listed; may be called from any thread."""
        self._relist.set()
        self._waker.wake()

    def stop(self, patience: Duration = PATIENCE) -> None:
        """Ask the loop to end; may be called from any thread, or from the processor.

        ``patience``: how long it waits for peers to take what is queued for them.
        """
        self._patience = duration_of(patience, "patience")
        self._stop.set()
        self._waker.wake()

    def statistics(self) -> BrokerStatistics:
        """A record of the counts so far. To be called from the node's own thread, such as from the processor."""
        return self._broker.statistics()

    def status(self, patience: float | Duration = 2.0) -> Status | None:
        """What the node waits for and has done, at most a second old; may be called from any thread while ``run`` runs.

        If the loop does not answer within ``patience`` (seconds, or a text such as "5s"), or has ended: the last status, or
        None if there is none.
        """
        return self._desk.ask(duration_of(patience, "patience", SECOND) / SECOND)

    @property
    def is_stopping(self) -> bool:
        """Whether the node was asked to end."""
        return self._stop.is_set()

    def _status(self) -> Status:
        """The status; to be called in the node's own thread."""
        processor = self._processor
        waiting = self._broker.waiting(processor.waiting() if isinstance(processor, WaitStatusSource) else [])
        return Status(**msgspec.structs.asdict(replace(waiting, busy=self._last_busy)), vitals=self._vitals())

    def _vitals(self) -> Vitals:
        ledger, memory = self._ledger, 0
        with suppress(OSError, psutil.Error):  # such as no free file descriptor
            memory = int(self._process_info.memory_info().rss)
        return Vitals(
            address=self.address,
            nodes=self._others,
            at=time.time_ns(),
            started=self._started,
            waiting=self._waited_ns / SECOND,
            cpu=time.process_time(),
            memory=memory,
            counts=self._broker.statistics(),
            steps=self._steps.copy(),
            latencies={name: latency.copy() for name, latency in self._latencies.by_type.items()},
            listed=ledger.listed,
            unlisted=ledger.lost,
            log=self._runner.status(),
        )

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def on_signal(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGHUP and self._has_keys:
                self._relist.set()
            else:
                self._stop.set()
            self._waker.wake()

        return {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def _read_allow_list(self) -> None:
        """Disconnect peers no longer listed at once; a list that cannot be read changes nothing."""
        self._relist.clear()
        try:
            gone = self._transport.relist()
        except KeyFileError as error:
            _log.error("the allow-list stays as it was", node=self.name, why=str(error))
            return
        for channel in gone:
            self._broker.expel(channel, "this key is not on the allow-list any more")
        self._broker.read_rights_again()
        _log.info("allow-list read again", node=self.name, expelled=len(gone))

    def _timeout(self) -> float:
        """How long to wait for messages, s."""
        now = time.monotonic_ns()
        wait = wait_after(now - self._active_at)
        if (due := self._runner.due_at) is not None:
            wait = min(wait, max(MILLISECOND, due - now))  # while the ledger waits for room, what is due stays due
        if self._processor is not None and (due := self._broker.due_at()) is not None:
            wait = max(0, min(wait, due - now))
        return wait / SECOND

    def _step(self, timeout: float) -> None:
        if self._relist.is_set():
            self._read_allow_list()
        begun = time.monotonic_ns()
        self.step_began_at = begun / SECOND
        start = begun + self._receive(timeout, begun)
        self._process()
        if self._broker.is_asked(start):
            self._broker.answer(self._status(), start)
        if self._desk.is_asked:
            self._desk.answer(self._status)
        self._settle()
        now = time.monotonic_ns()
        if now >= self._log_changes_at:  # not in each step: a step of one event takes some 100 us
            self._log_changes(now)
        self._runner.worked += now - start

    def _settle(self) -> None:
        """End the step; with a log, records stored in the meantime release what earlier steps have to send.

        A checkpoint drops events that were reported before it. So without room for the ledger, a node with a log waits, just
        as it does without room for its log.
        """
        now = time.monotonic_ns()
        if self._runner.is_durable and not self._ledger.commit():
            self._broker.wait_longer(now)
            return
        for effects in self._runner.settle(now):
            self._carry_out(effects)

    def _receive(self, timeout: float, start: int) -> int:
        """Take all that has arrived, so that batches grow with the load, up to a bound that keeps steps short.

        Returns how long it waited (ns) from ``start``.
        """
        broker = self._broker
        sockets = self._transport.poll(timeout)
        now = time.monotonic_ns()
        if not sockets and now - self._active_at >= _REST:
            collect_when_idle()
            now = time.monotonic_ns()
        if self._waker.is_set:
            self._waker.clear()
        broker.wall_is(time.time_ns(), now)
        waited = now - start
        self._idle_ns += waited
        self._waited_ns += waited
        size = 0
        for socket in sockets:
            for channel, parts in self._transport.messages(socket):
                # Under load a step receives for longer than live events may be ahead of the clock: by the time at which it
                # began, those at its end seem to come from the future.
                now = time.monotonic_ns()
                broker.receive(channel, parts, now)
                if len(parts) > 1:  # a payload, and no heartbeat
                    self._active_at = now
                    size += sum(map(len, parts))
                if pending := broker.pending:
                    has_enough = pending >= _EVENTS_A_STEP or broker.received >= _RECEIVED_A_STEP
                else:
                    has_enough = size >= _FULL_STEP
                if has_enough:
                    break
        self._is_full = broker.pending >= _EVENTS_A_STEP or size >= _FULL_STEP
        return waited

    def _process(self) -> None:
        processor = self._processor
        if processor is None:
            return
        start = time.monotonic_ns()
        batch = self._broker.take(start)
        if batch is not None:
            self._active_at = start
            self._watchdog.begin(start)
            results = processor.process(batch)
            end = time.monotonic_ns()
            self._watchdog.end(end)
            self._busy_ns += end - start
            if self._is_full:
                self._full_ns += end - start
            self._steps.add(end - start)
            self._list()
            for result in results:
                self._latencies.publish(result)
                self._broker.publish(result, end)
            start = end
        passed = start - self._adapted_at
        if passed >= INTERVAL:
            self._last_busy = self._share(self._busy_ns)
            processor.adapt(self._last_busy, self._broker.subscribed(), self._share(self._full_ns), self._busy_ns)
            self._busy_ns, self._full_ns, self._idle_ns, self._adapted_at = 0, 0, 0, start

    def _list(self) -> None:
        """Enter the events that the processor reports in the ledger: a step is settled once the ledger has them."""
        taken: list[LedgerEntries] = self._processor.take_listed() if isinstance(self._processor, Listing) else []
        for listed in taken:
            self._ledger.report_late(listed.unit, listed.late)
            if listed.late:
                self._broker.found_late((late.event for late in listed.late), time.monotonic_ns())
            self._ledger.report_failures(listed.unit, listed.failed)

    def _share(self, spent: int) -> float:
        """Of the time available to detectors (ns): the time that the broker needs to receive and send is not available."""
        available = self._busy_ns + self._idle_ns
        return spent / available if available else 0.0

    def _carry_out(self, effects: Effects) -> None:
        """Enter rejected events in the ledger, then acknowledge: every acknowledged event was taken or is in the ledger."""
        if effects.rejected:
            self._ledger.report_rejections(effects.rejected)
        self._owed.append(effects)
        if self._ledger.commit() or not self._runner.is_durable:  # without a log, a crash loses all that is in memory anyway
            for each in self._owed:
                self._send(each)
            self._owed.clear()

    def _send(self, effects: Effects) -> None:
        if effects.rejected:
            self._warn(effects.rejected)
        for channel, parts in effects.sends:
            if len(parts) > 1:
                self._active_at = time.monotonic_ns()
            if not self._transport.send(channel, parts):
                self._broker.disconnected(channel, time.monotonic_ns())
        for closed in effects.closed:
            is_node_gone = closed.role == "node" and not closed.reason.startswith(("said goodbye", "will be back"))
            say = _log.warning if closed.lost or is_node_gone else _log.info
            say("peer left", node=self.name, role=closed.role, peer=closed.name, why=closed.reason, lost=closed.lost)

    def _warn(self, rejected: list[RejectedEvent]) -> None:
        """Log each reason of rejections once per life; the ledger has the events."""
        for reason in {each.reason for each in rejected} - self._warned:
            self._warned.add(reason)
            _log.warning("events are rejected; see 'slackline late list'", node=self.name, why=reason)
        for why in {each.why for each in rejected if each.reason == "source"} - self._warned:
            if len(self._warned) < _MOST_WARNED:
                self._warned.add(why)
                _log.warning("a publisher sends events of a source that is not its own", node=self.name, why=why)

    def _log_changes(self, now: int) -> None:
        """Log what has changed at the node since the last time, as often as an idle loop looks."""
        self._log_changes_at = now + _POLL
        self._log_nodes(now)
        self._log_drops()
        self._log_clock()

    def _log_nodes(self, now: int) -> None:
        """Log which nodes and publishers have joined, and from time to time which nodes this one waits for."""
        joined = self._broker.joined
        for role, name in joined:
            _log.info(f"{role} joined", node=self.name, peer=name)
        joined.clear()
        if now >= self._log_at and (gathering := self._broker.gathering):
            self._log_at = now + _LOG_EVERY
            _log.warning("waiting for nodes of the configuration; nothing is taken from publishers before", missing=gathering)

    def _log_drops(self) -> None:
        """Log, once for each reason, that events are skipped: if another node sent them, nobody else reports it."""
        drops = self._broker.drops
        for reason in (drops.keys() & LOST) - self._warned:
            self._warned.add(reason)
            hint = "slackline status --json - counts them"
            _log.warning("events are skipped", node=self.name, why=reason, count=drops[reason], hint=hint)

    def _log_clock(self) -> None:
        """Log when this node has found its own clock wrong, and when it is right again."""
        is_wrong = self._broker.sources.behind != 0
        if is_wrong is not self._is_clock_wrong:
            self._is_clock_wrong = is_wrong
            if is_wrong:
                _log.warning(
                    "this node's clock is wrong: all others agree on another time, which it goes by; set the clock",
                    node=self.name,
                    behind=format_duration(self._broker.sources.behind),
                )
            else:
                _log.info("this node goes by its own clock again", node=self.name)

    def _drain(self) -> None:
        self._process()
        deadline = time.monotonic_ns() + self._patience
        self._broker.close(f"node {self.name} shuts down", time.monotonic_ns())
        self._settle()
        while not self._broker.drained and time.monotonic_ns() < deadline:
            self._step(_POLL / SECOND)
        self._log_changes(time.monotonic_ns())
        if self._ledger.commit():
            self._runner.end()
        for peer in self._broker.statistics().peers:
            if peer.link.queued_bytes or peer.link.unacked_bytes:
                _log.warning("peer has not taken everything", node=self.name, role=peer.role, peer=peer.name, link=peer.link)
