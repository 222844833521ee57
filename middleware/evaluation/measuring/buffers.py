"""Buffers: how much the ordering buffers of a node hold, as the size that their events have when encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from middleware.model.detector import Detector
from middleware.model.event import Event, EventType
from middleware.native import by_class

_SAMPLE = 200
"""Events of a type that are encoded to know its size."""

Sizes = dict[str, float]
"""By detector, the mean encoded size of an event that it reads, in bytes."""


class BufferSizes(msgspec.Struct, frozen=True):
    """Bytes in the buffers: of events that wait, and of events that were emitted and may still be disturbed."""

    waiting: float = 0.0
    held: float = 0.0

    @property
    def whole(self) -> float:
        """Both together."""
        return self.waiting + self.held


def event_sizes(detectors: Mapping[str, Detector], events: Iterable[Event]) -> Sizes:
    """The mean size of what each detector reads, each type weighted by how often it occurs in ``events``. O(events)."""
    by_type: dict[EventType, list[Event]] = {kind: own for kind, own, _ in by_class(list(events))}
    encode = msgspec.msgpack.Encoder().encode
    whole = {}
    for kind, some in by_type.items():
        sample = [len(encode(event)) for event in islice(some, _SAMPLE)]
        whole[kind] = len(some) * sum(sample) / len(sample)
    sizes = {}
    for name, detector in detectors.items():
        read = [kind for kind in detector.subscribes if kind in by_type]
        count = sum(len(by_type[kind]) for kind in read)
        sizes[name] = sum(whole[kind] for kind in read) / count if count else 0.0
    return sizes


def buffered(waiting: Mapping[str, int], held: Mapping[str, int], sizes: Sizes) -> BufferSizes:
    """The size of the buffers of all units, given how many events each unit keeps."""
    parts = (sum(count * sizes.get(name, 0.0) for name, count in counts.items()) for counts in (waiting, held))
    return BufferSizes(*parts)
