"""Operators whose functions raise, so that they stop (decision 024); and the same without errors, for the oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, Identity
from middleware.model.operator import Operation, Operator


class Fragile(Operator):
    """Runs the operation from ``start``, whose ``apply`` may raise. ``sound``: the same, but it never raises."""

    def __init__(self, sound: Operator, start: Callable[[str, int], Operation]) -> None:
        self.sound, self._start = sound, start
        self.name, self.definition, self.clock = sound.name, sound.definition, sound.clock
        self.subscribes, self.publishes = sound.subscribes, sound.publishes

    @property
    def emits_before_clock(self) -> bool:  # type: ignore[override]
        """See Operator."""
        return self.sound.emits_before_clock

    def start(self, name: str, level: int) -> Operation:
        """See Operator."""
        return self._start(name, level)


def sound(detectors: Mapping[str, Detector]) -> dict[str, Detector]:
    """Return the detectors so that none of them stops."""
    return {name: each.sound if isinstance(each, Fragile) else each for name, each in detectors.items()}


def breaking(operator: Operator, at: int, is_half_way: bool) -> Fragile:
    """An operator that raises at one in five of the events later than ``at``; ``is_half_way``: after it has processed it."""

    def breaks(event: Event) -> bool:
        return event.ts > at and event.id % 5 == 0

    return Fragile(operator, lambda name, level: _Breaking(operator.start(name, level), breaks, is_half_way))


class _Breaking(Operation):
    def __init__(self, inner: Operation, breaks: Callable[[Event], bool], is_half_way: bool) -> None:
        self._inner, self._breaks, self._is_half_way = inner, breaks, is_half_way
        super().__init__()

    @property
    def failures(self) -> dict[Identity, tuple[Event, str]]:
        return self._inner.failures

    @failures.setter
    def failures(self, failures: dict[Identity, tuple[Event, str]]) -> None:
        self._inner.failures = failures

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        if not any(map(self._breaks, delta.inserts)):
            return self._inner.apply(delta, emitted, final)
        if self._is_half_way:
            self._inner.apply(delta, emitted, final)
        raise ZeroDivisionError("a function of the user's")

    def snapshot(self) -> Any:
        return self._inner.snapshot()

    def restore(self, state: Any) -> None:
        self._inner.restore(state)

    def failed(self, final: int) -> list[tuple[Event, str]]:
        return self._inner.failed(final)
