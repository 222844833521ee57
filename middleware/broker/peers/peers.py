"""What a broker knows about one peer: its link, its subscriptions and offers, and what waits to be sent to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

import msgspec
from msgspec.structs import replace

from middleware.broker.ingress.receipts import Account
from middleware.broker.log.log_records import LogOffset, PeerKey
from middleware.broker.pacing import spacing
from middleware.broker.peers.interests import InterestWindow
from middleware.broker.peers.rights import Rights, sender_of
from middleware.link.codec import BLOCK_TARGET, Answer, BlockHead, Changes, Interest, OnSlow, Ready, Tally, encode
from middleware.link.encoding import as_rows
from middleware.link.frames import Parts, Role
from middleware.link.link import Link, LinkStatistics
from middleware.model.event import NEVER
from middleware.model.time import MILLISECOND

Channel = Hashable
"""How the runtime knows where a message comes from or goes to: the name of a dialled node, or the bytes of a router."""

Numbered = tuple[BlockHead, bytes, int]
"""A block with its number in the log."""

SPREAD = 20 * MILLISECOND
"""Watermarks without events are sent at most this often, and so are clock marks. News after a quiet time is sent at once."""


MOST_ASKED = 1_000
"""Questions that a peer may ask before it has read the answer to an earlier one; one that asks more is refused."""

ANSWER_EVERY = 50 * MILLISECOND
"""Least time between two answers of a node to one peer: a status takes time in proportion to types and units."""


class PeerStatistics(msgspec.Struct):
    """One peer of a broker. ``slow``: it has no room, and what it reads waits at the source. ``reads``: whether it
    subscribes to any type; a peer that only asks for the node's status subscribes to none.
    """

    role: Role
    name: str
    up: bool
    slow: bool
    link: LinkStatistics
    reads: bool = True


class Peer:
    """See the module."""

    def __init__(
        self, role: Role, name: str, link: Link, channel: Channel, rights: Rights | None = None, shares: bool = False
    ) -> None:
        self.role, self.name, self.link, self.channel = role, name, link, channel
        self.sender = sender_of(name, rights, shares)
        """Whose sources it sends, if it is a publisher."""
        self.key: PeerKey = (role, name)
        self.patterns: frozenset[str] = frozenset()
        self.on_slow: OnSlow = "block"
        self.slow = False
        self.read_bytes = self.read_at = 0
        """While it is slow: how much had been sent to it when it last took a part of what waits, and when that was."""
        self.paused: frozenset[str] = frozenset()
        self.offered: frozenset[str] = frozenset()
        """Raw types it sends, if it is a publisher."""
        self.charged_until = 0
        """Until then it gets no further credit, as events of it were rejected, or are late."""
        self.account = Account()
        """What became of what it sent, if it is a publisher."""
        self._asked: int | None = None
        """Number of its last question, while that waits for an answer."""
        self._unanswered = 0
        """How many questions it has asked since it was last answered."""
        self._answered_at = -ANSWER_EVERY
        self.ready_number: int | None = None
        """Number of an Interest for which it gets ``Ready`` once all nodes know it."""
        self.interests = InterestWindow()
        self.sent_interest = 0, 0
        """Number of the last Interest sent to it (0 if none), and how many types that one named as logged."""
        self.generation = 0
        """The generation of this node that was last announced to it."""
        self.begun = False
        """Whether it has announced where in this node's log it resumes."""
        self.begun_in_log = False
        """Whether what it has not taken stays in the log."""
        self.behind: int | None = None
        """The offset in the log up to which it was served, while it is served from there."""
        self.owes: Interest | None = None
        """The Interest of a node that this one has yet to answer with ``Cover``."""
        self.covered = 0
        """Number of the last Interest of this node whose types the peer waits for."""
        self._versions: deque[tuple[int, int]] = deque()
        self._version, self._last_frame = -1, 0
        self._under_way: deque[LogOffset] = deque()
        self._interest_frame = 0
        self._is_mute = False
        """Whether it has been sent no watermarks since the last Interest."""
        self._blocks: list[Numbered] = []
        self._sent_watermarks: dict[str, int] | None = None
        self._sent_version, self._sent_turns = -1, 0
        self._sent_clock = NEVER
        self._watermarks_at = self._clock_at = -SPREAD
        self._sent_at = NEVER

    def take(self, head: BlockHead, block: bytes, number: int) -> None:
        """Queue a block for the next frame; ``number``: its number in the log (0: there is no log)."""
        if head.columns and not self.link.takes_columns:
            head, block = as_rows(head, block)
        self._blocks.append((head, block, number))

    def forget_watermarks(self) -> None:
        """It subscribes to, or was offered, other types from now on, so all watermarks are news to it."""
        self._sent_version = self._version = -1
        self._sent_watermarks = None
        self._versions.clear()

    def is_in(self, generation: int) -> None:
        """Frames to it belong to this generation; if that has just begun, they must announce again what has ended."""
        if generation != self.generation:
            self.generation = generation
            self.forget_watermarks()

    def news_due(self, version: int, clock: int, now: int, turns: int = 0, types: int = 0) -> bool:
        """Whether there is news of watermarks or clock, and it is time to send it: with events at once, unless watermarks of
        very many ``types`` merely rise; without events each of the two at most once in SPREAD.
        """
        moved, ticked = version != self._sent_version, clock > self._sent_clock
        if self._blocks:
            return (moved or ticked) and (turns != self._sent_turns or now - self._sent_at >= spacing(types))
        return (moved and now - self._watermarks_at >= SPREAD) or (ticked and now - self._clock_at >= SPREAD)

    def may_tick(self, turns: int) -> bool:
        """Whether a clock mark may go with events, and watermarks later: the peer knows which types go by the clock."""
        return bool(self._blocks) and turns == self._sent_turns and self._sent_watermarks is not None

    def post(
        self,
        watermarks: dict[str, int] | None,
        version: int,
        clock: int,
        now: int,
        log_offset: LogOffset = (0, 0),
        turns: int = 0,
    ) -> None:
        """Send the waiting blocks, then the watermarks (None: no news) and the clock mark (NEVER: none).

        ``log_offset``: the offset in this node's log that all of it together leads to.
        """
        is_newer = watermarks is not None and version != self._sent_version
        self._is_mute &= watermarks is None
        if watermarks is not None:
            self._sent_version, self._sent_turns, self._sent_at = version, turns, now
            if watermarks == self._sent_watermarks:
                watermarks = None
            else:
                self._sent_watermarks = watermarks
        clock_mark = clock if clock > self._sent_clock else None
        if clock_mark is not None:
            self._sent_clock = clock_mark
        if not self._blocks:
            self._watermarks_at = now if watermarks is not None else self._watermarks_at
            self._clock_at = now if clock_mark is not None else self._clock_at
        self._post_blocks(watermarks, clock_mark, log_offset)
        if is_newer and self.role == "node":
            self._versions.append((self._last_frame, version))

    def _post_blocks(self, watermarks: dict[str, int] | None, clock_mark: int | None, log_offset: LogOffset) -> None:
        blocks = self._blocks
        if not blocks and watermarks is None and clock_mark is None:
            return
        self._blocks = []
        if len(blocks) > 1:
            start, size = 0, 0
            for at, (_, data, _) in enumerate(blocks):
                if size and size + len(data) > BLOCK_TARGET:
                    self._send(None, None, blocks[start:at], (log_offset[0], blocks[at - 1][2]))
                    start, size = at, 0
                size += len(data)
            blocks = blocks[start:]
        self._send(clock_mark, watermarks, blocks, log_offset)

    def _send(
        self, clock: int | None, watermarks: dict[str, int] | None, blocks: list[Numbered], log_offset: LogOffset
    ) -> None:
        changes = Changes(clock, watermarks, [head for head, _, _ in blocks], *log_offset, self.generation)
        number = self._last_frame = self.link.send([encode(changes), *[data for _, data, _ in blocks]])
        if log_offset[0]:
            self._under_way.append((number, log_offset[1]))

    def passed(self) -> int | None:
        """The offset up to which it has taken everything, if that has moved since the last time."""
        offset = None
        while self._under_way and self._under_way[0][0] <= self.link.acked:
            offset = self._under_way.popleft()[1]
        return offset

    def send_interest(self, interest: Interest, log_offset: LogOffset) -> None:
        """Send the Interest of this node, and the offset it has reached in the peer's log."""
        self.sent_interest = interest.number, len(interest.logged)
        self.forget_watermarks()  # what was promised for a type before it was offered again counts no more
        self._is_mute = True
        self.interests.sent(interest)
        self._interest_frame = self.link.send([encode(replace(interest, line=log_offset[0], offset=log_offset[1]))])

    def answer_interest(self, interest: Interest, log_offset: LogOffset, now: int) -> None:
        """Notify a node that frames from here on follow its new Interest, behind all that followed the former one."""
        self.post(None, -1, NEVER, now, log_offset)
        self.link.send([encode(Ready(interest.number))])

    @property
    def is_clogged(self) -> bool:
        """Whether so much waits for its credit that news which later news replaces waits here, and not in its queue."""
        return self.link.queued_bytes >= BLOCK_TARGET

    def asks(self, number: int) -> None:
        """It asks a question, which replaces one that still waits for its answer."""
        self._asked = number
        self._unanswered += 1
        if self._unanswered > MOST_ASKED and self.link.closed is None:
            self.link.refuse(f"it has asked {MOST_ASKED} questions and read no answer: read one before you ask again")

    def is_answered_next(self, now: int) -> bool:
        """Whether its question may be answered now: it has taken the last answer, and that was not a moment ago."""
        is_due = self._asked is not None and now - self._answered_at >= ANSWER_EVERY
        return is_due and self.link.up and not self.link.queued_bytes

    def answer(self, make: Callable[[int], Answer | Tally], now: int) -> None:
        """Answer its question. ``make``: returns the answer to the question of this number."""
        if self._asked is not None:
            self.link.send([encode(make(self._asked))])
            self._asked, self._unanswered, self._answered_at = None, 0, now

    def tell_account(self, now: int) -> None:
        """Answer a publisher that has asked what became of what it sent; one answer waits at a time."""
        if self._asked is not None and self.link.up and not self.link.queued_bytes:
            self.answer(self.account.answer, now)

    def settled(self, wall: int | None, now: int) -> list[tuple[Channel, Parts]]:
        """End a step: all that the peer sent has been read. Returns what is to leave now. ``wall``: see Link."""
        link = self.link
        link.wall = wall
        link.end_step(now)
        if not link.outbox:
            return []
        sends = [(self.channel, message) for message in link.outbox]
        link.outbox.clear()
        return sends

    @property
    def rights(self) -> Rights | None:
        """What the key that it has shown may do; None without keys."""
        return self.sender.rights

    @property
    def owner(self) -> str | None:
        """Whose key it has shown, if there are keys: no one else gets its link."""
        return self.rights.owner if self.rights is not None else None

    @property
    def is_linked(self) -> bool:
        """Whether it has answered on this link, and the link is open."""
        return self.link.peer is not None and self.link.closed is None

    def has_watermarks(self, version: int) -> bool:
        """Whether a node has taken the promises of this node in this version, or, after its last Interest, none yet: then it
        waits for all types in that."""
        acked = self.link.acked
        while self._versions and self._versions[0][0] <= acked:
            self._version = self._versions.popleft()[1]
        is_waiting = self._is_mute and 0 < self._interest_frame <= acked
        return self._version >= version or is_waiting

    def statistics(self) -> PeerStatistics:
        """A record of this peer."""
        return PeerStatistics(self.role, self.name, self.link.up, self.slow, self.link.statistics(), bool(self.patterns))
