"""The oracle: sorts events by the total order and simply runs each detector. Every other execution must equal it at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, groupby
from operator import itemgetter

from middleware.model.change import Delta
from middleware.model.detector import Detector, batch_results, fresh, key_function, takes_batches
from middleware.model.errors import ENDING
from middleware.model.event import END, IDENTITY, ORDER, Event, Identity, Key
from middleware.model.identity import Derivation, levels, named, published_types
from middleware.model.operator import Operator, applied
from middleware.model.values.carried import all_carried
from middleware.ordering.lanes.batch_lane import DerivationByKey, EventBatch

_BATCH = 16_384
"""The number of events that detectors on columns get at once."""


def first_arrivals(events: Iterable[Event], detectors: Mapping[str, Detector] | None = None) -> list[Event]:
    """The events as every process reads them, without duplicates of a (source, id): the first arrival counts.

    Events of types that ``detectors`` derive are skipped: nodes take these from detectors alone.
    """
    derived_types = published_types(detectors) if detectors is not None else frozenset()
    kept: dict[Identity, Event] = {}
    for event in events:
        if event.__class__ not in derived_types:
            kept.setdefault(IDENTITY(event), event)
    return [read for event in kept.values() for read in all_carried(event.__class__, [event])]


def in_order(name: str, detector: Detector, level: int, events: Iterable[Event]) -> list[Event]:
    """The results of one detector on ``events`` in total order; an event at which it raises is skipped (quarantined).

    An operator gets all of them at once, in order, with the end: its own tests compare it with an oracle of its own.
    """
    if isinstance(detector, Operator):
        return applied(detector.start(name, level), Delta(sorted(events, key=ORDER)), END, END).inserts
    if takes_batches(type(detector)):
        return _in_batches(fresh(detector), DerivationByKey(name, detector, level), sorted(events, key=ORDER))
    key = key_function(detector)
    lanes: dict[Key, _InOrderLane] = {}
    derived: list[Event] = []
    for event in sorted(events, key=ORDER):
        try:
            value = key(event) if key else None
            lane = lanes.get(value)
            if lane is None:
                lane = lanes[value] = _InOrderLane(detector, Derivation(name, detector, level, value))
        except ENDING:
            raise
        except BaseException:  # no key, or an invalid one: the event is quarantined
            continue
        derived += lane.take(event)
    return derived


def _in_batches(detector: Detector, derive: DerivationByKey, events: list[Event]) -> list[Event]:
    """Run a detector on columns in few batches; where one raises, in its halves, down to the event to be skipped."""
    derived: list[Event] = []
    parts = [events[at : at + _BATCH] for at in range(0, len(events), _BATCH)][::-1]
    while parts:
        part, before = parts.pop(), detector.snapshot()
        try:
            rows = groupby(batch_results(detector, EventBatch(part[0].__class__, part)), itemgetter(0))
            derived += [event for row, found in rows for event in derive(part[row], [each for _, each in found])]
        except ENDING:
            raise
        except BaseException:
            detector.restore(before)
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]] if middle else []
    return derived


class _InOrderLane:
    """A detector that is simply called, event by event; when it raises, it is rebuilt from all events taken before."""

    def __init__(self, initial: Detector, derivation: Derivation) -> None:
        self._initial = initial
        self._derivation = derivation
        self._detector = fresh(initial)
        self._taken: list[Event] = []

    def take(self, event: Event) -> list[Event]:
        try:
            result = self._detector.on_event(event)
            derived = self._derivation(event, result) if result is not None else []
        except ENDING:
            raise
        except BaseException:
            self._detector = fresh(self._initial)
            for before in self._taken:
                result = self._detector.on_event(before)
                if result is not None:
                    self._derivation(before, result)
            return []
        self._taken.append(event)
        return derived


def oracle(
    events: Iterable[Event],
    detectors: Iterable[Detector] | Mapping[str, Detector],
    late: Mapping[str, Collection[Identity]] | None = None,
) -> dict[str, list[Event]]:
    """Final results by detector name, in total order.

    ``late``: by detector, the raw events in its ledger, which the oracle skips for it. O(n log n) per detector.
    """
    by_name = named(detectors)
    raw = first_arrivals(events, by_name)
    exempt = late if late is not None else {}
    return derived(by_name, lambda name: [event for event in raw if IDENTITY(event) not in exempt.get(name, ())])


class LenientOracle:
    """The oracle over ``events`` for runs that list some of them as late; computed once for runs that list the same ones."""

    def __init__(self, events: Iterable[Event], detectors: Mapping[str, Detector]) -> None:
        self._raw, self._detectors = first_arrivals(events, detectors), detectors
        self._known: dict[str, list[Event]] = {}

    def finals(self, ledgers: Iterable[Mapping[str, Collection[Identity]]]) -> list[Event]:
        """All results in total order, without the events that a run's ledgers list by detector: see ``late`` of ``oracle``."""
        late = {name: set(ids) for ledger in ledgers for name, ids in ledger.items() if ids}
        key = repr(sorted((name, sorted(ids)) for name, ids in late.items()))
        if key not in self._known:
            results = oracle(self._raw, self._detectors, late)
            self._known[key] = sorted(chain.from_iterable(results.values()), key=ORDER)
        return self._known[key]


def derived(
    detectors: Iterable[Detector] | Mapping[str, Detector],
    given: Callable[[str], Iterable[Event]],
    until: Mapping[str, int] | None = None,
) -> dict[str, list[Event]]:
    """Run over the raw events ``given`` to each detector by name, including those that it does not read.

    ``until``: for each detector that has stopped, the time of its last result.
    """
    by_name = named(detectors)
    level, derived_types = levels(by_name), published_types(by_name)
    results: dict[str, list[Event]] = {}
    for name in sorted(by_name, key=lambda n: level[n]):
        detector = by_name[name]
        raw_types = {kind for kind in detector.subscribes if kind not in derived_types}
        inputs = [event for event in given(name) if event.__class__ in raw_types]
        for lower in results.values():
            inputs += [event for event in lower if event.__class__ in detector.subscribes]
        last = until.get(name, END) if until is not None else END
        results[name] = sorted((e for e in in_order(name, detector, level[name], inputs) if e.ts <= last), key=ORDER)
    return results
