"""The log of a node as data: one record for each step, with the entries that make it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from middleware.broker.ingress.checks import RejectedEvent
from middleware.link.codec import BlockHead, Changes, Interest, SinkPosition, encode
from middleware.link.frames import Role

PeerKey = tuple[Role, str]
LogOffset = tuple[int, int]
"""The position of a reader in a log: (line, offset)."""


class ReceivedPayload(msgspec.Struct, array_like=True, tag=0, gc=False):
    """A payload from outside, as it was admitted: ``changes`` names the blocks that follow."""

    peer: PeerKey
    changes: Changes
    blocks: list[bytes]


class PeerInterest(msgspec.Struct, array_like=True, tag=1, gc=False):
    """What a peer subscribes to and offers from now on; ``owner``: the owner of the key it has shown."""

    peer: PeerKey
    interest: Interest
    owner: str | None = None


class PeerDeparture(msgspec.Struct, array_like=True, tag=2, gc=False):
    """A peer is gone for good, and with it what it promised. ``outlived``: types that others ended after its last message."""

    peer: PeerKey
    outlived: list[str] = []


class LocalBlock(msgspec.Struct, array_like=True, tag=3, gc=False):
    """A block that the local detectors published."""

    head: BlockHead
    block: bytes


class ReaderPosition(msgspec.Struct, array_like=True, tag=4, gc=False):
    """A reader that the log is kept for needs nothing up to ``offset`` any more, and has finals up to ``position``."""

    peer: PeerKey
    offset: int
    position: SinkPosition | None = None


class AllAttached(msgspec.Struct, array_like=True, tag=5, gc=False):
    """All configured peers have been seen: their subscriptions are known."""


class LogBreak(msgspec.Struct, array_like=True, tag=6, gc=False):
    """Changes of these types are missing from here on, and so are changes of the types made from them ``here``.

    Without ``names``, the detectors that make the types ``here`` have stopped. ``unsubscribed``: the log
    skipped changes that nobody subscribed to.
    """

    names: list[str]
    here: list[str] = []
    unsubscribed: bool = False


class RejectedEvents(msgspec.Struct, array_like=True, tag=7, gc=False):
    """Raw events that the node rejected: reported once this is stored, and known from then on."""

    rejected: list[RejectedEvent]


class IdlePromise(msgspec.Struct, array_like=True, tag=8, gc=False):
    """The promise of this node, from the end of the step on, for an idle publisher, or (None) for all that left; without
    watermarks, it promises nothing any more."""

    peer: PeerKey | None
    watermarks: dict[str, int]


class LineRenewal(msgspec.Struct, array_like=True, tag=9, gc=False):
    """The log has lost what it had after offset ``common``: from here on its identity is ``line``."""

    line: int
    common: int


class GenerationStart(msgspec.Struct, array_like=True, tag=10, gc=False):
    """A generation began (see ``generations``). ``reached``: the latest time that was final; ``names``: the types offered."""

    generation: int
    reached: int
    names: list[str] = []


class Resumption(msgspec.Struct, array_like=True, tag=11, gc=False):
    """Streams that had ended before the generation resume from ``floor``."""

    floor: int


class Floors(msgspec.Struct, array_like=True, tag=17, gc=False):
    """Other nodes have called types final up to these times: nothing as old may come in here (see ``covering``)."""

    floors: dict[str, int]


class UnitStops(msgspec.Struct, array_like=True, tag=12, gc=False):
    """These units have stopped by the end of the step: when a unit stops may depend on what no log has, such as alpha."""

    names: list[str]


class ClockCorrection(msgspec.Struct, array_like=True, tag=13, gc=False):
    """How far (ns) this node's clock is behind those of all others, which it goes by; 0 once it is not."""

    behind: int


class ReaderRelease(msgspec.Struct, array_like=True, tag=14, gc=False):
    """The log does not keep the position of this reader any more, by request of its owner."""

    peer: PeerKey


class Withholding(msgspec.Struct, array_like=True, tag=15, gc=False):
    """Events of a publisher wait from here on. ``promised``: what it promised, if less counts now; None: that is as before."""

    peer: PeerKey
    events: list[RejectedEvent]
    promised: dict[str, int] | None = None


class ConfirmedEvents(msgspec.Struct, array_like=True, tag=16, gc=False):
    """The first ``count`` events of a publisher that waited are taken."""

    peer: PeerKey
    count: int


class DetectorCode(msgspec.Struct, array_like=True, tag=18, gc=False):
    """The code that the units run from this record on, in words, by name: see ``code_identity``."""

    units: dict[str, str]


LogEntry = (
    ReceivedPayload
    | PeerInterest
    | PeerDeparture
    | LocalBlock
    | ReaderPosition
    | AllAttached
    | LogBreak
    | RejectedEvents
    | IdlePromise
    | LineRenewal
    | GenerationStart
    | Resumption
    | Floors
    | UnitStops
    | ClockCorrection
    | ReaderRelease
    | Withholding
    | ConfirmedEvents
    | DetectorCode
)

BREAK = "!"
"""The reserved name of a block where changes are missing. No event type has this name."""


class Record(msgspec.Struct, array_like=True, gc=False):
    """One step of a node.

    ``number``
        of the record, from 1. ``first``: how many blocks were logged before it.
    ``stepped``
        whether the detectors ran, with the clock mark ``clock``; what they were given is what was taken in this record.
    ``finals``
        units whose watermark moved, and to where.
    """

    number: int
    first: int
    entries: list[LogEntry]
    stepped: bool
    clock: int | None
    finals: dict[str, int]

    def blocks(self) -> Iterator[tuple[int, bool, BlockHead, bytes]]:
        """(number, whether it originates at this node, head, block) of each block; a break counts as a block of names."""
        number = self.first
        for entry in self.entries:
            if type(entry) is ReceivedPayload:
                for head, block in zip(entry.changes.blocks, entry.blocks, strict=True):
                    number += 1
                    yield number, entry.peer[0] == "publisher", head, block
            elif type(entry) is LocalBlock:
                number += 1
                yield number, True, entry.head, entry.block
            elif type(entry) is LogBreak:
                number += 1
                yield number, False, BlockHead(BREAK, 0), encode((entry.names, entry.here))


decode_record: Callable[[bytes], Record] = msgspec.msgpack.Decoder(Record).decode
encode_record: Callable[[Record], bytes] = encode
