"""The end of a ZeroMQ context, within bounds: libzmq may wait for ever for a socket that it lost."""

from __future__ import annotations

from threading import Thread
from typing import Any

import structlog
import zmq

_log = structlog.get_logger()


def end_context(context: zmq.Context[Any], patience: float) -> None:
    """End a context whose sockets are closed; stop after ``patience`` seconds, which must be more than their linger.

    Now and then (1 in 50, libzmq 4.3.5) a router whose peers hang up while it is closed is never done, whatever its linger is.
    All that such a context still holds is memory and a thread, till the process ends.
    """
    ending = Thread(target=context.term, name="zmq end", daemon=True)
    ending.start()
    ending.join(patience)
    if ending.is_alive():
        _log.info("a ZeroMQ context is left to the end of the process: it did not end", seconds=patience)
