"""Fuzzing from the wire: what strangers might send, made from good conversations by a seed.

Two ways to break a message, mixed: its bytes (flipped, cut, doubled, strewn in), and its structure (msgpack decoded, one
place of it replaced by something evil, encoded again; also within the payload that a frame carries), as grammar-based
fuzzers do: most messages must pass the first checks to reach the later ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from middleware.link.codec import BlockHead, Changes, Interest, Ready, encode
from middleware.link.frames import VERSION, Ack, Bye, Data, Hello, Parts, Refusal, Role
from middleware.model.event import END

_decode = msgspec.msgpack.decode

_EVIL_NUMBERS = (-1, 0, 1, 2**31, 2**62 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63, 2**64 - 1)

_EVIL: tuple[Any, ...] = (
    *(*_EVIL_NUMBERS, None, True, 0.5, float("nan"), float("inf")),
    *("", "*", "a*b", "\x00", "\u202e", "x" * 300, "x" * 70_000, "\x1b[2J", "../../etc/passwd", "%s%n", "node", "publisher"),
    *(b"", b"\xc1", b"\x80" * 40, b"\xff" * 3_000, [], {}, [[]], {"": 0}, [0] * 2_000, [None] * 3, {"Ping": END}),
)
"""Values that replace good ones."""

_HUGE = (b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff")
"""Openings of a list, a map and bytes that claim to be longer than any message."""


class Fuzzer:
    """Messages that a hostile peer might send on one channel; the same seed gives the same messages.

    ``blocks``
        good blocks of events, which it breaks: their heads and bytes.
    """

    def __init__(self, seed: int, blocks: list[tuple[BlockHead, bytes]]) -> None:
        self._random = random.Random(seed)
        self._blocks = blocks
        self._epoch = 1
        self._sent = 0

    def messages(self, count: int) -> Iterator[Parts]:
        """``count`` messages. Many have a sound frame around a broken payload, so that what is inside gets looked at."""
        for number in range(count):
            pick = self._random.random()
            if number % 50 == 0 or pick < 0.01:
                self._epoch += 1
                self._sent = 0
                yield self._hello()
            elif pick < 0.7:
                payload = self._payload()
                yield self._framed(payload if pick < 0.1 else self._broken(payload))
            elif pick < 0.75:
                yield self._control()
            else:
                yield self._broken(self._control() if pick < 0.9 else [*self._framed(self._payload(), taken=False)])

    # -- good messages ------------------------------------------------------------------------------------------------

    def _hello(self) -> Parts:
        role: Role = self._random.choice(("publisher", "publisher", "subscriber", "node"))
        name = f"fuzz-{self._random.randrange(20)}"
        return [encode(Hello(VERSION, name, role, self._epoch, 0, 0, 2**20))]

    def _framed(self, payload: Parts, taken: bool = True) -> Parts:
        """The next frame of the link; not ``taken``: it will be broken, so that its number stays to be sent."""
        head, *blocks = payload or [b""]
        frame = [encode(Data(self._epoch, self._sent + 1, 0, 2**20, head)), *blocks]
        self._sent += taken
        return frame

    def _control(self) -> Parts:
        pick = self._random.random()
        if pick < 0.6:
            asks = self._random.random() < 0.3, self._random.random() < 0.3
            return [encode(Ack(self._epoch, self._random.randrange(10), 2**20, self._sent, *asks))]
        if pick < 0.8:
            return self._hello()
        if pick < 0.9:
            return [encode(Refusal("go away", self._random.random() < 0.5))]
        return [encode(Bye(self._epoch, self._sent + 1, 0, 2**20, "enough"))]

    def _payload(self) -> Parts:
        pick = self._random.random()
        if pick < 0.8:
            chosen = self._random.choices(self._blocks, k=self._random.randrange(1, 3))
            watermark = {"Ping": self._random.randrange(1_000)} if self._random.random() < 0.2 else None
            return [encode(Changes(None, watermark, [head for head, _ in chosen])), *(block for _, block in chosen)]
        if pick < 0.95:
            return [encode(Interest(self._random.randrange(5), ["Ping"], "block", ["Ping"], ["Pong"], []))]
        return [encode(Ready(1))]

    # -- breaking them ------------------------------------------------------------------------------------------------

    def _broken(self, parts: Parts) -> Parts:
        parts = list(parts)
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            at = self._random.randrange(len(parts)) if parts else 0
            if not parts or self._random.random() < 0.05:
                self._reshape(parts)
            elif self._random.random() < 0.6:
                parts[at] = self._restructured(parts[at])
            else:
                parts[at] = self._scrambled(parts[at])
        return parts

    def _reshape(self, parts: Parts) -> None:
        """Break the message as a list of parts."""
        pick = self._random.randrange(5)
        if pick == 0 and parts:
            parts.pop(self._random.randrange(len(parts)))
        elif pick == 1:
            parts += [b""] * self._random.choice((1, 300))
        elif pick == 2 and parts:
            parts.insert(0, self._random.choice(parts))
        elif pick == 3:
            self._random.shuffle(parts)
        else:
            parts.append(self._random.randbytes(self._random.randrange(200)))

    def _scrambled(self, data: bytes) -> bytes:
        """Break bytes."""
        at = self._random.randrange(len(data) + 1)
        end = min(len(data), at + self._random.choice((1, 1, 4, 100)))
        ways: tuple[Callable[[], bytes], ...] = (
            lambda: data[:at] + bytes(self._random.randrange(256) for _ in range(end - at)) + data[end:],
            lambda: data[:at],
            lambda: data[:at] + data[end:],
            lambda: data[:end] + data[at:],
            lambda: data[:at] + self._random.choice(_HUGE),
            lambda: b"\x91" * self._random.choice((10, 5_000)) + data,
            lambda: data[:at] + self._random.randbytes(8) + data[at:],
        )
        return self._random.choice(ways)()

    def _restructured(self, data: bytes) -> bytes:
        """Replace one part of a msgpack value by something evil; what cannot be decoded is scrambled."""
        try:
            value = _decode(data)
            return encode(self._replaced(value, depth=0))
        except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError, RecursionError):
            return self._scrambled(data)

    def _replaced(self, value: Any, depth: int) -> Any:
        if isinstance(value, list) and value and self._random.random() < 0.9:
            at = self._random.randrange(len(value))
            pick = self._random.random()
            if pick < 0.05:
                return value[:at] + value[at + 1 :]
            if pick < 0.1:
                return [*value[:at], self._random.choice(_EVIL), *value[at:]]
            return [*value[:at], self._replaced(value[at], depth + 1), *value[at + 1 :]]
        if isinstance(value, dict) and value and self._random.random() < 0.9:
            key = self._random.choice(list(value))
            return value | {key: self._replaced(value[key], depth + 1)}
        if isinstance(value, bytes) and value and self._random.random() < 0.8:
            return self._restructured(value)
        if isinstance(value, int) and self._random.random() < 0.7:
            near = max(-(2**63), min(2**64 - 1, value + self._random.choice((-1, 1, 1_000))))
            return self._random.choice((near, *_EVIL_NUMBERS))
        return self._random.choice(_EVIL)
