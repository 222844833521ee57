"""Real pages: an extract of English Wikipedia (MediaWiki XML, CC BY-SA), in the order in which it has them."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from middleware.model.time import SECOND
from middleware.runtime.scenario import find_file

RATE = 10
"""Pages a second in the replay: their own times lie years apart."""

FILE = "wikipedia/articles.xml.bz2"


def articles() -> Iterator[tuple[str, str]]:
    """Title and text (with its markup) of each page. Raises ScenarioError if the extract is not there."""
    with bz2.open(find_file(Path(__file__).parent, FILE)) as file:
        for _, element in ElementTree.iterparse(file):
            space, _, tag = element.tag.rpartition("}")
            if tag == "page":
                prefix = space + "}" if space else ""
                title, text = element.findtext(f"{prefix}title"), element.findtext(f"{prefix}revision/{prefix}text")
                element.clear()
                if title:
                    yield title, text or ""


def pages(seed: int, seconds: float) -> dict[str, Any]:
    """A recording of the first ``seconds`` at ``RATE``; there are 206 pages. ``seed`` changes nothing."""
    import pyarrow as pa

    rows = [row for row, _ in zip(articles(), range(max(1, round(seconds * RATE))), strict=False)]
    return {
        "search.Page": pa.table(
            {
                "title": [title for title, _ in rows],
                "text": [text for _, text in rows],
                "ts": [SECOND + number * SECOND // RATE for number in range(len(rows))],
                "id": list(range(len(rows))),
                "source": ["wikipedia"] * len(rows),
            }
        )
    }
