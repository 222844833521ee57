"""The live index at the sink: what it takes in, and what is found in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from middleware.model.change import Batch, Delta
from middleware.model.event import NEVER
from scenarios.search.index import Posted, words_of

_PHRASE = re.compile(r'"([^"]*)"')


class Hit(NamedTuple):
    """A page that has all that was asked for.

    ``is_final``
        nothing that comes late will change its postings any more.
    """

    page: str
    score: float
    is_final: bool
    places: tuple[int, ...]


class LiveIndex:
    """Posting lists as they are now, kept by the change log. ``changed``: how often postings were revised or withdrawn."""

    def __init__(self) -> None:
        self.watermark = NEVER
        self.changed = 0
        self._lists: dict[str, dict[str, Posted]] = {}
        self._pages: dict[str, int] = {}

    @property
    def words(self) -> int:
        """How many words have a posting list."""
        return len(self._lists)

    @property
    def pages(self) -> int:
        """How many pages are in some posting list."""
        return len(self._pages)

    def take(self, batch: Batch) -> None:
        """Take changes in. O(changes)."""
        delta = batch.deltas.get("search.Posted", Delta())
        self.changed += len(delta.retracts) + len(delta.revises)
        for event in delta.retracts:
            self._remove(event)  # type: ignore[arg-type]
        for old, new in delta.revises:
            self._remove(old)  # type: ignore[arg-type]
            self._add(new)  # type: ignore[arg-type]
        for event in delta.inserts:
            self._add(event)  # type: ignore[arg-type]
        self.watermark = max(self.watermark, batch.watermarks.get("search.Posted", NEVER))

    def _add(self, posted: Posted) -> None:
        self._lists.setdefault(posted.word, {})[posted.page] = posted
        self._pages[posted.page] = self._pages.get(posted.page, 0) + 1

    def _remove(self, posted: Posted) -> None:
        of_word = self._lists[posted.word]
        del of_word[posted.page]
        if not of_word:
            del self._lists[posted.word]
        self._pages[posted.page] -= 1
        if not self._pages[posted.page]:
            del self._pages[posted.page]

    def search(self, query: str) -> list[Hit]:
        """Pages with all words and all "phrases in quotes", the best first (tf-idf). O(shortest posting list * words)."""
        phrases = [list(words_of(text)) for text in _PHRASE.findall(query)]
        phrases += [[word] for word in words_of(_PHRASE.sub(" ", query))]
        phrases = [phrase for phrase in phrases if phrase]
        if not phrases:
            return []
        lists = [self._lists.get(word, {}) for phrase in phrases for word in phrase]
        shortest = min(lists, key=len)
        hits = (self._hit(page, phrases) for page in shortest)
        return sorted(filter(None, hits), key=lambda hit: (-hit.score, hit.page))

    def _hit(self, page: str, phrases: list[list[str]]) -> Hit | None:
        score, first, is_final = 0.0, list[int](), True
        for phrase in phrases:
            postings = [self._lists.get(word, {}).get(page) for word in phrase]
            found = [posted for posted in postings if posted is not None]
            if len(found) < len(phrase):
                return None
            at = list(_starts(found))
            if not at:
                return None
            first.append(at[0])
            rarity = sum(math.log(1 + self.pages / len(self._lists[word])) for word in phrase)
            score += (1 + math.log(len(at))) * rarity
            is_final = is_final and found[0].ts <= self.watermark
        return Hit(page, score, is_final, tuple(first))

    def posting_list(self, word: str) -> list[Posted]:
        """The postings of a word by rank."""
        return sorted(self._lists.get(word, {}).values(), key=lambda posted: posted.rank)


def _starts(phrase: Iterable[Posted]) -> Iterator[int]:
    """Where the words stand one behind the other."""
    first, *others = (posted.places for posted in phrase)
    rest = [frozenset(places) for places in others]
    for place in first:
        if all(place + ahead in places for ahead, places in enumerate(rest, 1)):
            yield place
