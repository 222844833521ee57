"""What the optimistic approach sends to the barrier, counted without any network: as the paper counts it, and as it is here.

In the paper each item that arrives out of order sends tombstones and items at once (Algorithm 2). Here a batch of changes is
taken as a whole, and what it comes to is sent. The stateful operation runs as printed (Figure 6: grouping, map and cycle), and
fused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from slackline_benchmarks.flow_input import arriving, texts

from detectors.flow.graphs.flow_stages import stages
from detectors.flow.operations.items import ABSENT, Change, Position, root_position
from detectors.flow.operations.program import Program
from middleware.model.errors import RunError
from middleware.model.event import NEVER
from scenarios.search.index import Page, flow

PAGES = {"zipf": 300, "wikipedia": 206}
RATE = 100.0
BATCH = 16
LATE = 0.1


class Count(NamedTuple):
    """One run: changes at the last stage's outlet, and results that stand in the end.

    ``batch``
        pages taken at once; 1: each item by itself, as the paper has it.
    ``cost``
        processor time (microseconds) an item of the last stage's input.
    """

    text: str
    late: float
    batch: int
    fused: bool
    items: int
    tombstones: int
    valid: int
    cost: float

    @property
    def ratio(self) -> float:
        """Arrivals at the barrier by results."""
        return (self.items + self.tombstones) / self.valid


def counted(sizes: Mapping[str, int] | None = None) -> list[Count]:
    """Every text, in order and with late pages, item by item and in batches, as fold and as cycle; all find the same.

    ``sizes``: how many pages of which text; by default ``PAGES`` of those there are.
    """
    found = []
    for text, pages in (sizes or {text: PAGES[text] for text in texts()}).items():
        for late in (0.0, LATE):
            given = arriving(text, pages / RATE, RATE, late)
            runs = [_count(text, late, given, batch, fused) for batch in (1, BATCH) for fused in (True, False)]
            if any(results != runs[0][1] for _, results in runs):
                raise RunError(f"the postings of {text} differ with batches, or with the cycle as printed")
            found += [count for count, _ in runs]
    return found


def _count(text: str, late: float, given: Sequence[Page], batch: int, fused: bool) -> tuple[Count, list[object]]:
    first, last = (Program(stage) for stage in stages(flow(updates=False), fuse=fused))
    batches = list(_batches(first, given, batch))
    provisional: dict[Position, object] = {}
    items = tombstones = 0
    started = time.process_time()
    for changes in batches:
        for position, old, new in (each for some in last.run(changes, NEVER).values() for each in some):
            tombstones += old is not ABSENT
            items += new is not ABSENT
            if new is ABSENT:
                del provisional[position]
            else:
                provisional[position] = new
    cost = (time.process_time() - started) * 1e6 / sum(map(len, batches))
    results = [provisional[position] for position in sorted(provisional)]
    return Count(text, late, batch, fused, items, tombstones, len(results), cost), results


def _batches(first: Program, given: Sequence[Page], batch: int) -> Iterator[list[Change]]:
    """What the maps make of the pages, as the last stage takes it."""
    for at in range(0, len(given), batch):
        some = given[at : at + batch]
        [entries] = first.run([(root_position(page), ABSENT, page) for page in some], NEVER).values()
        yield from ([each] for each in entries) if batch == 1 else [entries]
