"""The algorithms of Li et al. (ICDCSW 2007) by name, and the work they do. All that the operator runs find the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Algorithm(StrEnum):
    """Which of the paper's algorithms runs.

    ``TOTAL_ORDER``
        SASE as it was (section 2.2): input is taken to be in order; wrong if it is not, so that the operator refuses it.
    ``SORT``
        Algorithm 1: all states active, sort semantics, RIPs checked at each event, every event may complete sequences.
    ``CLOCK``
        Algorithm 2: what is not older than AIS-CLOCK goes the short way of the total order.
    ``PARTITION``
        Algorithms 2 and 3, with a divider between outdated and up-to-date instances in each stack: what runs by default.
    """

    TOTAL_ORDER = "total-order"
    SORT = "sort"
    CLOCK = "clock"
    PARTITION = "partition"


@dataclass(slots=True)
class ScanWork:
    """The cost of construction.

    ``searches``
        how often sequences were searched for.
    ``constructed``, ``filtered``
        sequences that were built, and how many of them were longer than the window: those were built in vain.
    """

    searches: int = 0
    constructed: int = 0
    filtered: int = 0

    def __str__(self) -> str:
        return f"{self.searches:,} searches, {self.constructed:,} sequences built, {self.filtered:,} of them in vain"
