"""Gives the results of a detector their identity: checks the contract, then stamps id, source and level."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from middleware.model.detector import Detector, backdate_of, check_declaration, check_state, detector_name
from middleware.model.errors import DetectorError
from middleware.model.event import (
    IDENTITY,
    MAX_TS,
    MIN_TS,
    Event,
    EventType,
    Identity,
    check_one_class_a_name,
    derived_id,
    plain,
    stable_hash,
    timed_id,
    type_name,
)
from middleware.model.operator import Operator
from middleware.model.values.carried import stamped


def published_types(detectors: Mapping[str, Detector]) -> frozenset[EventType]:
    """The types that some detector derives: events of these come from detectors alone."""
    return frozenset(kind for detector in detectors.values() for kind in detector.publishes)


class Derivation:
    """Turns the results of one detector, for one key, into derived events.

    ``name`` is the source of the derived events, ``level`` their level, ``origin`` the hash of name and key. Raises
    DetectorError for a result that is no event, has a type the detector does not publish, or is stamped too long before its
    cause.
    """

    __slots__ = ("_backdate", "_level", "_name", "_publishes", "_timed", "origin")

    def __init__(self, name: str, detector: Detector, level: int, key: object = None) -> None:
        self._name = name
        self._level = level
        self._publishes = detector.publishes
        self._backdate = backdate_of(detector)
        self._timed = detector.identity == "time"
        self.origin = origin_of(name, key)

    def __call__(self, cause: Event, result: Event | Iterable[Event]) -> list[Event]:
        """The events derived from ``cause``, in the order in which the detector gave them."""
        if isinstance(result, Event):
            return [self._stamp(cause, result, 0)]
        if not isinstance(result, Iterable):
            raise DetectorError(f"{self._name} returned {result!r}; on_event returns None, an event, or an iterable of events")
        return [self._stamp(cause, event, ordinal) for ordinal, event in enumerate(result)]

    def _stamp(self, cause: Event, event: Event, ordinal: int) -> Event:
        if event.__class__ not in self._publishes:
            declared = ", ".join(sorted(map(type_name, self._publishes))) or "nothing"
            what = type_name(event.__class__) if isinstance(event, Event) else repr(event)
            raise DetectorError(f"{self._name} returned {what}, but declares that it publishes {declared}")
        ts = event.ts if event.ts.__class__ is int else plain(event.ts)
        if not isinstance(ts, int) or isinstance(ts, bool) or not MIN_TS < ts < MAX_TS:
            raise DetectorError(
                f"{self._name} stamped {type_name(event.__class__)} with ts={event.ts!r}; it must be int64 nanoseconds"
            )
        if ts < cause.ts - self._backdate:
            raise DetectorError(
                f"{self._name} stamped {type_name(event.__class__)} {cause.ts - ts} ns before its cause, "
                f"but declares backdate = {self._backdate}"
            )
        origin = self.origin
        number = timed_id(origin, ts, ordinal) if self._timed else derived_id(origin, cause, ordinal)
        return stamped(event, number, self._name, self._level)


def origin_of(name: str, key: Any = None) -> int:
    """The hash of a detector and a key that goes into the ids of its results. Raises DetectorError (see ``canonical``)."""
    return stable_hash(name if key is None else f"{name}\0{canonical(key)!r}")


def canonical(key: Any) -> Any:
    """A form of a key that has the same ``repr`` for all equal keys: 1, 1.0 and True are one key, and so one origin.

    It can be a part of an ``Origin.id``. Raises DetectorError for keys without such a form.
    """
    kind = key.__class__
    if kind is str or (kind is int and -(2**63) <= key < 2**63):  # nearly all keys, and there may be millions
        return key
    if isinstance(key, tuple):
        return tuple(map(canonical, key))
    if isinstance(key, frozenset):
        return ("frozenset", *sorted(repr(canonical(item)) for item in key))
    if isinstance(key, Enum):  # a member of one that is of texts or numbers, too, is equal to its value
        return canonical(key.value) if isinstance(key, str | int | float) else (type(key).__name__, key.name)
    if isinstance(key, int | float) and (key >= 2**63 or key < -(2**63)):
        return _wide(key)
    if isinstance(key, bool | float) and key == key // 1:
        return int(key)
    if key is None or (isinstance(key, str | int | float | bytes) and key == key):  # noqa: PLR0124 (NaN)
        return key
    if (number := plain(key)) is not key:
        return canonical(number)
    raise DetectorError(
        f"{key!r} cannot be a key: it is made of numbers (not NaN), texts, bytes, None, enums, tuples and frozensets of these"
    )


def _wide(key: float) -> object:
    """A number that int64 cannot hold: as a float if one is equal to it, else as it is or, beyond uint64, as its digits."""
    try:
        near = float(key)
    except OverflowError:
        near = math.inf
    if near == key:
        return near
    return key if 0 < key < 2**64 else ("int", hex(int(key)))


def named(detectors: Iterable[Detector] | Mapping[str, Detector]) -> dict[str, Detector]:
    """Detectors by the name they publish under: as given, else their own (operators), else their class names. In a list there
    may be groups of them, such as a compiled script.

    Checks each declaration, and that types of one name are one class: else events of the other would go unread.
    """
    if isinstance(detectors, Mapping):
        by_name = dict(detectors)
        for name, detector in by_name.items():
            if not isinstance(name, str):
                raise DetectorError(f"detectors are given by name, such as {{'Rises': Rises()}}, not by {name!r}")
            check_is_detector(detector)
    else:
        if isinstance(detectors, Detector | str | bytes | type) or not isinstance(detectors, Iterable):
            raise DetectorError(
                f"detectors come in a list, or a dict by name, such as [{_example(detectors)}], not as {detectors!r}"
            )
        by_name = {}
        for detector in _flat(detectors):
            check_is_detector(detector)
            name = (isinstance(detector, Operator) and detector.name) or detector_name(detector)
            if by_name.setdefault(name, detector) is not detector:
                raise DetectorError(f"two detectors are named {name}: pass a dict {{name: detector}}")
    for name, detector in by_name.items():
        check_declaration(detector)
        if not isinstance(detector, Operator):
            check_state(detector, name)
    check_one_class_a_name(kind for each in by_name.values() for kind in (*each.subscribes, *each.publishes))
    return by_name


def _flat(detectors: Iterable[Any]) -> Iterator[Any]:
    """Detectors, and those of each group among them: a compiled script is a group of operators."""
    for each in detectors:
        if isinstance(each, Iterable) and not isinstance(each, Detector | str | bytes | type):
            yield from each
        else:
            yield each


def check_is_detector(given: object) -> None:
    """Raise DetectorError if this is no detector; the message says what to give instead."""
    if isinstance(given, Detector):
        return
    if isinstance(given, type) and issubclass(given, Event):
        raise DetectorError(f"{given.__name__} is an event type: give detectors that subscribe to it, such as [MyDetector()]")
    if isinstance(given, type) and issubclass(given, Detector):
        raise DetectorError(f"{given.__name__} is a class: give an instance of it, {given.__name__}()")
    raise DetectorError(f"{given!r} is no detector: give instances of subclasses of slackline.Detector")


def _example(given: object) -> str:
    """How to write, inside a list, a detector that was given alone."""
    return f"{(given if isinstance(given, type) else type(given)).__name__}()" if _is_near(given) else "MyDetector()"


def _is_near(given: object) -> bool:
    return isinstance(given, Detector) or (isinstance(given, type) and issubclass(given, Detector))


def levels(detectors: Mapping[str, Detector]) -> dict[str, int]:
    """The level of each detector: 1 + the highest level it reads; events that no detector derives have level 0.

    Raises DetectorError if detectors read each other in a circle. O(detectors * levels).
    """
    publishers: dict[EventType, list[str]] = {}
    for name, detector in detectors.items():
        for event_type in detector.publishes:
            publishers.setdefault(event_type, []).append(name)
    reads = {n: {p for t in d.subscribes for p in publishers.get(t, ())} for n, d in detectors.items()}
    found: dict[str, int] = {}
    while len(found) < len(detectors):
        ready = {
            n: 1 + max((found[p] for p in reads[n]), default=0) for n in reads if n not in found and reads[n] <= found.keys()
        }
        if not ready:
            circle = ", ".join(sorted(reads.keys() - found.keys()))
            raise DetectorError(f"these detectors read each other in a circle: {circle}")
        found.update(ready)
    return found


def clashing(events: Iterable[Event]) -> list[Event]:
    """Those with the source and id of one that came before, but another content. O(n)."""
    first: dict[Identity, Event] = {}
    again = ((event, was) for event in events if (was := first.setdefault(IDENTITY(event), event)) is not event)
    return [event for event, was in again if event != was and repr(event) != repr(was)]  # NaN is not equal to itself
