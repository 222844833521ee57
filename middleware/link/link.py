"""One end of a link: a reliable first-in first-out stream of payloads each way between two processes, over channels that
may lose, repeat and reorder messages, and break.

A pure state machine: messages in, messages out (``outbox``), time as an argument. Each end's life has an epoch. Payloads
are numbered from 1 in each life; the receiver takes them in order, acknowledges cumulatively, drops repeats, and asks
again from the first one missing (go-back-N: over TCP nothing is lost but at a reconnect). The receiver grants credit in
bytes, so what is under way is bounded: by WINDOW, or by what the receiver has taken within PACE of late, if that is more, as
TCP tunes its own. The owner bounds its own queue beyond it.

The end that dials says Hello until it is answered, also after a break; the other end answers. If the answer comes from
another life of the peer, a durable link begins a new life of its own, with ``greeting`` as its first payload, and
sends again what was not acknowledged; any other link is closed, as it is when the peer is dead.
"""

from __future__ import annotations

from collections import deque

import msgspec

from middleware.link.columnar import takes_columns
from middleware.link.frames import VERSION, Ack, AnyFrame, Bye, Data, Hello, Parts, Refusal, Role, encode_frame, payload_size
from middleware.model.time import MILLISECOND, SECOND

WINDOW = 512 * 1024
"""Bytes of payload that may be under way, unread, in one direction of a link, however slow its reader is."""

MOST_WINDOW = 4 * WINDOW
"""The most bytes under way, however fast the reader is."""

PACE = 20 * MILLISECOND
"""A fast reader is granted what it takes in so long: neither end waits for the other then, and nothing waits for longer."""

_MOST_CREDIT = MOST_WINDOW
"""However much credit a peer grants, no more than this is sent unacknowledged."""

HEARTBEAT = 500 * MILLISECOND
"""An end that has sent nothing for this long sends a heartbeat."""

SILENCE = 10 * SECOND
"""A peer silent for this long is dead, whether its channel broke or not; giving up earlier would lose what is under way."""

LAZY = 20 * MILLISECOND
"""How long an end puts off an acknowledgement, unless the peer asks or needs the credit: so one covers many frames."""

RETRY = 100 * MILLISECOND
"""Shortest time between two requests, or two answers, to send again; and between two Hellos."""

_ALL_AGAIN = 6
"""How often all that is not acknowledged is sent again; from then on, as in TCP, only the first payload of it.

The pauses double from RETRY on and stay the same from then on.
"""

_MOST_IN_VAIN = 15
"""How often the same payload is sent again before a peer that does not take it is refused.

This takes longer than SILENCE: a peer cut off in one direction only is found dead before. A channel that loses every fifth
message loses one so often once in 10^11 times. Without this limit, a peer that asks and does not read could have the same bytes
put into its channel for ever.
"""


class LinkStatistics(msgspec.Struct):
    """Counts of one end of a link; bytes are of payload."""

    frames_in: int = 0
    bytes_in: int = 0
    frames_out: int = 0
    bytes_out: int = 0
    resent: int = 0
    duplicates: int = 0
    gaps: int = 0
    old_epoch: int = 0
    queued_bytes: int = 0
    unacked_bytes: int = 0


class Link:
    """See the module. The owner sends what ``outbox`` holds after each call, and looks at ``closed`` (the reason, or None)."""

    def __init__(self, name: str, role: Role, epoch: int, now: int, *, dials: bool, durable: bool = False) -> None:
        self.outbox: list[Parts] = []
        self.closed: str | None = None
        self.refused = False
        """Whether it was closed because one end refused the other."""
        self.up = False
        self.peer: Hello | None = None
        self.credit_paused = False
        """While set, no further credit is granted."""
        self.shut = False
        """While set, no payload is taken: the peer keeps them, and sends them again once it is asked to."""
        self.greeting: Parts | None = None
        """The first payload of each life, if any."""
        self.wall: int | None = None
        """Unix time minus the running clock; None if this end does not announce it."""
        self.shares = False
        """Announced to the peer: see Hello."""
        self.name, self.role, self.epoch, self.dials, self.durable = name, role, epoch, dials, durable
        self.restarts = 0
        """How often this end has begun a new life."""
        self._count = LinkStatistics()
        self._peer_epoch = 0
        self._received_at, self._sent_at = now, now - RETRY
        self._paced_at = now
        self._asked_at = self._resent_at = now - RETRY
        self._fresh_streams()

    def _fresh_streams(self) -> None:
        self._queue: deque[tuple[Parts, int]] = deque()
        self._unacked: deque[tuple[int, Parts | None, int]] = deque()
        self._sent = self._acked = self._sent_bytes = self._peer_limit = 0
        self._received = self._received_bytes = self._consumed_bytes = self._limit = 0
        self._announced = 0
        self._window, self._paced_bytes = WINDOW, 0
        self._ack_due = self._asked = False
        self._in_vain = 0
        self._withheld: int | None = None  # the first payload that is taken and not acknowledged: see ``withhold``
        self._bye: str | None = None
        self._returns = False
        self.queued_bytes = self.unacked_bytes = 0

    # -- sending ------------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether a payload sent now would leave at once."""
        return self.up and not self._queue and self._sent_bytes < self._peer_limit

    @property
    def takes_columns(self) -> bool:
        """Whether the peer has announced that it takes blocks in columns."""
        return self.peer is not None and self.peer.columns

    @property
    def idle(self) -> bool:
        """Whether everything sent has been acknowledged."""
        return self.outstanding == 0

    @property
    def outstanding(self) -> int:
        """How many payloads wait to be sent or acknowledged."""
        return len(self._queue) + len(self._unacked)

    @property
    def awaits(self) -> bool:
        """Whether the peer is known to have sent what has not come: it is not silent, its channel has lost something."""
        return self._announced > self._received

    @property
    def sent_bytes(self) -> int:
        """Bytes of payload that have left for the peer in this life, as far as it gave credit for them."""
        return self._sent_bytes

    @property
    def acked(self) -> int:
        """Number of the last payload acknowledged."""
        return self._acked

    def send(self, parts: Parts) -> int:
        """Queue a payload; it leaves as soon as there is credit. Returns its number in this life. O(parts)."""
        size, queue = payload_size(parts), self._queue
        if self.up and not queue and self._sent_bytes < self._peer_limit and self._bye is None:
            self._sent_bytes += size
            self._transmit(parts, size)
            return self._sent
        queue.append((parts, size))
        self.queued_bytes += size
        number = self._sent + len(queue)
        if self.up:
            self._flush()
        return number

    def bye(self, reason: str, returns: bool = False) -> None:
        """Leave once everything queued has been sent; ``closed`` is set when the peer has acknowledged all of it.

        ``returns``: a next life will resume where this one ends.
        """
        if self._bye is None:
            self._bye, self._returns = reason, returns
            self._flush()

    def refuse(self, reason: str) -> None:
        """Leave at once: what is queued or under way is lost."""
        self.outbox.append([encode_frame(Refusal(reason, True))])
        self.closed, self.refused = reason, True

    def _flush(self) -> None:
        queue = self._queue
        while queue and self.up and self._sent_bytes < self._peer_limit:
            parts, size = queue.popleft()
            self.queued_bytes -= size
            self._sent_bytes += size
            self._transmit(parts, size)
        if (
            self._bye is not None
            and self.closed is None
            and self.up
            and not queue
            and (not self._unacked or self._unacked[-1][1] is not None)
        ):
            self._transmit(None, 0)

    def _transmit(self, parts: Parts | None, size: int) -> None:
        self._sent += 1
        self.unacked_bytes += size
        self._unacked.append((self._sent, parts, size))
        self._count.frames_out += 1
        self._count.bytes_out += size
        self._write(self._sent, parts)

    def _write(self, seq: int, parts: Parts | None) -> None:
        self._ack_due = False
        limit = self._granted()
        if parts is None:
            self.outbox.append([encode_frame(Bye(self.epoch, seq, self._confirmed, limit, self._bye or "", self._returns))])
        else:
            self.outbox.append([encode_frame(Data(self.epoch, seq, self._confirmed, limit, parts[0])), *parts[1:]])

    def _resend(self, now: int) -> None:
        """Send again what is not acknowledged, ever more rarely while none of it is taken: the peer may not be reading."""
        if self._unacked and now - self._resent_at >= RETRY << min(self._in_vain, _ALL_AGAIN):
            if self._in_vain == _MOST_IN_VAIN:
                self.refuse("it asks again and again for what it does not take")
                return
            again = list(self._unacked) if self._in_vain < _ALL_AGAIN else [self._unacked[0]]
            self._resent_at = now
            self._in_vain += 1
            self._count.resent += len(again)
            for seq, parts, _ in again:
                self._write(seq, parts)

    def is_withheld(self, now: int) -> None:
        """This end cannot send at the moment: it sends nothing again, and the peer does not ask in vain."""
        self._in_vain, self._resent_at = 0, now

    # -- receiving ----------------------------------------------------------------------------------------------------

    def receive(self, frame: AnyFrame, parts: Parts, now: int) -> Parts | None:
        """Take a message. Returns its payload if it is the next one in order."""
        if type(frame) is Data:
            return self._take(frame, parts, now)
        if type(frame) is Ack:
            self._acknowledged(frame, now)
        elif type(frame) is Bye:
            if self._take(frame, parts, now) is not None:
                self._acknowledge(now)
                if frame.returns and self.durable:
                    self.up = False  # dial until its next life answers
                else:
                    self.closed = f"{'will be back' if frame.returns else 'said goodbye'}: {frame.reason}"
        elif type(frame) is Hello:
            self.hello_received(frame, now)
        elif type(frame) is Refusal:
            self._refused(frame, now)
        return None

    def put_back(self, parts: Parts) -> None:
        """Do as if the payload that was just received had not come: the peer keeps it, and sends it again once asked to."""
        size = payload_size(parts)
        self._received -= 1
        self._received_bytes -= size
        self._count.frames_in -= 1
        self._count.bytes_in -= size

    def shuts(self, is_shut: bool, now: int) -> None:
        """Take no payloads, or take them again: then ask for those that were not taken."""
        if self.shut and not is_shut:
            self._ask_again(now)
        self.shut = is_shut

    def _acknowledged(self, frame: Ack, now: int) -> None:
        if not self._is_current(frame.epoch, now):
            return
        self._settled(frame.received, frame.limit)
        if frame.missing:
            self._resend(now)
        if frame.asks:
            self._ack_due = self._asked = True
        if frame.sent > self._received:
            self._announced = max(self._announced, frame.sent)
            if not self.shut:
                self._ask_again(now)

    def _take(self, frame: Data | Bye, parts: Parts, now: int) -> Parts | None:
        if not self._is_current(frame.epoch, now):
            return None
        if frame.received > self._acked or frame.limit > self._peer_limit:
            self._settled(frame.received, frame.limit)
        if self.shut and frame.seq > self._received:
            return None
        if frame.seq != self._received + 1:
            if frame.seq <= self._received:
                self._count.duplicates += 1
                self._ack_due = True
            else:
                self._count.gaps += 1
                self._announced = max(self._announced, frame.seq)
                self._ask_again(now)
            return None
        if type(frame) is Data and self._received_bytes >= self._limit:
            if self._limit:  # else it uses credit of a former life of this end, and will send this again
                self.refuse("it ignores its credit")
            return None
        self._received += 1
        self._count.frames_in += 1
        if type(frame) is Data:
            parts = [frame.head, *parts]
            size = payload_size(parts)
            self._received_bytes += size
            self._count.bytes_in += size
        self._ack_due = True
        return parts

    def _is_current(self, epoch: int, now: int) -> bool:
        if epoch != self._peer_epoch or not self.up:
            self._count.old_epoch += 1
            if self.dials and epoch > self._peer_epoch:
                self.up = (
                    False  # a newer life of the peer talks to a former life of this end, whose Hello came late: dial again
                )
            return False
        self._received_at = now
        return True

    def _settled(self, received: int, limit: int) -> None:
        """The peer has everything up to ``received`` and grants ``limit`` bytes."""
        received = min(received, self._sent)  # a peer cannot have what was never sent
        unacked = self._unacked
        if unacked and unacked[0][0] <= received:
            self._in_vain = 0
        while unacked and unacked[0][0] <= received:
            _, parts, size = unacked.popleft()
            self.unacked_bytes -= size
            if parts is None:
                self.closed = self._bye or "left"
        self._acked = max(self._acked, received)
        most = self._sent_bytes - self.unacked_bytes + _MOST_CREDIT
        self._peer_limit = max(self._peer_limit, min(limit, most))
        if self._queue or self._bye is not None:
            self._flush()

    def _ask_again(self, now: int) -> None:
        if now - self._asked_at >= RETRY:
            self._asked_at = now
            self._acknowledge(now, missing=True)

    # -- credit and acknowledgements ----------------------------------------------------------------------------------

    def consume(self, size: int | None = None) -> None:
        """Give the peer room for ``size`` more bytes (default: all that was received)."""
        consumed = self._received_bytes if size is None else self._consumed_bytes + size
        self._consumed_bytes = consumed
        if not self.credit_paused and self._limit < consumed + self._window:
            self._ack_due = True

    def end_step(self, now: int) -> None:
        """Do what ``consume`` (of all that came), ``tick`` and ``settle`` do, at next to no cost if nothing is due."""
        consumed = self._consumed_bytes = self._received_bytes
        if not self.credit_paused and self._limit < consumed + self._window:
            self._ack_due = True
        if not self.up or now - self._sent_at >= HEARTBEAT or now - self._received_at > SILENCE:
            self.tick(now)
        if self._ack_due:
            self.settle(now)
        else:
            self._pace(now)

    def settle(self, now: int) -> None:
        """Acknowledge what was received since the last time, unless a payload has carried that already."""
        self._pace(now)
        if self._ack_due and self.up:
            unannounced = self._consumed_bytes + self._window - self._limit
            if self._asked or unannounced >= WINDOW // 8 or now - self._sent_at >= LAZY:
                self._acknowledge(now)

    def _pace(self, now: int) -> None:
        """Measure how fast payloads are taken, and set the window by it."""
        passed = now - self._paced_at
        if passed >= PACE:
            taken = self._consumed_bytes - self._paced_bytes
            self._window = max(WINDOW, min(taken * PACE // passed, MOST_WINDOW))
            self._paced_at, self._paced_bytes = now, self._consumed_bytes

    @property
    def _confirmed(self) -> int:
        """The last payload that may be acknowledged."""
        return self._received if self._withheld is None else self._withheld - 1

    def withhold(self) -> None:
        """Acknowledge neither the last payload nor those that follow until ``confirm`` is called. They are taken as ever."""
        if self._withheld is None:
            self._withheld = self._received

    def confirm(self) -> None:
        """Acknowledge what was withheld, at the next ``settle``."""
        if self._withheld is not None:
            self._withheld = None
            self._ack_due = self._asked = True

    def ask(self, now: int) -> None:
        """Ask the peer to acknowledge at once."""
        if self.up:
            self._acknowledge(now, asks=True)

    def _acknowledge(self, now: int, missing: bool = False, asks: bool = False) -> None:
        self._ack_due = self._asked = False
        self._sent_at = now
        ack = Ack(self.epoch, self._confirmed, self._granted(), self._sent, missing, asks)
        self.outbox.append([encode_frame(ack)])

    def _granted(self) -> int:
        if not self.credit_paused:
            self._limit = max(self._limit, self._consumed_bytes + self._window)  # what was granted is never taken back
        return self._limit

    # -- life and death -----------------------------------------------------------------------------------------------

    def has_received_since(self, at: int) -> bool:
        """Whether a message of the peer has come since this moment."""
        return self._received_at > at

    def is_quiet(self, now: int) -> bool:
        """Whether two heartbeats of the peer are missing."""
        return not self.up or now - self._received_at > 2 * HEARTBEAT

    def exempt(self, duration: int, now: int) -> None:
        """This end was away for ``duration``: the peer's silence in that time does not count."""
        self._received_at = min(now, self._received_at + duration)

    def tick(self, now: int) -> None:
        """To be called several times a HEARTBEAT: sends Hello and heartbeats when due, sets ``closed`` if the peer is dead."""
        if self.closed is not None:
            return
        silent = now - self._received_at
        if self.peer is not None and silent > SILENCE:
            if not self.durable:
                self.closed = f"dead: silent for {silent / SECOND:.1f} s"
                return
            self.up = False
        if not self.up:
            if self.dials and now - self._sent_at >= RETRY:
                self.say_hello(now)
        elif now - self._sent_at >= HEARTBEAT:
            self._acknowledge(now)

    def broken(self) -> None:
        """The channel broke. The end that dials begins to say Hello, the other waits for it; for both, SILENCE runs on."""
        if self.dials:
            self.up = False

    def say_hello(self, now: int) -> None:
        """Open or resume the link."""
        self._sent_at = now
        wall = max(0, self.wall + now) if self.wall is not None else 0
        life = self.epoch, self._peer_epoch, self._confirmed, self._granted()
        hello = Hello(VERSION, self.name, self.role, *life, wall, takes_columns(), self.shares)
        self.outbox.append([encode_frame(hello)])

    def hello_received(self, hello: Hello, now: int) -> None:
        """The peer opens or resumes (to an accepting end), or answers (to a dialling one)."""
        if self.dials and hello.peer_epoch != self.epoch:
            self._count.old_epoch += 1  # an answer to an earlier life of this end
            return
        if self.dials and self._peer_epoch not in (0, hello.epoch):
            if self.durable:
                self._restart(now)
            else:
                self.closed = "restarted"
            return
        self._received_at = now
        first = self._peer_epoch == 0
        self.peer, self._peer_epoch = hello, hello.epoch
        if self.up and self.dials:
            return  # a repeated answer
        self.up = False  # so that nothing new leaves before what is sent again
        if not self.dials:
            self.say_hello(now)
        if first and self.greeting is not None:
            self._queue.appendleft((self.greeting, payload_size(self.greeting)))
            self.queued_bytes += self._queue[0][1]
        known = hello.peer_epoch == self.epoch
        self._settled(hello.received if known else 0, hello.limit)
        self._resend(now)
        self.up = True
        self._flush()

    def _restart(self, now: int) -> None:
        """The peer lost this link's state: begin a new life here too, and send again what was not acknowledged."""
        unsettled = [(parts, size) for _, parts, size in self._unacked if parts is not None] + list(self._queue)
        again = [(parts, size) for parts, size in unsettled if parts is not self.greeting]
        bye, returns = self._bye, self._returns
        self._fresh_streams()
        self._queue.extend(again)
        self.queued_bytes = sum(size for _, size in again)
        self._bye, self._returns = bye, returns
        self.restarts += 1
        self._peer_epoch = 0
        self.epoch += 1
        self.up = False
        self.say_hello(now)

    def _refused(self, refusal: Refusal, now: int) -> None:
        if self.refused:
            return  # the peer's answers to frames that crossed its refusal must not open the link again
        if refusal.epoch not in (0, self.epoch):
            self._count.old_epoch += 1
            return
        self._received_at = now
        if refusal.final or self._bye is not None:
            self.closed, self.refused = f"refused: {refusal.reason}", refusal.final
        elif self.dials and self.up:
            self.up = False
            self.say_hello(now)

    def statistics(self) -> LinkStatistics:
        """A copy of the counts."""
        return msgspec.structs.replace(self._count, queued_bytes=self.queued_bytes, unacked_bytes=self.unacked_bytes)

    def check(self) -> None:
        assert self.queued_bytes == sum(size for _, size in self._queue)
        assert self.unacked_bytes == sum(size for _, _, size in self._unacked)
        assert [seq for seq, _, _ in self._unacked] == list(range(self._sent - len(self._unacked) + 1, self._sent + 1))
        assert self._consumed_bytes <= self._received_bytes
