"""Delays Ctrl-C until it can be handled in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block is left: a process started in it is known by then, and can be ended.

    A handler that is set meanwhile, such as Spark's, stays. Does nothing in threads other than the main one, which Ctrl-C
    does not reach.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[FrameType | None] = []

    def note(_: int, frame: FrameType | None) -> None:
        came.append(frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(signal.SIGINT, came[0])
