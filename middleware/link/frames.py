"""Link frames: the first part of every message, which the link protocol reads; the other parts it leaves untouched.

Each frame carries the sender's ``epoch`` (the life of its end of the link), and what it has received so far, so that
every frame acknowledges and grants credit. Numbers are integers; frames are msgpack arrays whose first element tells the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from middleware.model.errors import WireError

VERSION = 2
"""Version of the protocol; ends of different versions refuse each other."""

Role = Literal["node", "publisher", "subscriber"]
Parts = list[bytes]

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
LONGEST_NAME = 256
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Reason = Annotated[str, msgspec.Meta(max_length=4_096)]
"""The size of a stranger's frame is checked before it is decoded."""


class Hello(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=0):
    """Opens or resumes a link. ``peer_epoch``: the life of the other end that this end knows, or 0.

    ``received``: the number of the last frame received in order in that life. ``limit``: see Data. ``wall``: Unix time by the
    sender's clock, in ns; 0 if unknown. ``columns``: the sender takes blocks in columns, too. ``shares``: a publisher
    without a key that sends events of sources which others send, too.
    """

    version: Count
    name: Name
    role: Role
    epoch: Count
    peer_epoch: Count
    received: Count
    limit: Count
    wall: Count = 0
    columns: bool = False
    shares: bool = False


class Data(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Payload number ``seq`` of this life; its first part is the ``head``, the others follow as they are.

    ``received`` acknowledges all frames up to it; ``limit`` is the credit: how many bytes of payload, counted from the
    start of the life, the other end may send.
    """

    epoch: Count
    seq: Count
    received: Count
    limit: Count
    head: bytes


class Ack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """Acknowledgement, credit and heartbeat. ``sent``: the last number sent.

    ``missing``: please send again what follows ``received``. ``asks``: please acknowledge what was sent, now.
    """

    epoch: Count
    received: Count
    limit: Count
    sent: Count
    missing: bool = False
    asks: bool = False


class Bye(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=3):
    """The last frame of a life: numbered like Data, so it is acknowledged only when all before it has arrived.

    ``returns``: another life follows, which resumes where this one ends; a durable link waits for it.
    """

    epoch: Count
    seq: Count
    received: Count
    limit: Count
    reason: Reason = ""
    returns: bool = False


class Refusal(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """No link here: say Hello (again), or, if ``final``, go away; ``reason`` tells people why.

    ``epoch``: of the Hello that is refused, so that a late answer to a former life does no harm; 0 if there was none.
    """

    reason: Reason
    final: bool
    epoch: Count = 0


AnyFrame = Hello | Data | Ack | Bye | Refusal

encode_frame = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], AnyFrame] = msgspec.msgpack.Decoder(AnyFrame).decode


def misnamed(name: str) -> str | None:
    """The fault of a name for a node or a client; None if it has none."""
    return None if 1 <= len(name) <= LONGEST_NAME else f"a name has 1 to {LONGEST_NAME} characters, not {len(name):,}"


def decode_frame(header: bytes) -> AnyFrame:
    """Raises WireError for bytes that are no link frame."""
    try:
        return _decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"malformed link frame: {error}") from None


def payload_size(parts: Parts) -> int:
    """Bytes of credit that a payload costs; both ends must count alike, and empty payloads cost a little too."""
    return sum(map(len, parts)) + 32
