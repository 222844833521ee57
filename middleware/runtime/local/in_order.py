"""A run over events that arrive in total order: nothing is late, early or corrected, so each detector runs once over all.

It needs no buffers, K, snapshots or replays, and no steps: a level is done before the next begins. Operators, detectors on
columns, and runs in which a detector fails need the units instead, which compute the same results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from middleware.model.detector import constants, takes_batches
from middleware.model.errors import ENDING
from middleware.model.event import END, NEVER, Event, EventType
from middleware.model.operator import Operator
from middleware.native import split
from middleware.ordering.buffer import arranged
from middleware.ordering.lanes.lane import Settings
from middleware.ordering.lanes.lanes import BatchLanes, lanes_for
from middleware.ordering.records import UnitStatistics
from middleware.ordering.unit import Unit
from middleware.runtime.local.arrivals import Arrivals


class _NeedsUnitsError(Exception):
    """These events need the units."""


class InOrderResult(NamedTuple):
    """The final results by detector, in total order, and the statistics of the units."""

    finals: dict[str, list[Event]]
    statistics: list[UnitStatistics]


def run_in_order(events: Arrivals, units: list[Unit]) -> InOrderResult | None:
    """Run new units of detectors that take event after event, lowest level first, over events in total order.

    None if a detector fails. Raises DetectorError if one changes what its instances share. O(n).
    """
    finals, latest = dict[str, list[Event]](), events.latest()
    ticking = {event_type for unit in units for event_type in unit.detector.clock}
    clock, statistics = max(latest.values(), default=NEVER), list[UnitStatistics]()
    for _, level in groupby(units, attrgetter("level")):
        passes = list(map(_Pass, level))
        try:
            _run_level(passes, events, finals)
            finals |= {each.unit.name: each.end() for each in passes}
        except ENDING:
            raise
        except BaseException:  # of a detector, at some event: the units find out which
            for each in passes:
                each.constants.check(each.unit.name)
            return None
        statistics += [each.statistics(clock, latest) for each in passes]
        for event_type in ticking:
            own = [event.ts for each in passes for event in finals[each.unit.name] if event.__class__ is event_type]
            latest[event_type] = max([*own, latest.get(event_type, NEVER)])
    return InOrderResult(finals, statistics)


def take_single_events(units: list[Unit]) -> bool:
    """Whether all have detectors that take event after event."""
    return not any(isinstance(unit.detector, Operator) or takes_batches(type(unit.detector)) for unit in units)


def _run_level(passes: list[_Pass], events: Arrivals, below: dict[str, list[Event]]) -> None:
    """Run the units of a level over the events that they read, and over the results of those below."""
    reads = frozenset(event_type for each in passes for event_type in each.unit.detector.subscribes)
    derived = _sorted([event for results in below.values() for event in results if event.__class__ in reads])
    for run in _merged(events.runs(reads), derived):
        for each in passes:
            each.take(run, reads)


def _merged(runs: Iterator[list[Event]], derived: list[Event]) -> Iterator[list[Event]]:
    """Raw events in order, run by run, with derived ones among them."""
    at = 0
    for run in runs:
        start, newest = at, run[-1].ts
        while at < len(derived) and derived[at].ts < newest:  # derived events of that time follow all raw ones of it
            at += 1
        yield _sorted(run + derived[start:at]) if at > start else run
    if at < len(derived):
        yield derived[at:]


def _sorted(events: list[Event]) -> list[Event]:
    """The events in total order, each of which must have an identity of its own."""
    if not split(events, NEVER)[1]:
        return events
    ordered, repeats = arranged(events)
    if repeats:
        raise _NeedsUnitsError
    return ordered


class _Pass:
    """One unit's detector on its way over all events."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.constants = constants(unit.detector)
        self._reads = frozenset(unit.detector.subscribes)
        lanes = lanes_for(unit.name, unit.detector, unit.level, Settings())
        assert not isinstance(lanes, BatchLanes)
        self._lanes = lanes
        self._results: list[Event] = []
        self._taken = 0

    def take(self, events: list[Event], types: Collection[EventType]) -> None:
        """Run those of some events, of these types, that the detector reads."""
        own = events if len(self._reads) == len(types) else [event for event in events if event.__class__ in self._reads]
        self._lanes.run(own, self._results)
        if not self._taken:
            self.constants.check(self.unit.name)
        self._taken += len(own)

    def end(self) -> list[Event]:
        """The results in total order. Raises an error if a state cannot be copied, which only the units report."""
        self.constants.check(self.unit.name)
        self._lanes.copy_states()
        return _sorted(self._results)

    def statistics(self, clock: int, latest: dict[EventType, int]) -> UnitStatistics:
        """As the unit would have them. ``clock``: the latest raw event; ``latest``: by type."""
        ticking = self.unit.detector.clock
        clk = max([latest.get(each, NEVER) for each in ticking]) if ticking else clock
        taken, found = self._taken, len(self._results)
        return msgspec.structs.replace(
            self.unit.statistics(),
            clk=clk,
            final=END,
            received=taken,
            emitted=taken,
            executed=taken,
            keys=len(self._lanes),
            inserted=found,
        )
