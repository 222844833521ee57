"""A digest of everything that decides what a state does next; times on the running clock, counts and caches do not."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import msgspec
import xxhash

IRRELEVANT: dict[str, frozenset[str]] = {
    "Admission": frozenset({"sources", "types"}),
    "Attachments": frozenset({"awaited", "born", "closed", "drops", "joined", "left", "lost"}),
    "Broker": frozenset({"drops", "events_in", "ingress", "now", "sources", "types"}),
    "CombinedWatermarks": frozenset({"types"}),
    "DurableCore": frozenset({"now", "types"}),
    "ExploredNode": frozenset({"records"}),
    "ExploredPublisher": frozenset({"plan", "publication"}),
    "ExploredSubscriber": frozenset({"plan"}),
    "StartupBarrier": frozenset({"born"}),
    "Hello": frozenset({"wall"}),
    "Inbox": frozenset({"codec", "drops", "ingress", "taken"}),
    "Link": frozenset({"announced", "count", "wall"}),
    "Outbound": frozenset({"events"}),
    "Peer": frozenset({"account"}),
    "Subscription": frozenset({"codec", "drops", "events", "taken"}),
}
"""By class, attributes without their leading underscores: times on the running clock, counts, and what follows from the rest.

By class, since a name alone hides the state of whoever takes the same name later. Names that end with ``_at`` are times.
"""

_SCALARS = frozenset({type(None), int, str, bytes, bool, float})
_ROWS = frozenset({tuple, list, deque})


def digest(state: Any) -> int:
    """A number that is equal for states from which the same can happen. O(objects)."""
    parts: list[str] = []
    _write(state, parts.append, {})
    return xxhash.xxh3_64_intdigest("".join(parts).encode())


def _write(value: Any, write: Callable[[str], None], seen: dict[int, int]) -> None:
    kind = type(value)
    if kind in _SCALARS:
        write(f"{value!r},")
    elif id(value) in seen:  # the objects of a node refer to each other
        write(f"@{seen[id(value)]}")
    elif kind in _ROWS:
        write("(")
        for each in value:
            _write(each, write, seen)
        write(")")
    elif isinstance(value, Mapping):
        write("{")
        for key in sorted(value, key=repr):
            _write(key, write, seen)
            _write(value[key], write, seen)
        write("}")
    elif isinstance(value, Set):
        write(f"<{sorted(map(repr, value))}>")
    elif not callable(value) or hasattr(value, "__dict__"):
        seen[id(value)] = len(seen)
        write(f"{kind.__name__}[")
        for name, each in attributes(value):
            write(f"{name}=")
            _write(each, write, seen)
        write("]")


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object that count, in a fixed order."""
    names: list[str]
    irrelevant = IRRELEVANT.get(type(value).__name__, ())
    if isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    elif hasattr(value, "__dict__"):
        names = sorted(vars(value))
    else:
        names = sorted(name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()))
    for name in names:
        bare = name.lstrip("_")
        if bare not in irrelevant and not bare.endswith("_at"):
            each = getattr(value, name, None)
            if not isinstance(each, Counter) or bare == "given":
                yield name, each
