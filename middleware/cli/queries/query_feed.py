"""Shared by the commands that run queries: the detectors a query rests on, its input in batches, and what fails in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from middleware.broker.ingress.seen import SeenIds
from middleware.model.change import Batch, grouped
from middleware.model.detector import Detector
from middleware.model.errors import last_line
from middleware.model.event import TS, Event, EventType
from middleware.model.identity import clashing
from middleware.model.words import listed

if TYPE_CHECKING:
    from middleware.ordering.unit import Unit

_NAMED = 3
"""Identities that a note names."""


def needed(types: Iterable[EventType], publishers: Mapping[str, Detector]) -> dict[str, Detector]:
    """The detectors needed to derive events of these types, by name."""
    found: dict[str, Detector] = {}
    read = set(types)
    while more := {n: d for n, d in publishers.items() if n not in found and read & set(d.publishes)}:
        found |= more
        read |= {each for detector in more.values() for each in detector.subscribes}
    return found


class Repeats:
    """Skips repeats of recorded events: those with the source and id of an earlier one."""

    def __init__(self) -> None:
        self._count = self._fed = 0

    def without(self, arrivals: Iterable[list[Event]], size: int) -> Iterator[list[Event]]:
        """Events in order of arrival, at most ``size`` at a time: the new ones."""
        seen = SeenIds()
        for arrived in arrivals:
            for at in range(0, len(arrived), size):
                part = arrived[at : at + size]
                new = seen.take_new(part)
                self._fed += len(part)
                self._count += len(part) - len(new)
                yield new

    def notes(self, events: Sequence[Event] = ()) -> list[str]:
        """Sentences about them. ``events``: all of them, if they are at hand, to distinguish others of the same name from those
        that came twice. O(events), if there are any."""
        others = clashing(events[: self._fed]) if self._count else []
        same = self._count - len(others)
        notes = [f"{same:,} events came twice, and were taken once"] if same else []
        if others:
            named = dict.fromkeys(f"({event.source}, {event.id})" for event in others)
            notes.append(
                f"skipped {len(others):,} event{'s' * (len(others) > 1)} with the source and id of another one, but other "
                f"content: {listed(named, _NAMED)}; each event needs an id of its own"
            )
        return notes


def batch_of(events: list[Event]) -> Batch:
    """Raw events that arrive together, as a batch."""
    return Batch(grouped(events), {}, max(map(TS, events), default=None))


def only(name: str, batch: Batch) -> Batch:
    """The part of a batch about one type."""
    return Batch(
        {each: delta for each, delta in batch.deltas.items() if each == name},
        {each: watermark for each, watermark in batch.watermarks.items() if each == name},
        batch.clock,
    )


class UnitFailures:
    """The failures in a hierarchy: for each unit the number and the last one, so it stays small in an endless run."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units
        self._counts: Counter[str] = Counter()
        self._last: dict[str, str] = {}

    def take(self) -> bool:
        """Note failures since the last call; returns whether something has stopped."""
        for unit in self._units:
            if unit.quarantine:
                failed, unit.quarantine = unit.quarantine, []
                self._counts[unit.name] += len(failed)
                self._last[unit.name] = last_line(failed[-1].failure)
        return any(unit.halted for unit in self._units)

    def sentences(self) -> list[str]:
        """A sentence for each detector or operator that has failed."""
        stopped = {unit.name: last_line(unit.halted) for unit in self._units if unit.halted}
        lost = "is missing in the results: please report it, with the statement and the tuples"
        sentences = [f"{name} has stopped: {why}; what came with that or later {lost}" for name, why in stopped.items()]
        skipped = {name: count for name, count in self._counts.items() if name not in stopped}
        more = "{name}: {n} event{s} failed and skipped, at last by {why}"
        return sentences + [more.format(name=name, n=n, s="s" * (n != 1), why=self._last[name]) for name, n in skipped.items()]
