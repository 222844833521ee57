"""Which raw events have been seen: exact, with memory that grows only with the gaps in each source's numbering.

The core has the intervals of a source, and the loop over events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from middleware.link.codec import Run
from middleware.link.identities import Identities
from middleware.model.block.arrays import to_array
from middleware.model.block.block import Block
from middleware.model.block.rows import source_codes
from middleware.model.event import Event, Identity, is_source
from middleware.native import CoreBlock, Intervals, take_ids, take_new

if TYPE_CHECKING:
    import pyarrow as pa

Bounds = tuple[list[int], list[int]]
"""Where intervals start, and where they stop."""


def skipped(events: list[Event], new: list[Event]) -> list[Event]:
    """The events that ``take_new`` skipped. O(1) if there are none."""
    if len(new) == len(events):
        return []
    taken = set(map(id, new))
    return [event for event in events if id(event) not in taken]


class SeenIds:
    """The identities (source, id) that have been seen. Ids have 64 bits.

    A checkpoint saves them a few sources at a time (``begin``, ``part``), as they were when it began: a source that changes in
    the meantime is copied first, at its first change. Sources are never forgotten, so their order stays.
    """

    __slots__ = ("_before", "_left", "_names", "_sources")

    def __init__(self) -> None:
        self._sources: dict[str, Intervals] = {}
        self._names: list[str] = []
        self._left: Iterator[str] = iter(())
        self._before: dict[str, Bounds] | None = None
        """Of sources that have changed since a checkpoint began, what they were; None while there is none."""

    def __contains__(self, identity: Identity) -> bool:
        intervals = self._sources.get(identity[0])
        return intervals is not None and identity[1] in intervals

    def add(self, source: str, number: int) -> bool:
        """Add an identity; False if it had been seen."""
        return self.of(source).add(number)

    def of(self, source: str) -> Intervals:
        """The ids of one source that have been seen."""
        intervals = self._sources.get(source)
        if intervals is None:
            intervals = self._sources[source] = Intervals()
            self._names.append(source)
        elif self._before is not None and source not in self._before:
            self._before[source] = intervals.bounds()
        return intervals

    def take_new(self, events: list[Event]) -> list[Event]:
        """Add the identities of events; returns those that had not been seen, in order (the list itself if it is all)."""
        return take_new(events, self.of)

    def take_named(self, events: list[Event]) -> list[Event]:
        """The same, but events whose source has no name, or one that is too long, count as seen."""
        return take_new(events, lambda source: self.of(source) if is_source(source) else None)

    def take_columns(self, columns: Block) -> bytes | None:
        """Add the identities of events: a byte for each, 1 if it had not been seen. None, and none is added, if one is there
        twice among them, or has a source that events cannot have. O(events), in the core."""
        if not len(columns):
            return b""
        if columns.core_block is not None:
            return self.take_block(columns.core_block)
        import numpy as np

        names, codes = source_codes(columns.batch)
        used = {0} if len(names) == 1 else set(np.unique(codes).tolist())
        if not all(is_source(names[code]) for code in used):
            return None
        of = [self.of(name) if code in used else Intervals() for code, name in enumerate(names)]
        return take_ids(columns.ids.astype("<i8", copy=False).tobytes(), codes.astype("<u4", copy=False).tobytes(), of)

    def take_block(self, block: CoreBlock) -> bytes | None:
        """The same of a block that the core has read. O(events)."""
        names = block.sources()
        return block.take_ids(list(map(self.of, names))) if all(map(is_source, names)) else None

    def take_identities(self, found: Identities) -> bytes | None:
        """The same of identities in a block that nothing else is known of; None, too, if a code names none. O(events)."""
        if not all(map(is_source, found.names)):
            return None
        try:
            return take_ids(found.ids, found.codes, list(map(self.of, found.names)))
        except ValueError:
            return None

    def add_runs(self, runs: list[Run]) -> bool:
        """Add all of these, or none, and return False, if any had been seen or they are not sound."""
        sources = self._sources
        if len(runs) == 1:
            source, first, last = runs[0]
            return first <= last and self.of(source).add_new_run(first, last)
        if not _disjoint(runs):
            return False
        for source, first, last in runs:
            intervals = sources.get(source)
            if first > last or (intervals is not None and intervals.overlaps(first, last)):
                return False
        for source, first, last in runs:
            self.of(source).add_new_run(first, last)
        return True

    def state(self) -> dict[str, Bounds]:
        """By source, where its intervals start and stop, for ``restore``. O(gaps)."""
        return {source: intervals.bounds() for source, intervals in self._sources.items()}

    def restore(self, state: Mapping[str, Bounds]) -> None:
        """Return to ``state``."""
        self._sources, self._names, self._before = {}, [], None
        self.restore_part(state)

    def begin(self) -> None:
        """A checkpoint begins: ``part`` gives the sources as they are now. O(1)."""
        self._left = islice(self._names, len(self._names))
        self._before = {}

    def part(self, count: int) -> dict[str, Bounds]:
        """The next sources, at most ``count``, as ``state`` had them at the last call of ``begin``; empty at the end."""
        if self._before is None:
            return {}
        sources, before = self._sources, self._before
        part = {name: before.pop(name) if name in before else sources[name].bounds() for name in islice(self._left, count)}
        if not part and count:
            self._before = None
        return part

    def restore_part(self, part: Mapping[str, Bounds]) -> None:
        """Add sources that a ``part`` has saved."""
        self._sources |= {source: Intervals(*bounds) for source, bounds in part.items()}
        self._names += part

    def gaps(self) -> int:
        """How many intervals are kept, over all sources."""
        return sum(map(len, self._sources.values()))


def _disjoint(runs: list[Run]) -> bool:
    ordered = sorted(runs)
    return all(one[0] != other[0] or one[2] < other[1] for one, other in pairwise(ordered))


def joined_runs(identities: Iterable[Identity], most: int) -> list[Run] | None:
    """Identities as runs, or None if that takes more than ``most`` or one occurs twice. O(n log n), O(n) if in order."""
    runs: list[Run] = []
    for source, number in sorted(identities):
        if runs and runs[-1][0] == source and number - runs[-1][2] <= 1:
            if number == runs[-1][2]:
                return None
            runs[-1] = (source, runs[-1][1], number)
        elif len(runs) == most:
            return None
        else:
            runs.append((source, number, number))
    return runs


def runs_in(batch: pa.RecordBatch, most: int) -> list[Run] | None:
    """The same of events in columns; None, too, if ids are so far apart that they hardly are runs."""
    import numpy as np

    names, codes = source_codes(batch)
    ids = to_array(batch.column("id"))
    low = int(ids.min())
    span = int(ids.max()) - low + 2  # so that the ids of one source never touch those of the next
    if span * len(names) >= 2**63:
        return None
    numbers = np.sort(codes.astype(np.int64) * span + (ids - low))
    steps = np.diff(numbers)
    ends = np.flatnonzero(np.append(steps, 2) != 1)
    if len(ends) > most or not steps.all():
        return None
    sources, firsts = np.divmod(numbers[np.append(0, ends[:-1] + 1)], span)
    lasts = numbers[ends] % span
    return list(zip(map(names.__getitem__, sources.tolist()), (firsts + low).tolist(), (lasts + low).tolist(), strict=True))
