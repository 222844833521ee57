"""What goes out to a reader at the end of a step: events, live or from the log while it is behind; then watermarks."""

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
    """A reader has attached: it goes on where it was, if there is a log. Returns whether it got a Gap first.

    Without a log there is a gap, too, for a reader that was here before: it finds that out by itself.
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
    """Changes of these types are missing, and of those made ``here`` from them: send readers a Gap, after all that came before.
    Other nodes get one only for ``here``: where ``names`` came from, they notice the gap themselves. Without ``names``, the
    detectors that make ``here`` have stopped.

    ``log_offset``: of the break in this node's log; readers that are served from the log come to it in their time.
    """
    for peer in peers:
        if peer.behind is None:
            _tell(peer, names, here, log_offset, now)


def _tell(peer: Peer, names: Collection[str], here: Iterable[str], log_offset: LogOffset, now: int) -> None:
    missing = {*here} if peer.role == "node" else {*names, *here}
    types = sorted(name for name in missing if wanted(peer.patterns, name))
    if types:
        peer.post(None, -1, NEVER, now, (log_offset[0], max(log_offset[1] - 1, 0)))  # a reader with only that is told again
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
    """Send what waits for a peer, and after it new watermarks and clock marks, so that none overtakes the events it rests on.

    ``held``: nothing can be promised yet. ``told``: watermarks are due, however recent the last ones are. ``idle``: types of
    publishers of this node, all of which are silent or gone.
    """
    is_node = peer.role == "node"
    promises = tracker.here if is_node else tracker.everywhere
    clock = tracker.clock_here if is_node else NEVER
    watermarks = None
    if not held and (told or peer.news_due(promises.version, clock, now)):
        known = promises.ends if is_node else ()  # all nodes know what has ended: a publisher of it begins an era
        watermarks = {name: until for name, until in promises.values.items() if name in known or peer in table.route(name)}
        if is_node:  # nothing is promised for types that no one here sends any more, or others would wait for them;
            sent = tracker.here.offered(lambda origin: True).union(idle)  # but while all are idle, no one else knows it
            watermarks = {name: until for name, until in watermarks.items() if until == END or name in sent}
        else:
            watermarks |= {name: NEVER for name in promises.open if peer in table.route(name)}
    log_offset = log.log_offset if log is not None else (0, 0)
    peer.post(watermarks, promises.version, clock if watermarks is not None else NEVER, now, log_offset)


def note_passed(peer: Peer, log: Log) -> None:
    """Note how far a reader has got, by what its link has acknowledged, if it does not say so itself."""
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
