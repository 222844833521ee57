"""What user code raises at an event is a failure of that event, SystemExit too; only what ends a run or a command ends it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from slackline import END, Detector, Event, EventTypes, Insert, Node, Publisher, Subscriber, run

from middleware.model.errors import ENDING, Termination
from middleware.ordering.hierarchy import Hierarchy


class OddError(BaseException):
    """No Exception."""


RAISED = (SystemExit, asyncio.CancelledError, GeneratorExit, OddError)


class Tick(Event):
    x: int


class Seen(Event):
    x: int


def _raise(kind: type[BaseException] | None, event: Tick) -> None:
    if event.x == 3 and kind is not None:
        raise kind


class Raising(Detector):
    subscribes, publishes = (Tick,), (Seen,)

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind, self.sum = kind, 0

    def on_event(self, event: Tick) -> Seen:
        self.sum += event.x
        _raise(self.kind, event)
        return Seen(self.sum, ts=event.ts)


class RaisingByKey(Raising):
    key = "x"


class RaisingLate(Raising):
    """A generator raises only when its results are taken."""

    def on_event(self, event: Tick) -> Iterator[Seen]:  # type: ignore[override]
        self.sum += event.x
        yield Seen(self.sum, ts=event.ts)
        _raise(self.kind, event)


class RaisingInBatches(Raising):
    on_event = Detector.on_event  # type: ignore[assignment]

    def on_batch(self, events: Any) -> Iterator[tuple[int, Seen]]:
        for row, event in enumerate(events):
            self.sum += event.x
            _raise(self.kind, event)
            yield row, Seen(self.sum, ts=event.ts)


def keyed(kind: type[BaseException]) -> Detector:
    """A detector whose key function raises."""

    def key(event: Tick) -> int:
        _raise(kind, event)
        return 0

    made: Detector = type("KeyRaises", (Raising,), {"key": staticmethod(key)})(None)
    return made


def ticks(*order: int) -> list[Event]:
    return [Tick(n, ts=n, id=n, source="s") for n in order]


MAKERS: tuple[Callable[[Any], Detector], ...] = (Raising, RaisingByKey, RaisingLate, RaisingInBatches, keyed)


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5), (1, 3, 5, 2, 4)])
def test_it_is_a_failure_of_the_event(make: Callable[[Any], Detector], kind: type[BaseException], order: Any) -> None:
    (name,) = run([], [make(None)]).finals
    expected = run(ticks(1, 2, 4, 5), [make(None)]).finals[name]
    done = run(ticks(*order), [make(kind)], batch=1, failing="skip")
    assert done.finals[name] == expected
    assert [(failure.event.id, kind.__name__ in failure.traceback) for failure in done.failures[name]] == [(3, True)]


@pytest.mark.parametrize("kind", [*ENDING])
@pytest.mark.parametrize("make", MAKERS)
def test_an_interrupt_ends_a_run(make: Callable[[Any], Detector], kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        run(ticks(1, 2, 3, 4), [make(kind)], batch=1, failing="skip")


def test_a_sigterm_is_no_exit_of_user_code() -> None:
    assert issubclass(Termination, SystemExit)


@pytest.mark.parametrize("make", MAKERS)
def test_a_node_goes_on(make: Callable[[Any], Detector]) -> None:
    processor = Hierarchy([make(SystemExit)])
    node = Node("hub", "tcp://127.0.0.1:*", processor=processor, types=EventTypes([Tick, Seen]))
    thread = threading.Thread(target=node.run)
    thread.start()
    got: list[int] = []
    with Subscriber(node.address, Seen, consistency="final") as reader, Publisher(node.address, types=[Tick]) as publisher:
        reader.wait_ready(20)
        publisher.publish(ticks(1, 2, 3, 4))
        publisher.advance([Tick], END)
        publisher.flush(20)
        while len(got) < 3:
            got += [change.event.ts for change in reader.receive(20) if isinstance(change, Insert)]
        assert thread.is_alive()
    node.stop()
    thread.join()
    assert got == [1, 2, 4]


class Interrupted(Detector):
    """The user presses Ctrl-C while the third event is being processed."""

    subscribes, publishes = (Tick,), (Seen,)

    def on_event(self, event: Tick) -> Seen:
        if event.x == 3:
            signal.raise_signal(signal.SIGINT)
        return Seen(event.x, ts=event.ts)


def test_ctrl_c_in_user_code_ends_a_run() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(ticks(1, 2, 3, 4), [Interrupted()], batch=1, failing="skip")


def test_ctrl_c_in_user_code_ends_a_node_in_order() -> None:
    node = Node("hub", "tcp://127.0.0.1:*", processor=Hierarchy([Interrupted()]), types=EventTypes([Tick, Seen]))

    def publish() -> None:
        with Publisher(node.address, types=[Tick]) as publisher:
            publisher.publish(ticks(1, 2, 3, 4))
            publisher.flush(20)

    thread = threading.Thread(target=publish)
    thread.start()
    node.run()  # it returns, and raises nothing
    thread.join()
    assert node.is_stopping
