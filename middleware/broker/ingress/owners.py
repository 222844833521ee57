"""Whose each source is: of the key, or without keys of the publisher, that sent it first.

The rights of keys come first: a source that the allow-list reserves is its key's, whoever sent it before. A key keeps its
sources for good, as it may come back at any time. A publisher without a key has them while it is attached and its link is
alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from middleware.broker.peers.rights import KEY, PUBLISHER, Sender

MOST_REPORTED = 1_000
"""Most sources of which attempts by others are counted one by one."""


class Owners:
    """See the module. ``is_here``: whether the publisher of this name, which has no key, is attached and its link is alive.

    ``attempts``: by source, how many events others have tried to send under it.
    """

    def __init__(self, is_here: Callable[[str], bool] = lambda name: False) -> None:
        self.attempts: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._is_here = is_here

    def objection(self, source: str, sender: Sender) -> str:
        """Why a sender may not send events of a source; empty if it may: then the source is its own. O(patterns) for keys."""
        rights, owner = sender.rights, self._owners.get(source)
        if rights is not None:
            if against := rights.objection(source):
                return against
            if rights.has(source):
                return ""
        if owner == sender.name:
            return ""
        if owner is not None and self._keeps(owner, sender):
            return f"source {source!r} belongs to {owner}"
        if not sender.shares:
            self._owners[source] = sender.name
        return ""

    def _keeps(self, owner: str, sender: Sender) -> bool:
        if owner.startswith(KEY):
            return True
        return not sender.shares and self._is_here(owner.removeprefix(PUBLISHER))

    def had(self, source: str, sender: Sender) -> None:
        """A sender had this source in a former life of the node."""
        if sender.rights is not None and not sender.rights.has(source):
            self._owners[source] = sender.name

    def is_owner(self, name: str) -> bool:
        """Whether a publisher without a key has a source. O(sources)."""
        return PUBLISHER + name in self._owners.values()

    def rejected(self, source: str) -> None:
        """Count an event of a source that another has tried to send."""
        if source in self.attempts or len(self.attempts) < MOST_REPORTED:
            self.attempts[source] = self.attempts.get(source, 0) + 1

    def state(self) -> dict[str, str]:
        """By source, the key that has it, for ``restore``."""
        return {source: owner for source, owner in self._owners.items() if owner.startswith(KEY)}

    def restore(self, state: Mapping[str, str]) -> None:
        """Return to ``state``."""
        self._owners = dict(state)
