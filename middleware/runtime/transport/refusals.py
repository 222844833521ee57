"""Why a dialled node rejects this process, as ZeroMQ reports it: a node that accepts it answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import zmq
from zmq.utils.monitor import parse_monitor_message

NOT_LISTED = "its allow-list does not have this key"

_KEY_REJECTED, _OTHER_MECHANISM = int(zmq.Event.HANDSHAKE_FAILED_AUTH), int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
_CUT_OFF, _LET_IN = int(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL), int(zmq.Event.HANDSHAKE_SUCCEEDED)

_CERTAIN_AFTER = 3
"""Connection attempts in a row that a node cuts off while it shakes hands."""


class KeyRefusal(NamedTuple):
    """Why a node rejects this process. ``is_certain``: it has answered so, or has cut off several attempts in a row; one may
    mean that it ended just then."""

    why: str
    is_certain: bool


class Refusals:
    """The outcome of the connection attempts of one dialling socket. To be used by its thread, and closed before it."""

    def __init__(self, socket: zmq.Socket[bytes], has_keys: bool) -> None:
        self._socket = socket
        self._events: zmq.Socket[Any] = socket.get_monitor_socket(_KEY_REJECTED | _OTHER_MECHANISM | _CUT_OFF | _LET_IN)
        without, other = "it has no keys", "its key is not the one that is listed here, if it has one"
        if not has_keys:
            without = other = "it has keys, and none were given here"
        self._words = {_KEY_REJECTED: NOT_LISTED, _OTHER_MECHANISM: without, _CUT_OFF: other}
        self._last: KeyRefusal | None = None
        self._cut_off = 0

    def last(self) -> KeyRefusal | None:
        """Why the last attempt failed; None if none has, or one has not since. Never waits."""
        while self._events.poll(0):
            event = parse_monitor_message(self._events.recv_multipart())["event"]
            why = self._words.get(event)
            # A node with keys closes the connection of a client without: whether its greeting arrives before is luck.
            self._cut_off = self._cut_off + 1 if event == _CUT_OFF else 0
            self._last = KeyRefusal(why, event != _CUT_OFF or self._cut_off >= _CERTAIN_AFTER) if why is not None else None
        return self._last

    def close(self) -> None:
        """Ask no more."""
        self._socket.disable_monitor()
        self._events.close(linger=0)
