"""The log of a node as its broker sees it: the input and output of each step, block by block, under lasting offsets.

Pure: ``close`` returns the record of a step, the owner stores it, and stored records can be read through ``stored``.
See docs/decisions/009. Blocks are numbered from 1 over all lives of the log; an *offset* is the number of the last block
that a reader has passed, including blocks that it did not subscribe to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import astuple, replace

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log_records import (
    AllAttached,
    DetectorCode,
    Floors,
    GenerationStart,
    LineRenewal,
    LocalBlock,
    LogBreak,
    LogEntry,
    LogOffset,
    PeerDeparture,
    PeerInterest,
    PeerKey,
    ReaderPosition,
    ReaderRelease,
    ReceivedPayload,
    Record,
    RejectedEvents,
    Resumption,
    UnitStops,
)
from middleware.broker.log.readers import Reader
from middleware.broker.routing import RoutingTable, is_subscribed, matches
from middleware.link.codec import BLOCK_TARGET, BlockHead, Changes, Interest, SinkPosition
from middleware.model.event import END, NEVER

StoredRecords = Callable[[int, int], Iterable[Record]]
"""(offset, bytes) -> the stored records with blocks after the offset, in order, from the first on, about so many bytes."""

_MOST_LINES = 16
"""Most former identities that a log remembers."""

MOST_NAMES = 1_000
"""Most subscriptions with a name that one log keeps offsets for, for each key; all clients without a key count as one."""

MOST_REMEMBERED = 10_000
"""Most readers of one life that are remembered as having come before."""


class Log:
    """See the module.

    ``line``
        identity of this log. ``oldest``: the offset up to which it may have been cut off.
    ``former``
        by identity that it had before it lost its end: the offset up to which the log is the same.
    ``began``
        the offset at which this life of the node began.
    ``offset``
        number of the last block; ``number``: of the last record closed.
    ``readers``
        those the log is kept for: nodes, and subscribers.
    ``gathers``
        whether all output is kept, because peers that have not been seen yet may subscribe to it.
    ``outrun``
        the peer that has shown in this life that the log lacks what it once had. Only one is believed: otherwise a peer that
        lies could harm others again and again.
    """

    keeps = True
    """Whether what is noted outlives the process."""

    def __init__(self, line: int, stored: StoredRecords) -> None:
        self.line = line
        self.oldest = 0
        self.offset = self.number = self.began = 0
        self.former: dict[int, int] = {}
        self.readers: dict[PeerKey, Reader] = {}
        self.gathers = True
        self.outrun = ""
        self._here_before: set[PeerKey] = set()  # readers that have attached in this life
        self._table: RoutingTable[PeerKey] = RoutingTable()
        self._present: set[tuple[str, bool]] = set()  # types, made here or elsewhere, with blocks since changes were skipped
        self._stored = stored
        self._entries: list[LogEntry] = []
        self._first = 0
        self._finals: dict[str, int] = {}
        self._has_resumed = False
        self._clock: int | None = None
        self._stepped = False
        self._unstored: deque[Record] = deque()
        self._code: dict[str, str] = {}
        self._noted_code: dict[str, str] = {}

    @property
    def log_offset(self) -> LogOffset:
        """The offset of a reader that has read all of it."""
        return self.line, self.offset

    # -- writing ------------------------------------------------------------------------------------------------------

    def received(self, peer: PeerKey, changes: Changes, blocks: list[bytes]) -> None:
        """Note an admitted payload, before any of its blocks is handed on; the blocks get the next numbers."""
        self._entries.append(ReceivedPayload(peer, changes, blocks))
        if peer[0] == "node":
            self._present.update((head.type, False) for head in changes.blocks)

    def subscribed(self, peer: PeerKey, interest: Interest, owner: str | None = None) -> None:
        """Note what a peer subscribes to and offers; nodes and subscribers are readers from then on."""
        self._entries.append(PeerInterest(peer, interest, owner))
        self._remember(peer, interest, owner)

    def detached(self, peer: PeerKey, outlived: list[str]) -> None:
        """Note that a peer is gone for good; a subscriber with a name stays a reader."""
        self._entries.append(PeerDeparture(peer, outlived))
        self._forget(peer)

    def released(self, names: Collection[str], owner: str | None, attached: Container[PeerKey]) -> None:
        """Drop the positions of these named subscriptions: names, or their beginnings and a ``*``. Those of other keys, and
        those that are attached, stay."""
        for peer in [peer for peer, reader in self.readers.items() if reader.named and reader.owner == owner]:
            if peer not in attached and any(matches(name, peer[1]) for name in names):
                self._entries.append(ReaderRelease(peer))
                self._release(peer)

    def _release(self, peer: PeerKey) -> None:
        if self.readers.pop(peer, None) is not None:
            self._table.subscribe(peer, ())

    def next_block(self) -> None:
        """A block of what was received is about to be handed on, under the number ``offset``."""
        self.offset += 1

    def made(self, head: BlockHead, block: bytes) -> None:
        """Note a block published here."""
        self.offset += 1
        self._entries.append(LocalBlock(head, block))
        self._present.add((head.type, True))

    def broken(self, names: list[str], here: list[str]) -> None:
        """Note that changes of these types are missing."""
        self.offset += 1
        self._entries.append(LogBreak(names, here))

    def skipped(self, name: str, is_local: bool) -> None:
        """The log skips changes of a type, as nobody subscribes to them. ``is_local``: they were made here.

        Who reads on from an earlier offset must get a gap: earlier results may be among those that were withdrawn.
        """
        if (name, is_local) in self._present:
            self._present.discard((name, is_local))
            self.offset += 1
            self._entries.append(LogBreak([name], [name] if is_local else [], unsubscribed=True))

    def subscribe_only(self, patterns: Collection[str]) -> None:
        """Other nodes are asked for these patterns from now on, and skip changes of other types. O(types in the log)."""
        for name in sorted(name for name, is_local in self._present if not is_local and not is_subscribed(patterns, name)):
            self.skipped(name, is_local=False)

    def rejected(self, rejected: list[RejectedEvent]) -> None:
        """Note rejected events."""
        self._entries.append(RejectedEvents(rejected))

    def noted(self, entry: GenerationStart | Resumption | Floors) -> None:
        """Note that a generation began or resumed, or what other nodes have called final."""
        self._entries.append(entry)

    def kept_word(self, entries: Iterable[LogEntry]) -> None:
        """Note promises for idle sources, by which clock, and events that wait: all this outlasts a crash."""
        self._entries += entries

    def halted(self, names: list[str]) -> None:
        """Note that units have stopped."""
        self._entries.append(UnitStops(names))

    def moved(self, peer: PeerKey, offset: int, position: SinkPosition | None = None) -> None:
        """Note how far a reader has got."""
        reader = self.readers.get(peer)
        if reader is not None and (offset > reader.offset or position != reader.position):
            reader.moved(max(reader.offset, min(offset, self.offset)), position, self.oldest)
            self._entries.append(ReaderPosition(peer, reader.offset, position))

    def renewed(self, line: int, common: int) -> None:
        """Note that what the log had after offset ``common`` is lost, and with it the log's identity."""
        self._entries.append(LineRenewal(line, common))
        self._renew(line, common)

    def _renew(self, line: int, common: int) -> None:
        former = {before: min(offset, common) for before, offset in self.former.items()} | {self.line: common}
        self.line, self.former = line, dict(list(former.items())[-_MOST_LINES:])

    def all_attached(self) -> None:
        """Note that all configured peers have been seen."""
        self.gathers = False
        self._entries.append(AllAttached())

    def stepped(self, clock: int | None, has_resumed: bool = False) -> None:
        """Note that the detectors ran on all that was taken. ``has_resumed``: streams that had ended resumed before."""
        self._stepped, self._clock = True, clock
        self._has_resumed |= has_resumed

    @property
    def noted_code(self) -> Mapping[str, str]:
        """The code of the units that the log has noted last, in words."""
        return self._noted_code

    def runs(self, code: Mapping[str, str]) -> None:
        """Note the code of the units with the next record, unless the log has it."""
        self._code = dict(code)

    def close(self, finals: Mapping[str, int], even_empty: bool = False) -> Record | None:
        """End the step; returns its record, or None if there is nothing to keep. The owner stores it and calls ``kept``."""
        # Where streams have resumed, a unit that is at the end has come there again: a replay has to know.
        again, self._has_resumed = END if self._has_resumed else None, False
        moved = {name: final for name, final in finals.items() if final == again or self._finals.get(name, NEVER) != final}
        if not self._entries and not moved and not even_empty:
            self._stepped = False
            return None
        self._finals |= moved
        if self._code and self._code != self._noted_code:
            self._entries.insert(0, DetectorCode(self._code))
            self._noted_code = self._code
        self.number += 1
        record = Record(self.number, self._first, self._entries, self._stepped, self._clock, moved)
        self._unstored.append(record)
        self._entries, self._first, self._stepped = [], self.offset, False
        return record

    def kept(self, number: int) -> None:
        """The records up to this one are stored."""
        while self._unstored and self._unstored[0].number <= number:
            self._unstored.popleft()

    # -- reading ------------------------------------------------------------------------------------------------------

    def blocks_after(self, offset: int) -> tuple[list[tuple[int, bool, BlockHead, bytes]], int]:
        """The next blocks after an offset, about a frame's worth, and the offset they lead to. O(bytes).

        Blocks that cannot be read any more are passed over: the first number, or the offset, shows that they are missing.
        """
        found: list[tuple[int, bool, BlockHead, bytes]] = []
        size, at = 0, offset
        for record in self._records_after(offset):
            at = max(at, record.first)  # records without blocks may be all that is left behind damaged ones
            for numbered in record.blocks():
                if numbered[0] > at:
                    found.append(numbered)
                    at, size = numbered[0], size + len(numbered[3])
            if size >= BLOCK_TARGET:
                break
        return found, at

    def _records_after(self, offset: int) -> Iterator[Record]:
        waiting = self._unstored[0].first if self._unstored else self._first
        if offset < waiting:
            found = False
            for record in self._stored(offset, BLOCK_TARGET):
                found = True
                yield record
            if found:
                return
            self.oldest = max(waiting, self.oldest)  # none of it can be read any more
        yield from self._unstored
        yield Record(0, self._first, self._entries, False, None, {})

    def start_of(self, peer: PeerKey, interest: Interest) -> tuple[int, bool]:
        """The offset at which a reader that just attached resumes, and whether there is a gap before it.

        A reader ahead of this log has read blocks that were lost with a disk, and misses those that have their numbers now.
        """
        common = self.former.get(interest.line)
        is_here = interest.line == self.line or (common is not None and interest.offset <= common)
        if is_here:
            offset = interest.offset
        elif (reader := self.readers.get(peer)) is not None and reader.named:
            offset = reader.commit_for(interest.after)[0]
        elif common is not None:
            offset = common
        else:  # new to this log: a node gets all that there is, a subscriber what comes from now on
            offset = 0 if peer[0] == "node" else self.offset
        is_gap = not self.oldest <= offset <= self.offset or not (is_here or interest.line == 0)
        is_known = is_here or interest.after is not None  # it has been here before,
        is_forgotten = is_known and peer not in self.readers  # and nothing was kept for it any more
        return max(min(offset, self.offset), self.oldest), is_gap or is_forgotten

    # -- readers ------------------------------------------------------------------------------------------------------

    def shows_loss(self, peer: PeerKey, interest: Interest, promised: int) -> bool:
        """Whether a reader that attaches is the first to show that this log has lost something: see ``is_outrun``."""
        is_first = peer not in self._here_before and len(self._here_before) < MOST_REMEMBERED
        if is_first:
            self._here_before.add(peer)
        if self.outrun or not self.is_outrun(peer, interest, promised, is_first):
            return False
        self.outrun = f"{peer[0]} {peer[1]}"
        return True

    def is_outrun(self, peer: PeerKey, interest: Interest, promised: int, is_first: bool) -> bool:
        """Whether a reader has what this log never had: then the log is an older copy, or lacks its end.

        ``promised``: the latest time that is final in any type it reads, as far as this log knows. ``is_first``: it was not
        here before in this life, so what it has is of former ones.
        """
        if interest.line:
            return interest.line == self.line and interest.offset > (self.began if is_first else self.offset)
        reader = self.readers.get(peer)
        return reader is not None and reader.named and interest.after is not None and interest.after[0] > promised

    def objection(self, peer: PeerKey, interest: Interest, owner: str | None) -> str | None:
        """Why this log refuses a reader, if it does. O(readers) for a new name."""
        known = self.readers.get(peer)
        if known is not None and known.named:
            if known.owner != owner:
                return f"the position of subscription {peer[1]!r} belongs to another key"
            if not interest.resumes:
                return f"{peer[1]!r} is the name of a subscription with a stored position: resume it, or take another name"
            if known.final is not None and interest.final not in (None, known.final):
                read, asked = ("final results", "early ones") if known.final else ("early results", "final ones")
                return f"{peer[1]!r} is the name of a subscription that has read {read}: for {asked} take another name"
        elif interest.resumes and sum(each.named and each.owner == owner for each in self.readers.values()) >= MOST_NAMES:
            whose = f"the key of {owner!r}" if owner is not None else "clients without a key"
            return (
                f"it keeps the positions of {MOST_NAMES:,} named subscriptions for {whose}, the most it keeps: "
                "'slackline names ADDRESS' lists them, and with --release NAME it drops those that nobody needs any more"
            )
        return None

    def _remember(self, peer: PeerKey, interest: Interest, owner: str | None) -> None:
        if peer[0] != "publisher":
            known = self.readers.get(peer)
            patterns = frozenset(interest.subscriptions)
            if known is None:
                known = Reader(patterns, self.start_of(peer, interest)[0], interest.resumes)
            elif not interest.line:
                known.back(interest.after)
            final = known.final if interest.final is None else interest.final
            if peer[0] == "node":
                # What it had subscribed to in a former line may be lost with the end of that line: all since then is its due.
                until = self.former.get(interest.line, self.offset)
                known = replace(known, earlier=known.earlier_with(patterns, until))
            self._keep(peer, replace(known, patterns=patterns, named=interest.resumes, owner=owner, final=final))

    def _keep(self, peer: PeerKey, reader: Reader) -> None:
        self.readers[peer] = reader
        self._table.subscribe(peer, reader.patterns)

    def _forget(self, peer: PeerKey) -> None:
        if peer in self.readers and not self.readers[peer].named:
            self._release(peer)

    def subscriptions(self) -> frozenset[str]:
        """The patterns of this node's subscribers, including those that are away."""
        return self._table.patterns([peer for peer in self.readers if peer[0] == "subscriber"])

    def is_subscribed(self, name: str) -> bool:
        """Whether any reader, attached or not, subscribes to a type."""
        return self.gathers or bool(self._table.route(name))

    @property
    def needed(self) -> int:
        """Every reader has passed this offset, including those that have not been seen yet."""
        if self.gathers:
            return 0
        return min((reader.offset for reader in self.readers.values()), default=self.offset)

    # -- lives --------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The part of the log that a checkpoint has, at a step's end."""
        readers = {peer: astuple(replace(reader, commits=reader.commits.copy())) for peer, reader in self.readers.items()}
        return {
            "position": self.offset,
            "number": self.number,
            "finals": dict(self._finals),
            "readers": readers,
            "gathers": self.gathers,
            "line": self.line,
            "former": dict(self.former),
            "present": set(self._present),
            "code": dict(self._noted_code),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume where ``state`` was taken."""
        self.offset = self._first = state["position"]
        self.number = state["number"]
        self.gathers = state["gathers"]
        self._finals = dict(state["finals"])
        self._noted_code = dict(state["code"])
        self.line, self.former = state["line"], dict(state["former"])
        self._present = set(state["present"])
        for peer, reader in state["readers"].items():
            self._keep(peer, Reader(*reader))

    def passed(self, record: Record) -> None:
        """Note that a stored record was replayed."""
        self.offset = record.first
        for entry in record.entries:
            if type(entry) is ReceivedPayload:
                self.offset += len(entry.blocks)
                if entry.peer[0] == "node":
                    self._present.update((head.type, False) for head in entry.changes.blocks)
            elif type(entry) is LocalBlock:
                self.offset += 1
                self._present.add((entry.head.type, True))
            elif type(entry) is LogBreak:
                self.offset += 1
                if entry.unsubscribed:
                    self._present.difference_update((name, bool(entry.here)) for name in entry.names)
            elif type(entry) is PeerInterest:  # where the log was then
                self._remember(entry.peer, entry.interest, entry.owner)
            elif type(entry) is AllAttached:
                self.gathers = False
            elif type(entry) is LineRenewal:
                self._renew(entry.line, entry.common)
            elif type(entry) is PeerDeparture:
                self._forget(entry.peer)
            elif type(entry) is ReaderRelease:
                self._release(entry.peer)
            elif type(entry) is ReaderPosition and entry.peer in self.readers:
                self.readers[entry.peer].moved(entry.offset, entry.position, self.oldest)
        self._noted_code = next((entry.units for entry in record.entries if type(entry) is DetectorCode), self._noted_code)
        self._first, self.number = self.offset, record.number
        self._finals |= record.finals
