"""What wakes a client's thread, whatever a signal raises in the midst of it."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from middleware.runtime.clients.nudge import Nudge, is_done_by_others


class Interrupted(BaseException):
    pass


def test_it_is_as_an_event_for_one_thread_that_waits() -> None:
    nudge = Nudge()
    assert not nudge.wait(0)
    nudge.set()
    nudge.set()
    assert nudge.wait(0) and not nudge.wait(0)
    nudge.set()
    nudge.clear()
    assert not nudge.wait(0)
    threading.Timer(0.05, nudge.set).start()
    assert nudge.wait(30)


@pytest.mark.parametrize("seconds", [1.5])
def test_an_exception_of_a_signal_leaves_no_lock_held(seconds: float) -> None:
    """An event of ``threading`` is locked for ever within a tenth of that time."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    nudge, until = Nudge(), time.monotonic() + seconds
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while time.monotonic() < until:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-4)
                while True:
                    nudge.set()
                    nudge.clear()
            except Interrupted:
                pass
            setter = threading.Thread(target=nudge.set, daemon=True)
            setter.start()
            setter.join(30)
            assert not setter.is_alive() and nudge.wait(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Caller:
    """Another thread, by a clock that only waiting moves: it sets ``due`` at each of these times, to so much later, or to 0."""

    def __init__(self, **changes: int) -> None:
        self.now, self.due = 0, 0
        self.changes = {int(at[1:]): due for at, due in changes.items()}
        self.wait(0)

    def wait(self, seconds: float) -> None:
        start, self.now = self.now, self.now + round(seconds * 1e9)
        for at, due in sorted(self.changes.items()):
            if start <= at <= self.now:
                self.due = at + due if due else 0

    def is_done(self, until: int) -> bool:
        return is_done_by_others(lambda: self.due, until, self.wait, lambda: self.now)


def test_nothing_is_to_be_done_where_a_call_has_done_it() -> None:
    assert Caller().is_done(until=1_000)
    assert Caller(t0=100, t60=0).is_done(until=1_000)


def test_what_no_call_does_is_waited_for_until_it_is_due() -> None:
    caller = Caller(t0=100)
    assert not caller.is_done(until=1_000) and caller.now == 100
    caller = Caller(t0=100, t50=0, t60=100)
    assert not caller.is_done(until=1_000) and caller.now == 160


def test_a_caller_that_is_always_busy_keeps_nobody_from_upkeep() -> None:
    busy = Caller(**{f"t{at}": 100 for at in range(0, 2_000, 50)})
    assert not busy.is_done(until=1_000) and busy.now == 1_000
    assert not busy.is_done(until=1_000), "also if the caller has just done all"
    assert not Caller().is_done(until=0)
