"""The present content of the page: bounded, in sections with versions, so that a page gets only changed sections. Pure.

The owner passes in what it received (changes, statuses) and the time (Unix time, ns), and takes sections out, as JSON.
It is made for people to look at: the board keeps only the last results, and counts all of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from middleware.broker.watermarks.waiting import NodeStatus, UnitStatus
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import END, IDENTITY, NEVER, Event, Identity, field_names
from middleware.model.quantities import UNIX_TIMES
from middleware.model.time import MILLISECOND, SECOND

MOST_SHOWN = 60
"""The number of results that the page shows, and of those whose corrections it remembers besides."""

MOST_CORRECTIONS = 5
_LIVE = 3600 * SECOND
"""Events further from now than this come from a recording: their delay is unknown."""


class ShownResult(msgspec.Struct):
    """A result as a person sees it: ``state`` is early, revised, withdrawn or final.

    ``early``, ``changed``, ``final``
        when it was first received, last corrected, and final: Unix time, ms; None if not yet.
    ``before``
        its earlier contents, the latest last, at most MOST_CORRECTIONS of them; ``corrections``: their number in all.
    ``delay``
        from the event's own time to its first receipt, ms; None if it comes from a recording.
    """

    type: str
    id: str
    source: str
    ts: str
    time: float
    what: dict[str, Any]
    early: float
    state: str = "early"
    changed: float | None = None
    final: float | None = None
    before: list[dict[str, Any]] = []
    corrections: int = 0
    delay: float | None = None


class Board:
    """See the module.

    ``results``
        names of the event types whose results are shown one by one.
    ``title``
        what is being watched. ``scenario``: the scenario's name or folder, if it is one.
    """

    def __init__(self, title: str, results: Collection[str], scenario: str = "") -> None:
        self.title, self.scenario = title, scenario
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in results}
        self._shown: deque[ShownResult] = deque(maxlen=MOST_SHOWN)
        self._open: dict[Identity, ShownResult] = {}
        self._barriers = {name: Barrier([name]) for name in results}  # so that no type waits for others
        self._statuses: dict[str, NodeStatus | None] = {}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._earlier: dict[str, tuple[int, UnitStatus]] = {}
        self._units: list[dict[str, Any]] = []
        self._notices: deque[str] = deque(maxlen=5)
        self._made: dict[str, tuple[int, msgspec.Raw]] = {}
        self._versions: Counter[str] = Counter(("mesh", "results"))

    # -- input --------------------------------------------------------------------------------------------------------

    def take(self, batch: Batch, now: int) -> list[Event]:
        """Take changes of results; returns the new and the changed results."""
        news: list[Event] = []
        for name, delta in batch.deltas.items():
            if name in self.counts:
                self._count(name, delta)
                news += self._show(name, delta, now)
        for name, barrier in self._barriers.items():
            finals = barrier.take(_part(batch, name))
            self.counts[name]["final"] += len(finals)
            for event in finals:
                if shown := self._open.pop(IDENTITY(event), None):
                    shown.state, shown.final = "final", now / MILLISECOND
        self._versions["results"] += 1
        return news

    def interrupted(self) -> None:
        """Note that changes are missing: results that are not final yet may never be shown as final."""
        for barrier in self._barriers.values():
            barrier.forget()
        self._open.clear()
        self.note(
            "changes are missing: this page was too slow, or a node has lost its memory; counts begin again behind the gap"
        )

    def note(self, text: str) -> None:
        """Add a message for people, once."""
        if text not in self._notices:
            self._notices.append(text)
            self._versions["mesh"] += 1

    def take_status(self, address: str, status: NodeStatus | None, now: int) -> None:
        """Take the status of the node at ``address``; None: it does not answer."""
        before = self._nodes.get(address)
        name = status.node if status is not None else before["name"] if before else address
        up = status is not None
        since = before["since"] if before and before["up"] == up else now / MILLISECOND
        self._statuses[address] = status if status is not None else self._statuses.get(address)
        self._nodes[address] = {"name": name, "address": address, "up": up, "since": since, **_of_node(status)}
        if status is not None:
            self._rate(status, now)
        self._versions["mesh"] += 1

    @property
    def has_ended(self) -> bool:
        """Whether all results are final, and none can follow."""
        return all(barrier.watermark == END for barrier in self._barriers.values())

    @property
    def statuses(self) -> list[NodeStatus]:
        """The last status of each node that has ever answered."""
        return [status for status in self._statuses.values() if status is not None]

    # -- output -------------------------------------------------------------------------------------------------------

    def section(self, name: str, than: int) -> tuple[int, msgspec.Raw] | None:
        """A section (``mesh``, ``results``) as JSON with its version, if newer ``than`` that; made once per version."""
        version = self._versions[name]
        if version <= than:
            return None
        made = self._made.get(name)
        if made is None or made[0] != version:
            content = self._mesh() if name == "mesh" else self._results()
            made = self._made[name] = (version, msgspec.Raw(msgspec.json.encode(content)))
        return made

    def _mesh(self) -> dict[str, Any]:
        down = {node["name"] for node in self._nodes.values() if not node["up"]}
        units = [unit | {"up": unit["node"] not in down} for unit in self._units]
        header = {"title": self.title, "scenario": self.scenario, "notices": list(self._notices)}
        return header | {"nodes": list(self._nodes.values()), "units": units}

    def _results(self) -> dict[str, Any]:
        return {"counts": self.counts, "shown": list(self._shown)}

    def _count(self, name: str, delta: Delta) -> None:
        counts = self.counts[name]
        counts["found"] += len(delta.inserts)
        counts["revised"] += len(delta.revises)
        counts["withdrawn"] += len(delta.retracts)

    def _show(self, name: str, delta: Delta, now: int) -> list[Event]:
        moment = now / MILLISECOND
        for event in delta.retracts:
            if shown := self._open.pop(IDENTITY(event), None):
                shown.state, shown.changed = "withdrawn", moment
                shown.corrections += 1
        for old, new in delta.revises:
            if shown := self._open.get(IDENTITY(old)):
                shown.before = [*shown.before, shown.what][-MOST_CORRECTIONS:]
                shown.state, shown.changed, shown.what = "revised", moment, _fields(new)
                shown.corrections += 1
        for event in delta.inserts:
            shown = _result(name, event, now)
            self._shown.append(shown)
            self._open[IDENTITY(event)] = shown
        while len(self._open) > 10 * MOST_SHOWN:
            del self._open[next(iter(self._open))]
        return [*delta.inserts, *(new for _, new in delta.revises)]

    def _rate(self, status: NodeStatus, now: int) -> None:
        """Compute the rates of a node's units since its previous status."""
        clock = max((each.clock for each in self.statuses if each.clock is not None), default=None)
        fresh = [_of_unit(status.node, unit, clock, self._earlier.get(unit.detector), now) for unit in status.units]
        self._earlier |= {unit.detector: (now, unit) for unit in status.units}
        others = [unit for unit in self._units if unit["node"] != status.node]
        self._units = boxes([*others, *fresh])


def _part(batch: Batch, name: str) -> Batch:
    """The part of a batch about one type."""
    deltas = {name: batch.deltas[name]} if name in batch.deltas else {}
    watermark = {name: batch.watermarks[name]} if name in batch.watermarks else {}
    return Batch(deltas, watermark, floor=batch.floor)


def _result(name: str, event: Event, now: int) -> ShownResult:
    live = event.ts in UNIX_TIMES and abs(now - event.ts) < _LIVE
    return ShownResult(
        name,
        str(event.id),  # JavaScript has no 64-bit integers
        event.source,
        str(event.ts),
        event.ts / MILLISECOND,
        _fields(event),
        now / MILLISECOND,
        delay=(now - event.ts) / MILLISECOND if live else None,
    )


def _fields(event: Event) -> dict[str, Any]:
    """The fields of an event, without its identity; long values are cut for display."""
    return {name: _short(getattr(event, name)) for name in field_names(event.__class__)}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, bool | str) or value is None or (isinstance(value, int) and abs(value) < 2**53):
        return value if not isinstance(value, str) or len(value) <= 80 else value[:79] + "…"
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _of_node(status: NodeStatus | None) -> dict[str, Any]:
    if status is None:
        return {"busy": None, "waits": [], "slow": [], "publishers": []}
    origins = {(one.role, one.name): one for stream in status.streams.values() for one in stream.origins}
    publishers = [
        {"name": one.name, "silent": None if one.silent is None else one.silent / MILLISECOND, "away": one.away}
        for one in origins.values()
        if one.role == "publisher"
    ]
    return {"busy": status.busy, "waits": status.missing, "slow": status.slow, "publishers": publishers[:20]}


def _of_unit(
    node: str, unit: UnitStatus, clock: int | None, earlier: tuple[int, UnitStatus] | None, now: int
) -> dict[str, Any]:
    """A unit for the graph. Rates are events per second since ``earlier``; ``lag``: of its final results, ms."""
    counts = unit.counts
    shown = {
        "name": unit.detector,
        "node": node,
        "reads": list(unit.reads),
        "publishes": unit.publishes,
        "k": unit.k / MILLISECOND,
        "alpha": unit.alpha,
        "lag": _lag(clock, unit.final),
        "waiting": unit.waiting,
        "halted": unit.halted,
    }
    if counts is not None:
        shown |= {
            "received": counts.received,
            "found": counts.inserted,
            "corrected": counts.revised + counts.retracted,
            "late": counts.late,
            "failed": counts.failures,
            "cost": counts.spent,
        }
    if counts is not None and earlier is not None and earlier[1].counts is not None and now > earlier[0]:
        seconds, past = (now - earlier[0]) / SECOND, earlier[1].counts
        shown["rate_in"] = max(0.0, (counts.received - past.received) / seconds)
        shown["rate_out"] = max(0.0, (counts.inserted - past.inserted) / seconds)
    return shown


def _lag(clock: int | None, final: int) -> float | None:
    if clock is None or final in (NEVER, END):
        return None if final != END else 0.0
    return max(0, clock - final) / MILLISECOND


def sections(board: Board, known: Mapping[str, int], names: Sequence[str] = ("mesh", "results")) -> dict[str, Any]:
    """The sections of a board newer than the ``known`` versions, by name: (version, content)."""
    found = {name: board.section(name, known.get(name, 0)) for name in names}
    return {name: section for name, section in found.items() if section is not None}


def boxes(units: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Units by level and name: ``level`` (0: reads only raw events), ``above``: the units whose results it reads. O(edges)."""
    makers: dict[str, list[str]] = {}
    for unit in units:
        for name in unit["publishes"]:
            makers.setdefault(name, []).append(unit["name"])
    causes = {unit["name"]: sorted({maker for name in unit["reads"] for maker in makers.get(name, ())}) for unit in units}
    levels: dict[str, int] = {}
    for unit in units:
        _level(unit["name"], causes, levels)
    placed = [unit | {"level": levels[unit["name"]], "above": causes[unit["name"]]} for unit in units]
    return sorted(placed, key=lambda unit: (unit["level"], unit["name"]))


def _level(name: str, causes: dict[str, list[str]], levels: dict[str, int]) -> int:
    """One more than the highest level read. Units that read each other, in a cycle of a flow, count as level 0 for this."""
    if name not in levels:
        levels[name] = 0
        levels[name] = 1 + max((_level(each, causes, levels) for each in causes[name] if each != name), default=-1)
    return levels[name]
