"""The log of a node that keeps none: what is noted is forgotten, so nobody has to ask whether there is a log."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import Floors, GenerationStart, LogEntry, LogOffset, PeerKey, Resumption
from middleware.broker.log.readers import Reader
from middleware.link.codec import BlockHead, Changes, Interest, SinkPosition

_ADVICE = 'give it durability = "disk", subscribe at a node that has it, or leave resume away'


class NullLog:
    """See the module, and ``Log`` for what each method notes."""

    keeps = False
    line = offset = oldest = began = 0
    gathers = False
    log_offset: LogOffset = (0, 0)
    readers: Mapping[PeerKey, Reader] = {}

    def received(self, peer: PeerKey, changes: Changes, blocks: list[bytes]) -> None: ...

    def subscribed(self, peer: PeerKey, interest: Interest, owner: str | None = None) -> None: ...

    def detached(self, peer: PeerKey, outlived: list[str]) -> None: ...

    def released(self, names: Collection[str], owner: str | None, attached: Container[PeerKey]) -> None: ...

    def next_block(self) -> None: ...

    def made(self, head: BlockHead, block: bytes) -> None: ...

    def broken(self, names: list[str], here: list[str]) -> None: ...

    def skipped(self, name: str, is_local: bool) -> None: ...

    def subscribe_only(self, patterns: Collection[str]) -> None: ...

    def rejected(self, rejected: list[RejectedEvent]) -> None: ...

    def noted(self, entry: GenerationStart | Resumption | Floors) -> None: ...

    def kept_word(self, entries: Iterable[LogEntry]) -> None: ...

    def moved(self, peer: PeerKey, offset: int, position: SinkPosition | None = None) -> None: ...

    def renewed(self, line: int, common: int) -> None: ...

    def all_attached(self) -> None: ...

    def stepped(self, clock: int | None, has_resumed: bool = False) -> None: ...

    def start_of(self, peer: PeerKey, interest: Interest) -> tuple[int, bool]:
        """Readers get what comes from now on; one that was here before finds out by itself that there is a gap."""
        return 0, False

    def blocks_after(self, offset: int) -> tuple[list[tuple[int, bool, BlockHead, bytes]], int]:
        """None."""
        return [], offset

    def shows_loss(self, peer: PeerKey, interest: Interest, promised: int) -> bool:
        """No reader can have more than what was never kept."""
        return False

    def objection(self, peer: PeerKey, interest: Interest, owner: str | None) -> str | None:
        """A name cannot be resumed here."""
        return f"it keeps no log, so nobody can resume there under a name: {_ADVICE}" if interest.resumes else None

    def is_subscribed(self, name: str) -> bool:
        """Nothing is kept for readers that are away."""
        return False

    def subscriptions(self) -> frozenset[str]:
        """Nothing beyond the subscriptions of attached readers."""
        return frozenset()


AnyLog = Log | NullLog
"""What a broker notes its steps in."""
