"""Shared by the commands that run queries: the detectors a query rests on, and its input in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from middleware.broker.ingress.seen import SeenIds
from middleware.model.change import Batch, grouped
from middleware.model.detector import Detector
from middleware.model.event import TS, Event, EventType


def needed(types: Iterable[EventType], publishers: Mapping[str, Detector]) -> dict[str, Detector]:
    """The detectors needed to derive events of these types, by name."""
    found: dict[str, Detector] = {}
    wanted = set(types)
    while more := {n: d for n, d in publishers.items() if n not in found and wanted & set(d.publishes)}:
        found |= more
        wanted |= {each for detector in more.values() for each in detector.subscribes}
    return found


def fresh(arrivals: Iterable[list[Event]], size: int) -> Iterator[tuple[list[Event], int]]:
    """Recorded events in order of arrival, ``size`` at a time: the new ones, and how many were repeats."""
    seen = SeenIds()
    for arrived in arrivals:
        for at in range(0, len(arrived), size):
            part = arrived[at : at + size]
            new = seen.take_new(part)
            yield new, len(part) - len(new)


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
