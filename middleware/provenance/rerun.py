"""Runs detectors again, in order, over the known events: each result with its triggering event and prior state. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from middleware.model.change import Delta
from middleware.model.detector import Detector, fresh, key_function
from middleware.model.errors import ENDING
from middleware.model.event import END, IDENTITY, ORDER, Event, Identity
from middleware.model.identity import Derivation, levels
from middleware.model.operator import Operator, applied
from middleware.model.values.state import StatePickle, alike


class ResultOrigin(msgspec.Struct):
    """How a result was made.

    ``inputs``
        those of its detector and key, in total order, up to its trigger; for an operator, all up to the result's time.
    ``trigger``
        the event that triggered it, the last of ``inputs``; None if an operator made it.
    """

    event: Event
    detector: str
    inputs: Sequence[Event]
    trigger: Event | None
    key: Any = None


class Rerun:
    """All detectors over the raw events, sorted by the total order, each one without the events it listed as late, and with
    those that it ``kept`` as they were, as their retraction or revision came too late for it.

    ``made``
        how each result was made, by identity.
    ``stopped``
        operators that raised: they have no results.
    ``calls``
        detector calls made since then, to find out what results depend on.
    """

    def __init__(
        self,
        detectors: Mapping[str, Detector],
        raw: Collection[Event],
        late: Mapping[str, Collection[Identity]],
        until: int,
        kept: Mapping[str, Mapping[Identity, Event]] = MappingProxyType({}),
    ) -> None:
        self.made: dict[Identity, ResultOrigin] = {}
        self.stopped: dict[str, str] = {}
        self.calls = 0
        self._detectors = detectors
        self._levels = levels(detectors)
        results: list[Event] = []
        for name in sorted(detectors, key=lambda each: self._levels[each]):
            kinds, late_events, own = set(detectors[name].subscribes), late.get(name, ()), kept.get(name, {})
            there = [*(event for event in raw if IDENTITY(event) not in own), *own.values()]
            inputs = [
                event
                for event in there
                if event.__class__ in kinds and event.ts <= until and IDENTITY(event) not in late_events
            ]
            inputs += [event for event in results if event.__class__ in kinds]
            inputs.sort(key=ORDER)
            results += self._operate(name, inputs) if isinstance(detectors[name], Operator) else self._detect(name, inputs)

    def holds(self, made: ResultOrigin, inputs: Sequence[Event]) -> bool:
        """Whether these inputs alone give the same result, with the same content. O(inputs)."""
        self.calls += len(inputs)
        try:
            results = self._again(made, inputs)
        except ENDING:
            raise
        except BaseException:  # user code, on a part of its usual input
            return False
        found = {IDENTITY(event): event for event in results}.get(IDENTITY(made.event))
        return found is not None and alike(found, made.event)

    def states(self, made: ResultOrigin) -> tuple[dict[str, Any], dict[str, Any]]:
        """The detector's attributes before and after the event that triggered the result. Empty for an operator."""
        if made.trigger is None:
            return {}, {}
        detector = fresh(self._detectors[made.detector])
        for event in made.inputs[:-1]:
            _called(detector, event)
        before = _attributes(detector)
        _called(detector, made.trigger)
        return before, _attributes(detector)

    def _again(self, made: ResultOrigin, inputs: Sequence[Event]) -> list[Event]:
        name = made.detector
        detector, level = self._detectors[name], self._levels[name]
        if isinstance(detector, Operator):
            return applied(detector.start(name, level), Delta(list(inputs)), END, END).inserts
        own, derive = fresh(detector), Derivation(name, detector, level, made.key)
        for event in inputs[:-1]:
            _called(own, event)
        result = own.on_event(inputs[-1]) if inputs else None
        return derive(inputs[-1], result) if result is not None else []

    def _operate(self, name: str, inputs: list[Event]) -> list[Event]:
        detector = self._detectors[name]
        assert isinstance(detector, Operator)
        try:
            results = applied(detector.start(name, self._levels[name]), Delta(inputs), END, END).inserts
        except ENDING:
            raise
        except BaseException as error:  # user code; it has stopped in the original run, too
            self.stopped[name] = f"{type(error).__name__}: {error}"
            return []
        times = [event.ts for event in inputs]
        for event in results:
            self.made[IDENTITY(event)] = ResultOrigin(event, name, _Prefix(inputs, bisect_right(times, event.ts)), None)
        return results

    def _detect(self, name: str, inputs: list[Event]) -> list[Event]:
        detector = self._detectors[name]
        key, results = key_function(detector), list[Event]()
        lanes: dict[Any, tuple[Detector, Derivation, list[Event]]] = {}
        for event in inputs:
            try:
                value = key(event) if key is not None else None
                lane = lanes.get(value)  # raises for a key that has no hash
            except ENDING:
                raise
            except BaseException:  # quarantined: the event belongs to no lane, and changes none
                continue
            if lane is None:
                lane = lanes[value] = (fresh(detector), Derivation(name, detector, self._levels[name], value), [])
            own, derive, taken = lane
            try:
                result = own.on_event(event)
                derived = derive(event, result) if result is not None else []
            except ENDING:
                raise
            except BaseException:  # quarantined; the detector is made anew in its state before
                lanes[value] = (_rebuilt(detector, taken), derive, taken)
                continue
            taken.append(event)
            for each in derived:
                self.made[IDENTITY(each)] = ResultOrigin(each, name, _Prefix(taken, len(taken)), event, value)
            results += derived
        return results


class _Prefix(Sequence[Event]):
    """The first n items of a growing list, without a copy for each result."""

    def __init__(self, events: list[Event], length: int) -> None:
        self._events, self._length = events, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._events[: self._length][index] if isinstance(index, slice) or index < 0 else self._events[index]


def _rebuilt(detector: Detector, taken: Sequence[Event]) -> Detector:
    own = fresh(detector)
    for event in taken:
        _called(own, event)
    return own


def _called(detector: Detector, event: Event) -> None:
    result = detector.on_event(event)
    if result is not None and not isinstance(result, Event):
        for _ in result:  # a generator runs only when it is read
            pass


def _attributes(detector: Detector) -> dict[str, Any]:
    """The detector's named attributes, or what stands for them, as text."""
    state = detector.snapshot()
    if isinstance(state, StatePickle):
        state = state.value(detector)
    return {str(name): repr(value) for name, value in state.items()} if isinstance(state, dict) else {"state": repr(state)}
