"""A reader that a log is kept for: how far it has got, and where it resumes under its name."""

from __future__ import annotations

import msgspec

from middleware.broker.routing import is_subscribed
from middleware.link.codec import SinkPosition

_MOST_COMMITS = 64

_MOST_EARLIER = 16


class Reader(msgspec.Struct):
    """A reader that the log is kept for, attached or not. It needs nothing up to ``offset`` any more; if ``named``, it resumes
    under its name after its own life has ended. ``owner``: the key that the name belongs to, if there are keys.

    ``commits``
        some of its former offsets, spread over the log: (offset, position). A reader that has the finals up to a position
        loses nothing if it reads on from the offset beside it.
    ``final``
        whether it reads finals: one that reads changes as they come passes what is not final, which finals still need. None: it
        has never announced it.
    ``earlier``
        (offset, patterns): up to this offset, it subscribed to these patterns only. It is sent nothing else from there.
    """

    patterns: frozenset[str]
    offset: int
    named: bool
    position: SinkPosition | None = None
    owner: str | None = None
    commits: list[tuple[int, SinkPosition | None]] = []
    final: bool | None = None
    earlier: list[tuple[int, frozenset[str]]] = []

    def moved(self, offset: int, position: SinkPosition | None, oldest: int = 0) -> None:
        """It has reached this offset; the log goes back to ``oldest``. O(1): there is a limit to ``commits``."""
        if self.named and position != self.position:
            self.commits.append((self.offset, self.position))
            if len(self.commits) > _MOST_COMMITS:
                del self.commits[self._dispensable(oldest)]
        self.offset, self.position = offset, position

    def was_subscribed(self, number: int, name: str) -> bool:
        """Whether it subscribed to a type when the block of this number came, if it still does."""
        return all(number > until or is_subscribed(patterns, name) for until, patterns in self.earlier)

    def earlier_with(self, patterns: frozenset[str], until: int) -> list[tuple[int, frozenset[str]]]:
        """``earlier``, once it subscribes to these patterns beyond an offset."""
        if patterns <= self.patterns or until <= self.offset:
            return self.earlier
        still = [each for each in self.earlier if each[0] > self.offset]
        return [*still, (until, self.patterns)][-_MOST_EARLIER:]

    def _dispensable(self, oldest: int) -> int:
        """The commit to forget: one that the log does not reach back to, or else the one between the closest neighbours."""
        offsets = [offset for offset, _ in self.commits]
        if offsets[0] < oldest:
            return 0
        spans = [after - before for before, after in zip(offsets, offsets[2:], strict=False)]
        return 1 + spans.index(min(spans))

    def commit_for(self, after: SinkPosition | None) -> tuple[int, SinkPosition | None]:
        """Where it resumes if all it has is finals up to ``after``: the last commit that will do, or else the oldest known."""
        commit = self.offset, self.position
        for before in reversed(self.commits):
            if after is None or commit[1] is None or commit[1] <= after:
                break
            commit = before
        return commit

    def back(self, after: SinkPosition | None) -> None:
        """Resume at that commit."""
        commit = self.commit_for(after)
        while (self.offset, self.position) != commit:
            self.offset, self.position = self.commits.pop()
