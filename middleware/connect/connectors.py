"""The inputs and outputs of a scenario at work: each in a thread, begun again after a pause when its server is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from middleware.connect.feeding import Feed
from middleware.connect.lines import LineEvents
from middleware.connect.lines import opener as lines_opener
from middleware.connect.messages.reading import EventReader, MessageReader
from middleware.connect.messages.source import Source, SourceSpec
from middleware.extensions import extensions, fitting
from middleware.installation import extra_with, install
from middleware.model.errors import NetworkError, ScenarioError, SlacklineError, SourceError, UnreachableError
from middleware.model.event import END, type_name
from middleware.model.operator import LineSource
from middleware.model.quantities import parse_duration
from middleware.model.words import redacted
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.endpoints import InputPlan, OutputPlan, expanded
from middleware.runtime.scenario import Scenario
from middleware.runtime.sinks.sink import deliver, open_sink
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.transport.keys import Keys

if TYPE_CHECKING:
    from middleware.connect.messages.avro import Avro

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
"""Seconds between attempts to reach a server."""

FOR_EVER = 1e9
"""The patience, in seconds, with a node that does not answer: it may be started again."""

_ENDING, _READY = 10.0, 2.0
Client = TypeVar("Client", Publisher, Subscriber)
_log = structlog.get_logger()


class Connectors:
    """The inputs and outputs of a scenario with these names (by default, all).

    ``addresses``
        where the nodes are, by name.
    ``state``
        the folder for what must outlast the process, one folder for each input: its late ledger, and numbers of messages. None:
        nothing must.
    ``counts``
        by name: messages and events so far.

    ``sources``
        lines that are read by the one node in ``addresses``; if there are any, they are served, and nothing else.

    One that cannot continue, because trying again would not help, ends them all. Raises ScenarioError.
    """

    def __init__(
        self,
        scenario: Scenario,
        addresses: Mapping[str, str],
        state: Path | None,
        names: Collection[str] = (),
        keys: Keys | None = None,
        sources: Collection[LineSource] = (),
    ) -> None:
        plan, self._scenario, self._state, self._keys = scenario.plan, scenario, state, keys
        self._addresses = dict(addresses)
        ends = {f"source {each.name}": (each.name, partial(self._lines, each)) for each in sources}
        if not sources:
            ends = {f"input {each.name}": (each.name, partial(self._input, each)) for each in plan.inputs}
            ends |= {f"output {each.name}": (each.name, partial(self._output, each)) for each in plan.outputs}
        if not ends:
            raise ScenarioError(
                f"{scenario.file} has no [[inputs]] and no [[outputs]]: docs/guide/connect.md says how they are written"
            )
        known = {name for name, _ in ends.values()}
        if stray := sorted(set(names) - known):
            raise ScenarioError(f"{scenario.file} has no input or output {stray[0]!r}; it has {', '.join(sorted(known))}")
        self.counts: dict[str, int] = {}
        self._work = {label: work for label, (name, work) in ends.items() if not names or name in names}
        self._threads = [threading.Thread(target=self._guarded, args=[label], name=label, daemon=True) for label in self._work]
        self._over = threading.Event()
        self._failures: list[SlacklineError] = []
        self._clients: set[Publisher | Subscriber] = set()
        self._lock = threading.Lock()
        self._unpromised = {each.name for each in sources if each.disorder is not None}
        self._all_promise = threading.Event()

    def run(self) -> None:
        """Serve until ``end``, or until one cannot continue: raises what it met."""
        try:
            for thread in self._threads:
                thread.start()
            self._over.wait()
        finally:
            self._stop()
        if self._failures:
            raise self._failures[0]

    def end(self) -> None:
        """Ask them to end: ``run`` returns once they have."""
        self._over.set()

    def _stop(self) -> None:
        """End them: what a source has taken in is stored and acknowledged first, if its node answers in time."""
        self._over.set()
        deadline = time.monotonic() + _ENDING
        with self._lock:
            readers = [client for client in self._clients if isinstance(client, Subscriber)]
        for reader in readers:
            reader.close()
        for thread in self._threads:
            with suppress(RuntimeError):  # it was never started
                thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            left = list(self._clients)
        for client in left:
            client.close()
        for thread in self._threads:
            with suppress(RuntimeError):
                thread.join(1.0)

    def _guarded(self, label: str) -> None:
        try:
            self._work[label](label)
        except SlacklineError as error:
            if not self._over.is_set():
                error.add_note(f"in {label} of {self._scenario.file}")
                self._failures.append(error)
        except ModuleNotFoundError as error:
            needs = f"{label} needs {error.name}"
            extra = extra_with(error.name or "")
            self._failures.append(SlacklineError(f"{needs}; {install(extra)}" if extra is not None else needs))
        except BaseException:  # a bug: it must not end unseen while the others run on
            self._failures.append(SlacklineError(f"{label} failed"))
            _log.exception("it failed", end=label)
        finally:
            self._over.set()

    def _input(self, plan: InputPlan, label: str) -> None:
        avro = _avro(plan, self._scenario)
        decode = avro.decode if avro is not None else None
        reader = MessageReader(plan.types, self._scenario.types, plan.fields, plan.mapping, plan.unit, decode)
        assert self._state is not None
        make = opener(plan, reader, self._state / plan.name)
        disorder = None if plan.disorder is None else parse_duration(plan.disorder)
        address = self._addresses[plan.to or self._scenario.entry]
        self._feed(label, plan.name, set(plan.types.values()), address, reader, make, disorder)

    def _lines(self, plan: LineSource, label: str) -> None:
        (address,) = self._addresses.values()
        make = lines_opener(plan, self._state / plan.name if self._state is not None else None)
        self._feed(label, plan.name, {type_name(plan.event_type)}, address, LineEvents(plan), make, plan.disorder)

    def _feed(
        self,
        label: str,
        name: str,
        types: set[str],
        address: str,
        reader: EventReader,
        make: Callable[[], Source],
        disorder: int | None = None,
    ) -> None:
        """Feed the node at ``address`` from one source after another; what is no event is listed under ``name``."""
        with closing(Ledger(name, self._state / name if self._state is not None else None)) as ledger:

            def attempt() -> None:
                with ExitStack() as stack:
                    publisher = Publisher(address, types=types, keys=self._keys, patience=FOR_EVER)
                    feed = Feed(self._kept(stack, publisher), reader, ledger, self._over.is_set, disorder)
                    self._await_promises(name, feed, publisher)
                    source = stack.enter_context(closing(make()))
                    _log.info("connected", end=label)
                    try:
                        feed.run(source)
                    finally:
                        self.counts[label] = self.counts.get(label, 0) + feed.taken + feed.unread

            self._keep_trying(label, attempt)

    def _await_promises(self, name: str, feed: Feed, publisher: Publisher) -> None:
        """Read nothing before the node knows a promise for all lines with a ``disorder``: what is read moves the clock, which
        decides for those that have none.
        """
        if name in self._unpromised:
            feed.begin()
            publisher.flush()
            with self._lock:
                self._unpromised.discard(name)
        if not self._unpromised:
            self._all_promise.set()
        while not self._over.is_set() and not self._all_promise.wait(_READY):
            pass

    def _output(self, plan: OutputPlan, label: str) -> None:
        address = expanded(plan.address)
        node = self._addresses[plan.node or self._scenario.entry]
        avro = _avro(plan, self._scenario)
        options = _options(plan) | ({"avro": avro} if avro is not None else {})

        def attempt() -> None:
            before = self.counts.get(label, 0)
            with ExitStack() as stack:
                sink = stack.enter_context(closing(open_sink(address, plan.name, **options)))
                subscriber = Subscriber(
                    node,
                    plan.types,
                    event_types=self._scenario.types,
                    consistency=plan.consistency,
                    resume=plan.name,
                    after=sink.position if plan.consistency == "final" else None,
                    keys=self._keys,
                    patience=FOR_EVER,
                )
                self._kept(stack, subscriber)
                self._await_node(subscriber)
                if self._over.is_set():
                    return
                _log.info("connected", end=label)

                def count(number: int) -> None:
                    self.counts[label] = before + number

                deliver(subscriber, sink, until=END + 1, on_delivery=count)

        self._keep_trying(label, attempt)

    def _await_node(self, subscriber: Subscriber) -> None:
        """Wait until the node knows the subscription; for other nodes of the mesh only shortly: they may be away."""
        while not self._over.is_set():
            try:
                subscriber.wait_ready(_READY)
            except NetworkError:
                if not (subscriber.is_connected or subscriber.is_refused):
                    continue
            return

    def _kept(self, stack: ExitStack, client: Client) -> Client:
        """The client, closed with the stack, and by ``stop``."""
        with self._lock:
            self._clients.add(client)

        def leave() -> None:
            client.close()
            with self._lock:
                self._clients.discard(client)

        stack.callback(leave)
        return client

    def _keep_trying(self, label: str, attempt: Callable[[], None]) -> None:
        """Attempt until it is over. A lost connection is tried again, after a pause that doubles up to LONGEST_PAUSE."""
        pause = FIRST_PAUSE
        while not self._over.is_set():
            began = time.monotonic()
            try:
                attempt()
            except (UnreachableError, NetworkError) as error:
                if self._over.is_set():
                    return
                if time.monotonic() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                _log.warning("lost: trying again", end=label, why=str(error), after=f"{pause:g} s")
                self._over.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)


def _options(plan: InputPlan | OutputPlan) -> dict[str, Any]:
    return {key: expanded(value) if isinstance(value, str) else value for key, value in plan.options.items() if key != "avro"}


def _avro(plan: InputPlan | OutputPlan, scenario: Scenario) -> Avro | None:
    """The decoder or encoder of messages in Avro, if an end has that form. Raises ScenarioError."""
    schemas = plan.options.get("avro")
    if schemas is None:
        return None
    from middleware.connect.messages.avro import Avro

    return Avro(schemas, scenario.folder)


def opener(plan: InputPlan, reader: MessageReader, folder: Path) -> Callable[[], Source]:
    """The maker of the source of an input, called as often as it is needed. Raises ScenarioError."""
    address = expanded(plan.address)
    scheme = address.partition("://")[0]
    inputs = extensions("inputs")
    if scheme not in inputs:
        raise ScenarioError(
            f"inputs.{plan.name}: from = {redacted(plan.address)!r}: there is no connector {redacted(scheme)!r}; "
            f"there are {', '.join(inputs)}"
        )
    make: Callable[..., Source] = inputs[scheme].load()
    try:
        options = fitting(make, _options(plan))
    except ValueError as error:
        raise SourceError(f"{scheme}: {error}") from None
    return partial(make, SourceSpec(address, plan.name, list(plan.types), folder, reader.has_own_times), **options)
