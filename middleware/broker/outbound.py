"""What goes out to a reader at the end of a step: live, or from the log while it is behind; then what is promised."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from middleware.broker.log import BREAK, Log, LogOffset
from middleware.broker.peers import Peer
from middleware.broker.routing import RoutingTable, wanted
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.link.codec import BLOCK_TARGET, Gap, Interest, Resumed, encode
from middleware.model.event import END, NEVER

_missing = msgspec.msgpack.Decoder(tuple[list[str], list[str]]).decode


def begin(peer: Peer, log: Log | None, interest: Interest) -> bool:
    """A reader has attached: it goes on where it was, if there is a log. Whether there is a gap, of which it is told first.

    Without a log there is one, too, for a reader that was here before: it sees so by itself.
    """
    peer.begun = True
    if log is None:
        return False
    peer.begun_in_log = True
    start, is_gap = log.start_of(peer.key, interest)
    if is_gap:
        peer.link.send([encode(Gap(log.line, start))])
    reader = log.readers.get(peer.key)
    if reader is not None and reader.named and not interest.line:
        peer.link.send([encode(Resumed(reader.commit_for(interest.after)[1]))])
    if start < log.offset:
        peer.behind = start
    return is_gap


def pass_on(names: Collection[str], here: Iterable[str], peers: Iterable[Peer], log_offset: LogOffset, now: int) -> None:
    """Changes of these types are missing, and of those made ``here`` of them: tell those who read them, behind all that came
    before. Other nodes hear from whom the changes came by themselves, and here of the rest. Without ``names``, what makes them
    here has stopped.

    ``log_offset``: of the break in this node's log; those that are served from there come to it in their time.
    """
    for peer in peers:
        if peer.behind is None:
            _tell(peer, names, here, log_offset, now)


def _tell(peer: Peer, names: Collection[str], here: Iterable[str], log_offset: LogOffset, now: int) -> None:
    missing = {*here} if peer.role == "node" else {*names, *here}
    types = sorted(name for name in missing if wanted(peer.patterns, name))
    if types:
        peer.post(None, -1, NEVER, now, (log_offset[0], max(log_offset[1] - 1, 0)))  # who has only that is to be told again
        peer.link.send([encode(Gap(*log_offset, types, not names))])


def post_news(
    peer: Peer,
    tracker: WatermarkTracker,
    table: RoutingTable[Peer],
    log: Log | None,
    now: int,
    *,
    held: bool,
    told: bool,
    idle: Collection[str] = (),
) -> None:
    """Send what waits for a peer, and behind it what is new of watermarks and clocks: nothing is overtaken by what rests on it.

    ``held``: nothing can be promised yet. ``told``: promises are due, however lately there were some. ``idle``: types of
    publishers of this node, all of which are silent or gone.
    """
    is_node = peer.role == "node"
    promises = tracker.here if is_node else tracker.everywhere
    clock = tracker.clock_here if is_node else NEVER
    watermarks = None
    if not held and (told or peer.news_due(promises.version, clock, now)):
        known = promises.ends if is_node else ()  # what has ended all nodes know: whoever may send it begins a new era
        watermarks = {name: until for name, until in promises.values.items() if name in known or peer in table.route(name)}
        if is_node:  # for types that nobody here sends any more there is nothing to promise, lest others wait for it to go on;
            sent = tracker.here.offered(lambda origin: True).union(idle)  # but while all rest, nobody else knows that they do
            watermarks = {name: until for name, until in watermarks.items() if until == END or name in sent}
        else:
            watermarks |= {name: NEVER for name in promises.open if peer in table.route(name)}
    log_offset = log.log_offset if log is not None else (0, 0)
    peer.post(watermarks, promises.version, clock if watermarks is not None else NEVER, now, log_offset)


def note_passed(peer: Peer, log: Log) -> None:
    """Note how far a reader has got that does not say so itself, by what its link has acknowledged."""
    passed = peer.passed()
    reader = log.readers.get(peer.key)
    if passed is not None and reader is not None and not reader.named:
        log.moved(peer.key, passed)


def serve(peer: Peer, log: Log, now: int) -> int:
    """Serve a reader from the log while it is behind and has room; returns how many events it was given. O(bytes)."""
    served = 0
    while peer.behind is not None and peer.link.queued_bytes < BLOCK_TARGET:
        blocks, reached = log.blocks_after(peer.behind)
        first = blocks[0][0] if blocks else log.oldest + 1
        if first > peer.behind + 1:  # what it was still to get was cut off the log meanwhile
            peer.link.send([encode(Gap(log.line, first - 1))])
        for number, local, head, block in blocks:
            if head.type == BREAK:
                _tell(peer, *_missing(block), (log.line, number), now)
            elif (local or peer.role == "subscriber") and wanted(peer.patterns, head.type):
                peer.take(replace(head, runs=None), block, number)
                served += head.count
        reached = max(reached, first - 1)
        peer.behind = reached if reached < log.offset else None
        if peer.behind is not None:
            peer.post(None, -1, NEVER, now, (log.line, reached))
    return served
