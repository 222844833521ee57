"""The flow: pages to words and their places, words to posting lists, and one update for each page.

A posting list is in order of pages: each posting knows its rank and the page before it. A page that comes late changes the
lists of its words from there on; that is what makes the index a task that needs its input in order (section III.B of the
paper). The update of a page comes once all its words are in their lists, wherever these are (section III.A).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from slackline import Event

from detectors.flow import Flow
from middleware.model.detector import Detector


class Page(Event):
    """A page as it was written; ``title`` is its name."""

    namespace: ClassVar[str] = "search"
    title: str
    text: str


class Posted(Event):
    """The change log: ``page`` has ``word`` at these places (words counted from 0).

    ``rank``
        how many pages of the word's posting list come before it.
    ``before``
        the last of them; empty if it is the first.
    """

    namespace: ClassVar[str] = "search"
    word: str
    page: str
    places: tuple[int, ...]
    rank: int
    before: str
    cause: tuple[int | str, ...] = ()


class Indexed(Event):
    """All that indexing one page has changed, as one update: its words, and their ranks in the posting lists."""

    namespace: ClassVar[str] = "search"
    page: str
    words: tuple[str, ...]
    ranks: tuple[int, ...]


class IndexEntry(NamedTuple):
    """A word of a page: the ``number``-th of ``of`` different ones."""

    word: str
    page: str
    places: tuple[int, ...]
    number: int
    of: int


class Posting(NamedTuple):
    """An entry in its posting list."""

    entry: IndexEntry
    rank: int
    before: str


class PostingList(NamedTuple):
    """What the next posting of a word needs to know: how many there are, and the last."""

    length: int
    last: str


class Parts(NamedTuple):
    """What is known of a page so far, in chunks, so that adding to it copies little."""

    entries: int
    chunks: tuple[tuple[tuple[str, int], ...], ...]


_WORD = re.compile(r"[^\W\d_]+")
_CHUNK = 32


def words_of(text: str) -> Iterator[str]:
    """The words of a text, as they are indexed and looked up."""
    return (found[0] for found in _WORD.finditer(text.lower()))


def entries(page: Page) -> Iterable[IndexEntry]:
    """The first map: the words of a page with their places."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words_of(page.text)):
        places[word].append(place)
    return [IndexEntry(word, page.title, tuple(at), number, len(places)) for number, (word, at) in enumerate(places.items())]


def post(known: PostingList | None, entry: IndexEntry) -> tuple[PostingList, list[Posting]]:
    """Append a page to the posting list of a word."""
    length, last = known or (0, "")
    return PostingList(length + 1, entry.page), [Posting(entry, length, last)]


def gather(known: Parts | None, posting: Posting) -> tuple[Parts | None, list[tuple[str, tuple[str, ...], tuple[int, ...]]]]:
    """Gather what indexing a page has changed; it is complete when its last word has come and none is missing."""
    count, chunks = known or Parts(0, ())
    part = (posting.entry.word, posting.rank)
    is_full = not chunks or len(chunks[-1]) == _CHUNK
    chunks = (*chunks, (part,)) if is_full else (*chunks[:-1], (*chunks[-1], part))
    parts = Parts(count + 1, chunks)
    if parts.entries < posting.entry.of or posting.entry.number < posting.entry.of - 1:
        return parts, []
    words, ranks = zip(*(each for chunk in chunks for each in chunk), strict=True)
    return None, [(posting.entry.page, words, ranks)]


def flow(updates: bool = True) -> Flow:
    """The logical graph; ``updates``: also one update a page."""
    graph = Flow("search")
    postings = graph.source(Page).map(entries).stateful(post, key=_word)
    postings.sink(Posted, fields=lambda each: (each.entry.word, each.entry.page, each.entry.places, each.rank, each.before))
    if updates:
        postings.stateful(gather, key=_page).sink(Indexed)
    return graph


def _word(entry: IndexEntry) -> str:
    return entry.word


def _page(posting: Posting) -> str:
    return posting.entry.page


def search(workers: int = 2, updates: bool = True) -> Mapping[str, Detector]:
    """The operators, partitioned over ``workers``."""
    made: dict[str, Detector] = dict(flow(updates).operators(workers))
    return made
