"""The plan of an archive: which detectors run in which stage, who reads what, and how rows are partitioned. No Spark needed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from middleware.model.detector import Detector, key_function
from middleware.model.errors import DetectorError
from middleware.model.event import Event, EventType, Key, type_name
from middleware.model.identity import canonical, levels, named
from middleware.model.operator import Operator

SHARDS = 1024
"""Into how many parts an operator's keys are put: each runs one operation, which holds many keys."""


@dataclass(frozen=True)
class Route:
    """How a detector's input is partitioned into lanes.

    ``fields``
        names of the fields that make the key; None: see ``function``; empty: all in one lane.
    ``function``
        the key as a function of the event.
    ``is_sharded``
        lanes are parts of many keys each, since an operator keeps its keys apart itself.
    """

    fields: tuple[str, ...] | None = ()
    function: Callable[[Event], Key] | None = None
    is_sharded: bool = False

    @property
    def is_single(self) -> bool:
        """Whether all of the input goes through one lane."""
        return self.fields == ()

    def lane(self, event: Event) -> str:
        """The lane of an event: one text for all keys that are equal. Raises what the key raises, DetectorError for no key."""
        if self.fields is not None:
            return self.lane_of([getattr(event, name) for name in self.fields])
        assert self.function is not None
        return self.lane_of([self.function(event)])

    def lane_of(self, key: Iterable[Key]) -> str:
        """The lane of all events with these values of ``fields``, or this one of ``function``."""
        text = joined([lane_text(value) for value in key])
        return str(zlib.crc32(text.encode()) % SHARDS) if self.is_sharded else text


def joined(parts: list[str]) -> str:
    """Several texts as one, from which they could be had again."""
    return parts[0] if len(parts) == 1 else "".join(f"{len(part)}:{part}" for part in parts)


def lane_text(key: Key) -> str:
    """A key as text, one for all equal keys."""
    known = canonical(key)
    return f"'{known}" if isinstance(known, str) else repr(known)


def route_of(detector: Detector) -> Route:
    """How the input of a detector is partitioned."""
    if isinstance(detector, Operator):
        parts = detector.partition_key
        if callable(parts):
            return Route(None, parts, True)
        return Route(parts, None, True) if parts else Route()
    key = type(detector).key
    if key is None:
        return Route()
    if isinstance(key, str | tuple):
        return Route((key,) if isinstance(key, str) else key)
    return Route(None, key_function(detector))


@dataclass(frozen=True)
class ArchivePlan:
    """All detectors of an archive by name, and the event types that it takes. Sent to executors as a whole.

    ``stops``
        the names of detectors that stop for good at an event at which they raise.
    """

    detectors: dict[str, Detector]
    stops: frozenset[str] = frozenset()
    level: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, detectors: Iterable[Detector] | Mapping[str, Detector], stops: Iterable[str] = ()) -> ArchivePlan:
        """The plan of these detectors. Raises DetectorError if they make no hierarchy."""
        by_name = named(detectors)
        if not by_name:
            raise DetectorError("an archive without detectors gives nothing: give at least one")
        return cls(by_name, frozenset(stops), levels(by_name))

    @cached_property
    def names(self) -> list[str]:
        """Detectors by number: lower levels first."""
        return sorted(self.detectors, key=lambda name: (self.level[name], name))

    @cached_property
    def routes(self) -> list[Route]:
        """How each detector's input is partitioned, by number."""
        return [route_of(self.detectors[name]) for name in self.names]

    @cached_property
    def types(self) -> list[EventType]:
        """Event types by number: all that are read or published."""
        every = [t for name in self.names for t in (*self.detectors[name].subscribes, *self.detectors[name].publishes)]
        return list(dict.fromkeys(every))

    @cached_property
    def published(self) -> dict[EventType, list[int]]:
        """The levels at which each derived type is published."""
        found: dict[EventType, set[int]] = {}
        for name, detector in self.detectors.items():
            for event_type in detector.publishes:
                found.setdefault(event_type, set()).add(self.level[name])
        return {event_type: sorted(found[event_type]) for event_type in self.types if event_type in found}

    @cached_property
    def raw(self) -> list[EventType]:
        """The types that nobody here publishes: they must be given."""
        return [event_type for event_type in self.types if event_type not in self.published]

    @cached_property
    def readers(self) -> dict[EventType, list[int]]:
        """The numbers of the detectors that read each type."""
        found: dict[EventType, list[int]] = {event_type: [] for event_type in self.types}
        for number, name in enumerate(self.names):
            for event_type in dict.fromkeys(self.detectors[name].subscribes):
                found[event_type].append(number)
        return found

    @cached_property
    def stages(self) -> list[list[int]]:
        """The numbers of the detectors of each level, from level 1 up."""
        most = max(self.level.values())
        return [[n for n, name in enumerate(self.names) if self.level[name] == level] for level in range(1, most + 1)]

    def feeds(self, below: int, above: int) -> bool:
        """Whether a detector of level ``above`` reads what one of level ``below`` publishes."""
        reads = {t for number in self.stages[above - 1] for t in self.detectors[self.names[number]].subscribes}
        return any(reads.intersection(self.detectors[self.names[number]].publishes) for number in self.stages[below - 1])

    def explain(self, rows: Mapping[str, int] | None = None) -> list[str]:
        """The stages with their detectors, in lines. ``rows``: how many events there are of raw types, by name, as far as that
        is known."""
        known_rows = rows or {}
        lines = []
        for level, stage in enumerate(self.stages, 1):
            reads = dict.fromkeys(t for number in stage for t in self.detectors[self.names[number]].subscribes)
            moved = sum(known_rows.get(type_name(t), 0) * sum(number in stage for number in self.readers[t]) for t in reads)
            cost = f"; shuffles and sorts {moved:,} raw rows" if moved else ""
            lines.append(f"stage {level}: reads {', '.join(map(type_name, reads))}{cost}")
            for number in stage:
                lines.append(f"  {self.names[number]}: {self._partitioning(number, known_rows)}")
        return lines

    def _partitioning(self, number: int, rows: Mapping[str, int]) -> str:
        route, detector = self.routes[number], self.detectors[self.names[number]]
        known = [rows[type_name(t)] for t in detector.subscribes if type_name(t) in rows]
        if route.is_single:
            share = f", {sum(known):,} raw rows" if known else ""
            return f"no key: one task does it all{share}; others wait for it only where they read its results"
        by = ", ".join(route.fields) if route.fields is not None else "a function of the event"
        return f"by {by}: {f'{SHARDS} parts of its keys' if route.is_sharded else 'a lane for each key'}"
