"""Which raw events were revised or withdrawn by their publishers: so that a change that comes again changes nothing again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xxhash

from middleware.event import IDENTITY, Event, Identity
from middleware.pubsub.codec import encode

_FEW = 1_024

Version = int | None
"""Digest of what an event is by now; None once it is withdrawn, which it stays."""


class ChangedEvents:
    """The present versions of the events that were changed. An event that never was takes any first change.

    A revision is taken if the event is what it says it was. One that comes again finds the event to be something else;
    where it does not, because later revisions led back to its beginning, they come again behind it, to the same end.
    Memory grows with the changed events of which changes could still be admitted.
    """

    __slots__ = ("_most", "_types")

    def __init__(self) -> None:
        self._types: dict[str, dict[Identity, tuple[int, Version]]] = {}
        self._most: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._types.values()))

    def withdraw(self, name: str, event: Event) -> bool:
        """Note that an event is withdrawn; False if it was before."""
        return self._change(name, event, None)

    def revise(self, name: str, old: Event, new: Event) -> bool:
        """Note that an event has become ``new``; False if it is not ``old`` (any more)."""
        return self._change(name, old, new)

    def _change(self, name: str, old: Event, new: Event | None) -> bool:
        versions = self._types.setdefault(name, {})
        known = versions.get(IDENTITY(old))
        if known is not None and (known[1] is None or (new is not None and known[1] != _version(old))):
            return False
        ts = old.ts if new is None else max(old.ts, new.ts)
        versions[IDENTITY(old)] = (ts, None if new is None else _version(new))
        return True

    def forget(self, name: str, low: int) -> None:
        """No change to an event at or below ``low`` is admitted any more. Amortised O(1) for each change."""
        versions = self._types.get(name)
        if versions is not None and len(versions) > self._most.get(name, _FEW):
            kept = {identity: known for identity, known in versions.items() if known[0] > low}
            self._types[name] = kept
            self._most[name] = max(2 * len(kept), _FEW)

    def state(self) -> dict[str, Any]:
        """All of it as plain values, for ``restore``."""
        return {name: dict(versions) for name, versions in self._types.items() if versions}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what gave ``state``."""
        self._types = {name: dict(versions) for name, versions in state.items()}


def _version(event: Event) -> int:
    return xxhash.xxh3_64_intdigest(encode(event))
