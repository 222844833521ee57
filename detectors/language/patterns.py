"""Text patterns: LIKE by segments, REGEX in the core. Neither ever backtracks, whatever the pattern and text.

Python's ``re`` tries every way in which a text may be divided among the parts of a pattern: exponentially many for some
(``(a+)+b``), and n^k for k times ``%`` in a LIKE.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from middleware import native

Matches = Callable[[str], bool]
"""Whether a text matches."""

LONGEST = 4_096
"""The most characters of a pattern that comes with the data."""

_KEPT = 64
"""How many patterns that come with the data are cached, of each kind."""

_MEMORY, _MEMORY_OF_DATA = 8 << 20, 1 << 20
"""Bytes that a compiled pattern may take: one in a query, and one that comes with the data."""

_PARTS = re.compile(r"\\(.)|(%)|(_)|(.)", re.DOTALL)


class PatternError(ValueError):
    """A regular expression is malformed; the message says how."""


def like(pattern: str) -> Matches:
    r"""A function that tells whether a whole text matches a LIKE pattern: % is any characters, _ is one; \ escapes them.

    The text between two % is searched for at its first place after the previous match: if any way matches, this one does.
    O(text) for segments without _, O(text * segment) for others.

    >>> like("I%M")("IBM"), like(r"a\_b")("axb"), like("%a_c%")("xxabc"), like("ab%ba")("aba")
    (True, False, True, False)
    """
    segments: list[list[str | None]] = [[]]  # None: any one character
    for escaped, many, one, plain in _PARTS.findall(pattern):
        if many:
            segments.append([])
        else:
            segments[-1].append(None if one else escaped or plain)
    first, *others = segments
    if not others:
        return _alone(first)
    *middle, last = others
    starts, ends = _alone(first), _alone(last)
    head, tail = len(first), len(last)
    finders = [_finder(segment) for segment in middle if segment]

    def matches(text: str) -> bool:
        end = len(text) - tail
        if end < head or not starts(text[:head]) or not ends(text[end:]):
            return False
        at = head
        for find in finders:
            at = find(text, at, end)
            if at < 0:
                return False
        return True

    return matches


def _alone(segment: list[str | None]) -> Matches:
    """A function that tells whether a whole text matches a segment."""
    if None not in segment:
        return "".join(filter(None, segment)).__eq__
    fixed = [(place, char) for place, char in enumerate(segment) if char is not None]
    return lambda text: len(text) == len(segment) and all(text[place] == char for place, char in fixed)


def _finder(segment: list[str | None]) -> Callable[[str, int, int], int]:
    """Finds the first match of a segment between two places of a text: the function gives its end, or -1."""
    size = len(segment)
    if None not in segment:
        literal = "".join(filter(None, segment))

        def find(text: str, start: int, end: int) -> int:
            at = text.find(literal, start, end)
            return at + size if at >= 0 else -1

        return find
    search = re.compile("".join("." if char is None else re.escape(char) for char in segment), re.DOTALL).search

    def find_open(text: str, start: int, end: int) -> int:  # a pattern of fixed length: nothing to backtrack to
        found = search(text, start, end)
        return found.end() if found is not None else -1

    return find_open


def regex(pattern: str, memory: int = _MEMORY) -> Matches:
    """A function that searches a text for a regular expression in the syntax of RE2. O(text). Raises PatternError.

    >>> regex("^a.c$")("abc"), regex("(a+)+$")("a" * 100_000 + "b")
    (True, False)
    """
    try:
        return native.Pattern(pattern, memory).is_in
    except ValueError as error:  # half a surrogate pair is no pattern, either
        raise PatternError(str(error)) from None


_like_of_data = lru_cache(_KEPT)(like)


@lru_cache(_KEPT)
def _regex_of_data(pattern: str) -> Matches | None:
    try:
        return regex(pattern, _MEMORY_OF_DATA)
    except PatternError:
        return None


def matches_like(text: str, pattern: str) -> bool | None:
    """LIKE with a pattern that is itself computed; NULL if it is too long."""
    return _like_of_data(pattern)(text) if len(pattern) <= LONGEST else None


def matches_regex(text: str, pattern: str) -> bool | None:
    """REGEX with a pattern that is itself computed; NULL if it is invalid or too long."""
    found = _regex_of_data(pattern) if len(pattern) <= LONGEST else None
    return None if found is None else found(text)
