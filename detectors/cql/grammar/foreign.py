"""Finds SQL that FlinkCQL does not have before it is misread (``LEFT`` as an alias), and says what to write instead."""

from __future__ import annotations

import re

from detectors.language.query_errors import QueryError, TextSpan

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)

_JOIN = "join the streams: FROM a [SIZE 10 sec] JOIN b [SIZE 10 sec] ON a.x = b.x"

_FOREIGN = (
    (r"\b(NATURAL(?:\s+(?:LEFT|RIGHT|FULL|INNER))?(?:\s+OUTER)?)\s+JOIN\b", "name the attributes: JOIN ... USING symbol"),
    (
        r"\bJOIN\b(?:[^();]|\([^()]*\))*?\b(JOIN)\b",
        "this is the second of the query, which takes one: FROM (SELECT ... FROM a [...] JOIN b [...]) [...] JOIN c [...]",
    ),
    (r"\b(UNION|EXCEPT|INTERSECT)(?:\s+(?:ALL|DISTINCT))?\s+\(?\s*SELECT\b", "MERGE a, b INTO c puts streams together"),
    (r"\b(TOP)\s+\d", "write ORDER BY x DESC LIMIT 10 over a window"),
    (r"(?:^|;)\s*(WITH)\s+\w+\s+AS\s*\(", "write CREATE STREAM a AS SELECT ..., or FROM (SELECT ...) a"),
    (r"\b(EXISTS)\s*\(\s*SELECT\b", _JOIN),
    (r"\b(IN\s*\(\s*SELECT)\b", _JOIN),
    (r"\b(GROUPING\s+SETS|ROLLUP|CUBE)\s*\(", "write a query for each grouping"),
    (
        r"\b(?:UNBOUNDED|\d+(?:\s+\w+)?|INTERVAL\s+\w+)\s+(FOLLOWING)\b",
        "frames end with the current row, as what follows has not come: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    ),
    (r"\b(QUALIFY)\b", "filter the result in an outer SELECT ... WHERE"),
    (r"\b(FOR\s+SYSTEM_TIME)\b", "a table is looked up as it was read: JOIN Rates ON ..."),
    (r"\b(ILIKE)\b", "write lower(x) LIKE 'abc%'"),
    (
        r"(?:^|;)\s*(UPDATE|DELETE|DROP|ALTER|TRUNCATE|CREATE\s+(?:VIEW|INDEX))\b",
        "streams are made by CREATE STREAM and added to by INSERT INTO a SELECT ...; statements are not changed later",
    ),
)
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in _FOREIGN]


def check_foreign(text: str) -> None:
    """Raise QueryError at the first SQL construct that FlinkCQL does not have. O(text)."""
    bare = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    found = [(match, advice) for pattern, advice in _PATTERNS if (match := pattern.search(bare)) is not None]
    if found:
        match, advice = min(found, key=lambda each: each[0].start(1))
        words = " ".join(match[1].upper().split())
        raise QueryError(f"{words} is not supported: {advice}", TextSpan(*match.span(1))).located(text)
