"""Which raw events were revised or withdrawn by their publishers, so that a change that comes again has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import xxhash

from middleware.link.codec import encode_alike
from middleware.model.event import IDENTITY, Event, Identity

UNCHECKED = 1_024
"""How many changed events of a type are kept without looking whether they still matter."""

Version = int | None
"""Digest of an event's present content; None once it is withdrawn, for good."""

Refusal = Literal["late", "ahead"]
"""Why a change was refused: it came too late, or leads too far ahead."""

Outcome = Literal["new", "again"] | Refusal
"""What becomes of a change: it is made; it was made before; it rests on one that was refused for this reason, so it is, too."""


class ChangedEvents:
    """The present versions of the events that were changed. An event that was never changed takes any first change.

    A revision is taken if the event is what it says it was. A revision that comes again finds another version; if it does
    not, because later revisions led back to the old one, those come again after it, and lead to the same end.
    A change that rests on a refused change is refused, too: the event is still what it was before.
    Memory grows with the changed events of which changes could still be admitted.
    """

    __slots__ = ("_most", "_types", "_unchecked")

    def __init__(self, unchecked: int = UNCHECKED) -> None:
        self._unchecked = unchecked
        self._types: dict[str, dict[Identity, tuple[int, Version, Refusal | None]]] = {}
        self._most: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._types.values()))

    def change(self, name: str, old: Event, new: Event | None) -> Outcome:
        """Note that an event changes from ``old`` to ``new``, or (None) is withdrawn, if the outcome is "new"."""
        versions = self._types.setdefault(name, {})
        known = versions.get(IDENTITY(old))
        if known is not None:
            _, current, refused = known
            if current is None or ((new is not None or refused is not None) and current != version(old)):
                if refused is not None and new is not None:
                    versions[IDENTITY(old)] = (max(known[0], new.ts), current, refused)
                return refused or "again"
        ts = old.ts if new is None else max(old.ts, new.ts)
        versions[IDENTITY(old)] = (ts, None if new is None else version(new), None)
        return "new"

    def is_of(self, name: str, old: Event) -> bool | None:
        """Whether an event is what a change says it was; None if it was never changed. Of one that is withdrawn, or of which a
        change was refused, ``change`` tells."""
        known = self._types.get(name, {}).get(IDENTITY(old))
        if known is None:
            return None
        _, current, refused = known
        return current is None or refused is not None or current == version(old)

    def refuse(self, name: str, identity: Identity, ts: int, current: int, reason: Refusal) -> None:
        """Note that a change was refused: the event stays as it was. Kept until changes up to ``ts`` are too late."""
        self._types.setdefault(name, {})[identity] = (ts, current, reason)

    def current(self, name: str, identity: Identity) -> Version:
        """The version of an event that was changed, or of which a change was refused."""
        return self._types[name][identity][1]

    def forget(self, name: str, low: int) -> None:
        """No change to an event at or below ``low`` is admitted any more. Amortised O(1) for each change."""
        versions = self._types.get(name)
        if versions is not None and len(versions) > self._most.get(name, self._unchecked):
            kept = {identity: known for identity, known in versions.items() if known[0] > low}
            self._types[name] = kept
            self._most[name] = max(2 * len(kept), self._unchecked)

    def state(self) -> dict[str, Any]:
        """The whole state as built-in values, for ``restore``."""
        return {name: dict(versions) for name, versions in self._types.items() if versions}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to ``state``."""
        self._types = {name: dict(versions) for name, versions in state.items()}


def version(event: Event) -> int:
    """A digest of an event, whatever the order of what is in its sets and dicts."""
    return xxhash.xxh3_64_intdigest(encode_alike(event))
