"""A thread that polls is woken, once, by any other one, and by nobody after its end."""

import select
import threading

from middleware.runtime.loop.waker import Waker
from middleware.runtime.node import Node
from middleware.runtime.status import Desk


def is_readable(waker):
    return bool(select.select([waker.descriptor], [], [], 0)[0])


def test_a_wake_is_there_until_it_is_cleared():
    waker = Waker()
    assert not waker.is_set and not is_readable(waker)
    for _ in range(100_000):  # more than a pipe holds
        waker.wake()
    assert waker.is_set and is_readable(waker)
    waker.clear()
    assert not waker.is_set and not is_readable(waker)
    waker.wake()
    assert waker.is_set and is_readable(waker)
    waker.close()
    waker.close()
    waker.wake()


def test_who_asks_for_the_status_wakes_the_node():
    woken = []
    desk = Desk(lambda: woken.append(desk.is_asked))
    assert desk.ask(0) is None
    assert woken == [True]


def test_a_node_that_would_wait_for_long_is_woken_to_end(monkeypatch):
    monkeypatch.setattr("middleware.runtime.node.wait_after", lambda quiet: 3_600_000_000_000)
    node = Node("a", "tcp://127.0.0.1:*")
    running = threading.Thread(target=node.run, daemon=True)
    running.start()
    assert node.status(30) is not None
    node.stop()
    running.join(30)
    assert not running.is_alive()
