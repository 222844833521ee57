"""What streams wait for: what each origin promises, as a broker and its units see it, and an explanation made from that."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from middleware.broker.ingress.sources import Sources
from middleware.broker.log.log_records import PeerKey
from middleware.broker.peers.peers import Peer
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.model.event import END, NEVER
from middleware.model.quantities import spoken_duration
from middleware.ordering.records import UnitStatistics

UNENDED = "all who sent it have left, not all with an end: it ends when one who sends it promises that (slackline pub --end)"
"""Why a type has not ended that nobody sends any more."""


class OriginStatus(msgspec.Struct, frozen=True):
    """Where changes of a type come from: a publisher, a node, or the detectors here.

    ``promised``
        what it promises; None if nothing, so that units go by the clock.
    ``silent``
        nanoseconds since the last message of a publisher, or since a node was lost.
    ``idle_promise``
        whether the node promises for it, because it has fallen idle.
    ``credit_paused``
        whether it may not send at the moment, because a reader has no room. ``charged``: or because events of it were
        rejected, or late, for so long (ns) from now on.
    """

    role: str
    name: str
    promised: int | None
    silent: int | None = None
    idle_promise: bool = msgspec.field(default=False, name="on_behalf")
    credit_paused: bool = msgspec.field(default=False, name="held")
    away: bool = False
    charged: int = 0


class StreamStatus(msgspec.Struct, frozen=True):
    """A type at a node: the combined promise (None: open), and the origins it combines."""

    promised: int | None
    origins: list[OriginStatus]


class UnitStatus(msgspec.Struct, frozen=True):
    """A unit: what it promises, what its inputs promise it, and the first event in its buffer.

    ``reads``
        by type, the promise of that input; None if it is open.
    ``lateness``
        how far behind clk results may still change where an input is open, ns.
    ``first``
        (ts, type, source, key) of the first event that waits to be given to the detector.
    ``halted``
        why it has stopped, in one line, if it has.
    ``counts``
        what it has done so far.
    """

    detector: str
    reads: dict[str, int | None]
    publishes: list[str]
    watermark: int
    final: int
    clk: int
    k: int
    alpha: float
    lateness: int
    waiting: int
    first: tuple[int, str, str, str] | None = None
    halted: str = ""
    counts: UnitStatistics | None = None


class NodeStatus(msgspec.Struct, frozen=True):
    """A node at a moment: its streams by type, its units, and the nodes it still waits for.

    ``behind``
        how far (ns) the clocks of all others are ahead of the node's own, if it goes by theirs.
    ``busy``
        the last busy factor, 0 to 1.
    ``withheld``
        by publisher, how many of its events wait until others bear out their times, and the time of the first of them.
    """

    node: str
    clock: int | None
    streams: dict[str, StreamStatus]
    units: list[UnitStatus] = []
    missing: list[str] = []
    paused: list[str] = []
    slow: list[str] = []
    behind: int = 0
    busy: float = 0.0
    withheld: dict[str, tuple[int, int]] = {}


class Explanation:
    """Why the stream of a type has not come further: a chain of lines, from the type asked for down to what holds it back."""

    def __init__(self, nodes: Sequence[NodeStatus]) -> None:
        self.lines: list[str] = []
        self._nodes = {status.node: status for status in nodes}
        self._clock = max((status.clock for status in nodes if status.clock is not None), default=None)
        self._asked: set[tuple[str, str]] = set()

    def of(self, name: str, at: str | None = None, depth: int = 0) -> None:
        """Explain a type, as node ``at`` sees it (default: the node that knows most of it)."""
        node = self._nodes.get(at or "") or self._home(name)
        if node is None:
            self._add_line(depth, f"{name}: no node that was asked knows this type")
            return
        if (node.node, name) in self._asked:
            return
        self._asked.add((node.node, name))
        units = [unit for unit in node.units if name in unit.publishes]
        if units:
            self._unit(node, min(units, key=lambda unit: unit.watermark), name, depth)
        if not units or len(node.streams[name].origins if name in node.streams else ()) > 1:
            self._stream(node, name, depth)

    def _home(self, name: str) -> NodeStatus | None:
        nodes = list(self._nodes.values())
        making = [node for node in nodes if any(name in unit.publishes for unit in node.units)]
        knowing = [node for node in nodes if name in node.streams]
        return next(iter(making or knowing), None)

    def _unit(self, node: NodeStatus, unit: UnitStatus, name: str, depth: int) -> None:
        self._add_line(depth, f"{name}: final {self._upto(unit.watermark)}, made by {unit.detector} on node {node.node}")
        if unit.halted:
            self._add_line(depth + 1, f"it has stopped, and nothing more comes of it: {unit.halted}")
        if unit.watermark == END or unit.halted:
            return
        if unit.first is not None:
            ts, kind, source, key = unit.first
            of = f" of key {key}" if key else ""
            self._add_line(
                depth + 1,
                f"buffer: {unit.waiting} events wait, the first {kind} from {source!r}{of} at {ts}; the detector gets it "
                f"when clk ({unit.clk}) reaches {ts} + {unit.alpha:g} * K ({spoken_duration(unit.k)})",
            )
        known = {read: promise for read, promise in unit.reads.items() if promise is not None}
        least = min(known.values(), default=END)
        opened = sorted(unit.reads.keys() - known.keys())
        if opened and (unit.clk == NEVER or unit.clk - unit.lateness <= least):
            kinds = ", ".join(opened)
            what = "no event has come yet" if unit.clk == NEVER else f"clk is {unit.clk}"
            lateness = spoken_duration(unit.lateness)
            self._add_line(
                depth + 1, f"waits for the clock: nobody promises for {kinds}, so it is final {lateness} behind clk; {what}"
            )
            for read in opened:
                self.of(read, node.node, depth + 1)
        elif known:
            culprit = min(known, key=lambda read: known[read])
            self._add_line(depth + 1, f"waits for its input {culprit}, promised {self._upto(known[culprit])}")
            self.of(culprit, node.node, depth + 1)

    def _stream(self, node: NodeStatus, name: str, depth: int) -> None:
        stream = node.streams.get(name)
        if stream is None:
            self._add_line(depth, f"{name}: nobody who is attached to node {node.node} or meshed with it has offered this type")
        else:
            promise = "open (nobody holds it, nobody promises)" if stream.promised is None else self._upto(stream.promised)
            self._add_line(depth, f"{name} at node {node.node}: {promise}")
            if not stream.origins and stream.promised != END:
                self._add_line(depth + 1, UNENDED)
            ordered = sorted(stream.origins, key=lambda origin: (origin.promised is not None, origin.promised or 0))
            for origin in ordered[:8]:
                self._origin(origin, name, depth + 1)
            if len(ordered) > 8:
                self._add_line(depth + 1, f"and {len(ordered) - 8} more that have promised no less")
        for missing in node.missing:
            self._add_line(depth + 1, f"node {missing} has not answered yet; publishers here wait for it")
        if any(name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])) for pattern in node.paused):
            who = ", ".join(node.slow) or "a reader at another node"
            self._add_line(depth + 1, f"paused: {who} has no room for {name}")

    def _origin(self, origin: OriginStatus, name: str, depth: int) -> None:
        promised = "promises nothing" if origin.promised is None else f"promised {self._upto(origin.promised)}"
        notes = []
        if origin.away:
            notes.append(f"lost {spoken_duration(origin.silent or 0)} ago; it may have publishers that are not in sight")
        elif origin.silent is not None:
            notes.append(f"last message {spoken_duration(origin.silent)} ago")
        if origin.idle_promise:
            notes.append("silent: the node promises for it")
        if origin.charged:
            notes.append(f"held back for {spoken_duration(origin.charged)}: events of it were rejected, or late")
        elif origin.credit_paused:
            notes.append("held back: a reader has no room")
        self._add_line(depth, f"{origin.role} {origin.name}: {'; '.join([promised, *notes])}")
        if origin.role == "node" and not origin.away:
            if origin.name in self._nodes:
                self.of(name, origin.name, depth + 1)
            else:
                self._add_line(depth + 1, f"ask node {origin.name} too, by giving its address")

    def _upto(self, at: int) -> str:
        if at == END:
            return "to the end"
        if at == NEVER:
            return "up to nothing yet"
        behind = "" if self._clock is None else f" ({spoken_duration(self._clock - at)} behind the clock)"
        return f"up to {at}{behind}"

    def _add_line(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)


def explain(nodes: Sequence[NodeStatus], name: str) -> list[str]:
    """The chain of reasons, as lines with indentation, why the stream of a type is final as far as it is and no further."""
    explanation = Explanation(nodes)
    explanation.of(name)
    wrong = [
        f"node {node.node}: its clock is {spoken_duration(node.behind)} behind those of all others, by which it goes: set it"
        for node in nodes
        if node.behind
    ]
    early = [
        f"node {node.node}: {count:,} events of publisher {name} wait until another source bears them out; the first has time "
        f"{first}, {spoken_duration(max(first - (node.clock or first), 0))} ahead of the clock"
        for node in nodes
        for name, (count, first) in node.withheld.items()
    ]
    return wrong + early + explanation.lines


def final_by_type(nodes: Sequence[NodeStatus]) -> Mapping[str, int]:
    """How far each derived type is final, by its slowest unit; ``NEVER`` where nothing is."""
    watermarks: dict[str, int] = {}
    for node in nodes:
        for unit in node.units:
            for name in unit.publishes:
                watermarks[name] = min(unit.watermark, watermarks.get(name, END))
    return watermarks


def status_of(
    node: str,
    promises: CombinedWatermarks,
    peers: Mapping[PeerKey, Peer],
    sources: Sources,
    lost: Mapping[PeerKey, int],
    now: int,
) -> dict[str, StreamStatus]:
    """What each stream of a node waits for. ``lost``: since when nodes are away. O(types * origins)."""

    def origin(key: Hashable, promised: int | None) -> OriginStatus:
        if not isinstance(key, tuple):
            return OriginStatus("detectors", node, promised)
        role, name = key
        peer = peers.get(key)
        if role == "publisher" and key in sources:
            source = sources[key]
            credit_paused = peer is not None and peer.link.credit_paused
            charged = max(0, peer.charged_until - now) if peer is not None else 0
            silent, idle_promise = now - source.received_at, source.idle_promise is not None
            return OriginStatus(role, name, promised, silent, idle_promise, credit_paused, charged=charged)
        away = role == "node" and (peer is None or peer.link.peer is None)
        return OriginStatus(role, name, promised, now - lost.get(key, now) if away else None, away=away)

    streams = {}
    for name in list(promises.known):
        promised, origins = promises.origins(name)
        streams[name] = StreamStatus(promised, [origin(*each) for each in origins.items()])
    return streams
