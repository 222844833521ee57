"""Shoplifting seen by RFID readers: what the readers report, the queries over it, and a generated day in the shop."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar

from detectors.sequence import SequenceQuery
from middleware.model.event import Event, Value
from middleware.model.time import SECOND

MINUTE = 60 * SECOND
GATES = 2
COUNTERS = 3
SHELVES = 20

THEFT = """
EVENT SEQ(Shelf s, !(Checkout c), Exit e)
WHERE s.tag = c.tag AND c.tag = e.tag AND e.gate IN (1, 2)
WITHIN 10 min
RETURN Theft(s.tag AS tag, s.shelf AS shelf, e.gate AS gate, e.ts - s.ts AS took)
"""

GRABBED = """
EVENT SEQ(Shelf+ s[], Exit e) USING skip-till-next-match
WHERE [visitor] AND s[i].ts - s[i-1].ts < 5 s AND count(s) >= 4
WITHIN 2 min
RETURN Grabbed(first(s[].visitor) AS visitor, count(s) AS books, last(s[].ts) - first(s[].ts) AS took)
"""

FORGOTTEN = """
EVENT SEQ(Checkout c, !(Exit e))
WHERE c.tag = e.tag
WITHIN 3 min
RETURN Forgotten(c.tag AS tag, c.counter AS counter)
"""


class Shelf(Event):
    """A book was taken from a shelf; ``visitor`` is the loyalty card that the shelf saw, or that of a stranger."""

    namespace: ClassVar[str] = "shop"
    tag: int
    shelf: int
    visitor: int


class Checkout(Event):
    """A book was paid for."""

    namespace: ClassVar[str] = "shop"
    tag: int
    counter: int


class Exit(Event):
    """A book went out through a gate."""

    namespace: ClassVar[str] = "shop"
    tag: int
    gate: int
    visitor: int


class Theft(Event):
    """A book went from a shelf through a gate, and no checkout saw it in between; ``took`` in ns."""

    namespace: ClassVar[str] = "shop"
    tag: int
    shelf: int
    gate: int
    took: int


class Grabbed(Event):
    """Somebody took several books one right after the other, and left."""

    namespace: ClassVar[str] = "shop"
    visitor: int
    books: int
    took: int


class Forgotten(Event):
    """A book was paid for, and is still in the shop three minutes later."""

    namespace: ClassVar[str] = "shop"
    tag: int
    counter: int


TYPES = (Shelf, Checkout, Exit, Theft, Grabbed, Forgotten)


def queries() -> dict[str, SequenceQuery]:
    """The queries of the shop, as detectors."""
    texts = {"Thefts": THEFT, "Grabs": GRABBED, "Forgets": FORGOTTEN}
    return {name: SequenceQuery(text, TYPES, name) for name, text in texts.items()}


def readings(seed: int, seconds: float) -> Mapping[str, object]:
    """What the readers report in so many seconds: a visitor every other second takes one to six books.

    Nine in ten pay for all; some forget a book on the counter, some pass a gate twice. One in twelve is in a hurry.
    """
    import pyarrow as pa

    visits = _visits(random.Random(seed), round(seconds * SECOND))
    tables = {}
    for event_type in (Shelf, Checkout, Exit):
        fields = event_type.__struct_fields__[:-3]
        rows = sorted((row for kind, row in visits if kind is event_type), key=lambda row: row["ts"])
        numbers: dict[str, int] = {}
        for row in rows:
            numbers[row["source"]] = row["id"] = numbers.get(row["source"], 0) + 1
        tables[f"shop.{event_type.__name__}"] = pa.table(
            {name: [row[name] for row in rows] for name in (*fields, "id", "source")}
        )
    return tables


def _visits(rng: random.Random, end: int) -> list[tuple[type[Event], dict[str, Value]]]:
    found: list[tuple[type[Event], dict[str, Value]]] = []

    def reads(event_type: type[Event], ts: int, source: str, **values: int) -> None:
        if ts < end:
            found.append((event_type, {**values, "ts": ts, "source": source}))

    ts, tag, visitor = 0, 0, 0
    closing = end - min(6 * MINUTE, end // 3)  # nobody comes in any more
    while ts < closing:
        ts += round(rng.expovariate(0.5) * SECOND)
        visitor += 1
        pays, hurries = rng.random() < 0.9, rng.random() < 1 / 12
        now, basket = ts, []
        for _ in range(rng.randint(4, 6) if hurries else rng.randint(1, 4)):
            now += round(rng.uniform(0.5, 3.0 if hurries else 40.0) * SECOND)
            tag += 1
            shelf = rng.randint(1, SHELVES)
            reads(Shelf, now, f"shelf-{shelf}", tag=tag, shelf=shelf, visitor=visitor)
            basket.append(tag)
        if pays:
            now += round(rng.uniform(5, 60) * SECOND)
            counter = rng.randint(1, COUNTERS)
            for paid in basket:
                now += round(rng.uniform(0.4, 1.2) * SECOND)
                reads(Checkout, now, f"counter-{counter}", tag=paid, counter=counter)
            if rng.random() < 0.05 and now < closing - 4 * MINUTE:
                basket.pop()
        gate = rng.randint(1, GATES)
        now += round(rng.uniform(2, 20) * SECOND)
        for carried in basket:
            now += rng.randrange(1, SECOND // 50)
            reads(Exit, now, f"gate-{gate}", tag=carried, gate=gate, visitor=visitor)
    return found
