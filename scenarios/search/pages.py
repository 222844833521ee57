"""Pages made up: words drawn by Zipf's law, so that a few posting lists take most of the load."""

from __future__ import annotations

from typing import Any

from middleware.model.time import SECOND

RATE = 20
"""Pages a second."""

WORDS = 60
"""Words of a page, on average."""

VOCABULARY = 5_000

_SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "je",
    "ki",
    "lo",
    "mu",
    "na",
    "pe",
    "ri",
    "so",
    "tu",
    "va",
    "we",
    "xi",
    "yo",
    "zu",
)


def word(rank: int) -> str:
    """The word of a rank, from 0: the commoner, the shorter, as in natural language.

    >>> word(0), word(25), word(1000)
    ('ba', 'baha', 'cemuba')
    """
    text = ""
    rank += 1
    while rank:
        rank, place = divmod(rank - 1, len(_SYLLABLES))
        text = _SYLLABLES[place] + text
    return text


def pages(seed: int, seconds: float, rate: float = RATE) -> dict[str, Any]:
    """A recording: ``rate`` pages a second from three sources, their words by Zipf's law (exponent 1)."""
    import numpy as np
    import pyarrow as pa

    generator = np.random.default_rng(seed)
    count = max(1, round(seconds * rate))
    lengths = generator.poisson(WORDS, count)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    drawn = generator.choice(VOCABULARY, lengths.sum(), p=weights / weights.sum())
    vocabulary = [word(rank) for rank in range(VOCABULARY)]
    texts = [" ".join(vocabulary[rank] for rank in part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]
    numbers = np.arange(count)
    return {
        "search.Page": pa.table(
            {
                "title": [f"page {number}" for number in numbers],
                "text": texts,
                "ts": (numbers * (SECOND / rate)).astype(np.int64) + SECOND,
                "id": numbers // 3,
                "source": [f"writer {number % 3}" for number in numbers],
            }
        )
    }
