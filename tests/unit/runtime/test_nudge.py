"""What wakes a client's thread, whatever a signal raises in the midst of it."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from middleware.runtime.clients.nudge import Nudge


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
