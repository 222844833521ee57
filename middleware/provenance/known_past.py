"""The known past: raw events as they stand, and what each step took in and published. Pure.

It is fed step by step, from a log or from a repeated run, and keeps only what may be relevant to one type of result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from middleware.model.change import Delta, Insert, Retract, Revise, Watermark
from middleware.model.detector import Detector
from middleware.model.event import IDENTITY, NEVER, Event, EventType, Identity, field_names, type_name
from middleware.model.quantities import spoken_time


class NodeStep(msgspec.Struct):
    """One step of a node: what it took in, and what it published.

    ``number``
        of the step, from 1. ``node``: the step's node. ``at``: running time of the node, ns; None if time does not matter (in a
        run in one process).
    ``clock``
        the largest time of the relevant raw events before this step.
    ``code``
        the code that the node's detectors ran then, in words, by name; empty where that is unknown or that of now.
    """

    number: int
    arrived: list[Delta]
    published: list[Delta]
    node: str = ""
    at: int | None = None
    clock: int = NEVER
    code: Mapping[str, str] = {}


class Arrival(msgspec.Struct):
    """A raw event that came late, and by how much (ns) behind its node's clock at that moment."""

    event: Event
    behind: int


class ResultChange(msgspec.Struct):
    """A change of a result, and the step that made it. ``by``: the late arrivals of that step that caused it, those nearest
    to the result first.
    """

    change: Insert | Revise | Retract
    step: NodeStep
    by: list[Arrival] = []


def closure(result_type: EventType, detectors: Mapping[str, Detector]) -> dict[str, Detector]:
    """The detectors that an event of this type can depend on, by name, including those that publish it."""
    found: dict[str, Detector] = {}
    types = {result_type}
    while more := {
        name: each for name, each in detectors.items() if name not in found and not types.isdisjoint(each.publishes)
    }:
        found |= more
        types.update(kind for each in more.values() for kind in each.subscribes)
    return found


class Past:
    """See the module.

    ``detectors``
        those that results of the type ``result_type`` depend on, by name.
    ``roots``
        the types that they read but none of them publishes.
    ``raw``
        events of the root types as they stand, by identity.
    ``refused``
        by detector, the raw events whose last retraction or revision came too late for it; its owner sets it.
    ``code``
        the present code of the detectors, in words, by name; its owner sets it where steps have theirs.
    """

    def __init__(self, result_type: EventType, detectors: Mapping[str, Detector]) -> None:
        self.result_type = result_type
        self.detectors = closure(result_type, detectors)
        made = {kind for each in self.detectors.values() for kind in each.publishes}
        read = {kind for each in self.detectors.values() for kind in each.subscribes}
        self.roots = read - made
        self.kinds = read | made
        self.raw: dict[Identity, Event] = {}
        self.refused: dict[str, set[Identity]] = {}
        self.code: Mapping[str, str] = {}
        self._before: dict[Identity, Event] = {}
        """Raw events as they were before their last retraction or revision."""
        self.steps: list[NodeStep] = []
        self._arrived: dict[Identity, NodeStep] = {}
        self._clock = NEVER
        self._moments: dict[Identity, list[ResultChange]] = {}
        self._at: dict[int, dict[Identity, Event]] = {}

    def take(self, steps: Iterable[NodeStep]) -> None:
        """Take steps in their order. O(changes of the relevant types)."""
        for step in steps:
            kept = msgspec.structs.replace(
                step, arrived=self._kept(step.arrived), published=self._kept(step.published), clock=self._clock
            )
            if kept.arrived or kept.published:
                self.steps.append(kept)
                self._note(kept)

    def moments(self, identity: Identity) -> list[ResultChange]:
        """All publications of this result, in order."""
        return self._moments.get(identity, [])

    def arrival(self, identity: Identity) -> NodeStep | None:
        """The step in which a raw event first came."""
        return self._arrived.get(identity)

    def results(self) -> Iterator[Event]:
        """All results of the type ever published, each as published last."""
        for moments in self._moments.values():
            if moments[-1].change.event.__class__ is self.result_type:
                yield moments[-1].change.event

    def kept(self) -> dict[str, dict[Identity, Event]]:
        """By detector, what it has of the events of which it refused the last change."""
        before = self._before
        return {name: {each: before[each] for each in some if each in before} for name, some in self.refused.items()}

    def at(self, ts: int) -> Iterable[Event]:
        """All events with this time, past or present."""
        return self._at.get(ts, {}).values()

    def _kept(self, deltas: list[Delta]) -> list[Delta]:
        return [delta for delta in map(self._relevant, deltas) if delta]

    def _relevant(self, delta: Delta) -> Delta:
        kinds = self.kinds
        return Delta(
            [event for event in delta.inserts if event.__class__ in kinds],
            [pair for pair in delta.revises if pair[1].__class__ in kinds],
            [event for event in delta.retracts if event.__class__ in kinds],
        )

    def _note(self, step: NodeStep) -> None:
        for change in _changes(step.arrived):
            self._index(change.event)
            if change.event.__class__ not in self.roots:
                continue
            if not isinstance(change, Insert) and (was := self.raw.get(IDENTITY(change.event))) is not None:
                self._before[IDENTITY(change.event)] = was
            if isinstance(change, Retract):
                self.raw.pop(IDENTITY(change.event), None)
            else:
                if isinstance(change, Insert) and IDENTITY(change.event) in self.raw:
                    continue  # a repeat
                self.raw[IDENTITY(change.event)] = change.event
                self._arrived.setdefault(IDENTITY(change.event), step)
                self._clock = max(self._clock, change.event.ts)
        for change in _changes(step.published):
            self._index(change.event)
            if change.event.__class__ in self.kinds:
                self._moments.setdefault(IDENTITY(change.event), []).append(ResultChange(change, step))

    def _index(self, event: Event) -> None:
        self._at.setdefault(event.ts, {})[IDENTITY(event)] = event


def changed(step: NodeStep) -> Iterator[Event]:
    """Every event that came, went, or changed in a step, with its content afterwards (before, if it went)."""
    return (change.event for change in _changes([*step.arrived, *step.published]))


def _changes(deltas: list[Delta]) -> Iterator[Insert | Revise | Retract]:
    for delta in deltas:
        yield from (change for change in delta.changes() if not isinstance(change, Watermark))


def about(event: Event) -> str:
    """An event in one line: type, time, and fields."""
    fields = ", ".join(f"{name} {_short(getattr(event, name))}" for name in field_names(event.__class__))
    return f"{type_name(event.__class__)} at {spoken_time(event.ts)}" + (f": {fields}" if fields else "")


def _short(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
