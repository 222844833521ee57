"""What the holder of a key may say and read at a node, as the transport gives it; nothing is limited without keys."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from middleware.broker.routing import is_covered, is_subscribed

EVERYTHING = frozenset({"*"})

KEY, PUBLISHER = "key ", "publisher "
"""How the name of a sender begins."""


class Rights(msgspec.Struct, frozen=True):
    """The rights of one key.

    ``owner``
        the name of the key.
    ``publish``, ``read``
        patterns of event types, as in a subscription.
    ``sources``
        names of sources, or beginnings of names that end with ``*``, which this key has for itself, and sends no others; none:
        it may send any source that no other key has. ``others``: those that other keys have for themselves.
    ``history``
        how far back (ns) it may read a log; None: all of it.
    """

    owner: str
    publish: frozenset[str] = EVERYTHING
    read: frozenset[str] = EVERYTHING
    sources: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    history: int | None = None

    def may_publish(self, name: str) -> bool:
        """Whether it may publish events of a type."""
        return is_subscribed(self.publish, name)

    def has(self, source: str) -> bool:
        """Whether the key has this source for itself."""
        return _matches(self.sources, source)

    def objection(self, source: str) -> str:
        """Why the key may not send events of a source; empty if it may, as far as the rights of keys go."""
        if self.sources:
            named = ", ".join(sorted(self.sources))
            return "" if self.has(source) else f"key {self.owner} may publish no sources but {named}, so not {source!r}"
        return f"source {source!r} belongs to another key in the allow-list" if _matches(self.others, source) else ""

    def objection_to_reading(self, patterns: Collection[str]) -> str | None:
        """Why the key may not subscribe to these patterns, if it may not."""
        refused = sorted(pattern for pattern in patterns if not is_covered(pattern, self.read))
        if not refused:
            return None
        return (
            f"key {self.owner!r} may not read {', '.join(refused[:5])}: it may read {', '.join(sorted(self.read)) or 'nothing'}"
        )


class Sender(msgspec.Struct, frozen=True):
    """A publisher as the owner of sources: the holder of a key or, without keys, one publisher.

    ``shares``: it sends events of sources that others send, too, and claims none; this counts among publishers without keys.
    """

    name: str
    rights: Rights | None = None
    shares: bool = False


def sender_of(name: str, rights: Rights | None, shares: bool = False) -> Sender:
    """The sender that a publisher is."""
    return Sender(PUBLISHER + name, None, shares) if rights is None else Sender(KEY + rights.owner, rights)


def _matches(patterns: frozenset[str], source: str) -> bool:
    return source in patterns or any(pattern.endswith("*") and source.startswith(pattern[:-1]) for pattern in patterns)
