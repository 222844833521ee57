"""Detectors without their keys, to see what keys are worth: one state for all keys, as in the paper."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from middleware.model.detector import Detector, Key, Result, fresh, key_function


class UnkeyedDetector(Detector):
    """Does what a keyed detector does, with one state: a late event replays all keys. Base of one class for each detector.

    Its results have the same content, but other ids: identities depend on the key.
    """

    def __init__(self, inner: Detector, key: Key) -> None:
        self.inner = inner
        self.key_of = key
        self.parts: dict[object, Detector] = {}

    def on_event(self, event: Any) -> Result:
        key = self.key_of(event)
        part = self.parts.get(key)
        if part is None:
            part = self.parts[key] = fresh(self.inner)
        return part.on_event(event)

    def snapshot(self) -> dict[object, Any]:
        return {key: part.snapshot() for key, part in self.parts.items()}

    def restore(self, state: dict[object, Any]) -> None:
        self.parts = {key: _restored(self.inner, each) for key, each in state.items()}


def unkeyed(detectors: Mapping[str, Detector]) -> dict[str, Detector]:
    """Return the detectors, by their names, without keys."""
    return {name: _without_key(detector) for name, detector in detectors.items()}


def _without_key(detector: Detector) -> Detector:
    key = key_function(detector)
    if key is None:
        return detector
    declared = ("subscribes", "publishes", "clock", "backdate")
    kind = type(f"Unkeyed{type(detector).__name__}", (UnkeyedDetector,), {name: getattr(detector, name) for name in declared})
    made: Detector = kind(detector, key)
    return made


def _restored(inner: Detector, state: object) -> Detector:
    part = copy.copy(inner)
    part.restore(state)
    return part
