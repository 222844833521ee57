"""Trial runs of one detector: the outcome of each event of a sequence, in this process or in fresh ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from middleware.model.detector import Detector, detector_name, key_function
from middleware.model.errors import ENDING, SlacklineError
from middleware.model.event import Event, Key, type_name
from middleware.model.identity import Derivation
from middleware.testing.fresh import in_fresh_processes

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_encode_anyhow = msgspec.msgpack.Encoder().encode


class EventOutcome(NamedTuple):
    """The outcome of one event: derived events, or the error raised (then the state is as before the event)."""

    events: tuple[Event, ...] = ()
    raised: str = ""
    malformed: str = ""

    def fingerprint(self) -> bytes:
        """Equal only for equal outcomes, in every process; 1 differs from True, and NaN equals itself."""
        outcome = (self.raised, self.malformed, [(type_name(type(event)), event) for event in self.events])
        try:
            return _encode(outcome)
        except TypeError:  # keys that are no texts
            return _encode_anyhow(outcome)

    def __str__(self) -> str:
        return self.raised or self.malformed or ", ".join(map(repr, self.events)) or "nothing"


class Trial(msgspec.Struct, frozen=True):
    """A detector class with its settings: makes instances and runs them."""

    detector_class: type[Detector]
    settings: dict[str, object] = {}

    def make(self) -> Detector:
        return self.detector_class(**self.settings)

    def derivation(self) -> Derivation:
        detector = self.make()
        return Derivation(detector_name(detector), detector, level=1)

    def run(self, events: Iterable[Event], detector: Detector | None = None) -> list[EventOutcome]:
        """The outcomes of the events, in the given order, on one instance (a new one if none is given)."""
        derivation = self.derivation()
        detector = detector or self.make()
        return [step(detector, derivation, event) for event in events]

    def lanes(self, events: Iterable[Event]) -> list[list[Event]]:
        """The events by key, longest lane first: each lane is all that one instance may see. One lane if there is no key."""
        key = key_function(self.make())
        lanes: dict[Key, list[Event]] = {}
        for event in events:
            lanes.setdefault(key(event) if key else None, []).append(event)
        return sorted(lanes.values(), key=len, reverse=True)


def step(detector: Detector, derivation: Derivation, event: Event) -> EventOutcome:
    """Run one event; an error is quarantined, as at a node."""
    before = detector.snapshot()
    try:
        result = detector.on_event(event)
        return EventOutcome(tuple(derivation(event, result)) if result is not None else ())
    except SlacklineError as error:
        outcome = EventOutcome(malformed=str(error))
    except ENDING:
        raise
    except BaseException as error:
        # A generator runs, and fails, only while it is read: so a detector may also raise here.
        outcome = EventOutcome(raised=f"{type(error).__name__}: {error}")
    detector.restore(before)
    return outcome


def difference(events: Sequence[Event], one: Sequence[EventOutcome], other: Sequence[EventOutcome]) -> str:
    """Where two runs over the same events differ, in words; empty if they do not."""
    for event, mine, yours in zip(events, one, other, strict=True):
        if mine.fingerprint() != yours.fingerprint():
            return f"at {event!r}: {mine}\ninstead of: {yours}"
    return ""


def run_in_fresh_processes(
    trial: Trial, lanes: Sequence[Sequence[Event]], hash_seeds: Sequence[int]
) -> list[list[list[EventOutcome]]]:
    """The outcomes of each lane, from a fresh process for each hash seed.

    Raises DetectorError if a process fails: then the detector cannot even be imported or made in another process.
    """
    return in_fresh_processes(partial(_run_each, trial, [list(lane) for lane in lanes]), hash_seeds)


def _run_each(trial: Trial, lanes: list[list[Event]]) -> list[list[EventOutcome]]:
    return [trial.run(lane) for lane in lanes]
