"""The first look that msgspec takes at a class, by one thread at a time.

msgspec stores its findings before they are complete (0.22): a thread that decodes the class meanwhile ends the process.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import msgspec

_lock = threading.RLock()


def prepare(*kinds: type) -> None:
    """Have msgspec look at classes; from then on threads may decode them, and convert to them, at the same time.

    A class that it does not take is refused where it is used. O(fields) at the first time, 90 us or so.
    """
    with _lock:
        for kind in kinds:
            with suppress(Exception):
                msgspec.msgpack.Decoder(kind)
