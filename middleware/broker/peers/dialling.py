"""When the nodes of the configuration are dialled again: at once when they were lost, ever more rarely when they refuse."""

from __future__ import annotations

from collections.abc import Iterable

from middleware.model.time import MILLISECOND, SECOND

_PAUSE = 200 * MILLISECOND
_LONGEST_PAUSE = 10 * SECOND


class Dialling:
    """See the module. ``names``: the nodes to dial; all are due at the beginning."""

    def __init__(self, names: Iterable[str], now: int) -> None:
        self.names = frozenset(names)
        self._due = dict.fromkeys(sorted(self.names), now)
        self._pauses: dict[str, int] = {}

    def lost(self, name: str, refused: bool, now: int) -> None:
        """There is no link with this node any more; ``refused``: one end refused the other, and may well do so again."""
        if name not in self.names:
            return
        pause = 0
        if refused:
            pause = self._pauses[name] = min(2 * self._pauses.get(name, _PAUSE // 2), _LONGEST_PAUSE)
        self._due[name] = now + pause

    def joined(self, name: str) -> None:
        """The node has been let in, and has let this one in."""
        self._due.pop(name, None)
        self._pauses.pop(name, None)

    def due(self, now: int) -> list[str]:
        """The nodes that are to be dialled now; each is named once."""
        due = [name for name, at in self._due.items() if now >= at] if self._due else []
        for name in due:
            del self._due[name]
        return due
