"""Pages for the flow benchmarks: generated or real ones, in order or not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from random import Random

from middleware.model.errors import ScenarioError
from middleware.model.time import SECOND
from scenarios.search.index import Page
from scenarios.search.pages import pages
from scenarios.search.wikipedia import articles
from scenarios.search.workers import MOST_LATE

WORDS = 400
"""Words taken of a real page: some have tens of thousands."""


def texts() -> tuple[str, ...]:
    """The texts there are: without ``SLACKLINE_DATA`` the pages of Wikipedia are omitted, with a message."""
    try:
        next(articles())
    except ScenarioError as error:
        sys.stderr.write(f"no pages of Wikipedia: {error}\n")
        return ("zipf",)
    return ("zipf", "wikipedia")


def arriving(text: str, seconds: float, rate: float, late: float = 0.0, seed: int = 7) -> list[Page]:
    """Pages at a steady rate, in order of arrival; a share ``late`` of them comes up to ``MOST_LATE`` late.

    ``text``: words drawn by Zipf's law, or the first words of pages of Wikipedia (206 of them, again and again).
    """
    if text == "zipf":
        ordered = [Page(**row) for row in pages(seed, seconds, rate)["search.Page"].to_pylist()]
    else:
        real = [(title, " ".join(body.split()[:WORDS])) for title, body in articles()]
        ordered = [
            Page(f"{title} {at // len(real)}", body, ts=SECOND + round(at * SECOND / rate), id=at, source="wikipedia")
            for at, (title, body) in enumerate(islice(_again(real), max(1, round(seconds * rate))))
        ]
    random = Random(seed)
    arrival = [page.ts + (random.randrange(MOST_LATE) if random.random() < late else 0) for page in ordered]
    return [page for _, page in sorted(zip(arrival, ordered, strict=True), key=lambda pair: (pair[0], pair[1].ts))]


def _again(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*rows] * 100
