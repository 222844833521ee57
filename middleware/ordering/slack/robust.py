"""The default slack: learnt from events in time, of the last minute, and never from one source alone (decision 028).

It gives two figures over a window that consists of spans. ``k`` controls emission: the largest delay that was reached in at
least two spans, so that single outliers are left to speculation. ``reach`` determines the allowed lateness: the largest delay
of an event in time.

The delay of a late event teaches nothing: it may be anything. But if delays grow for good, all slow events are late from
then on. So late events have a vote: once many sources are late, the allowed lateness is doubled, and they vote afresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from middleware.model.block.mixed_block import AnyBlock
from middleware.model.event import END, NEVER, TS, Event
from middleware.model.quantities import Duration, duration_of
from middleware.model.time import SECOND
from middleware.ordering.slack.kslack import MOST, Lateness, SlackPolicy

SPANS = 12
"""Spans in the window, each at least SPAN long and with LEAST_SPAN events: a minute, or 1,000 events if they are rarer."""

SPAN = 5 * SECOND
LEAST_SPAN = 84

JURY, JURY_ALONE = 20, 200
"""Events to look at before late ones are believed; and the same where there is only one source."""

LEAST_MISSED, LEAST_MISSED_ALONE = 3, 10
"""Fewer late events than this (with one source: the second figure), or fewer than 1 in 100, are outliers."""

_SOURCE = attrgetter("source")

_MOST_SOURCES = 4096
"""The number of sources that are distinguished: enough to count shares of them."""

_Span = tuple[int, int, int]
"""A past span: the largest delay of an event in time, the reach given by votes, the reach at its end."""


class RobustSlack(SlackPolicy):
    """See the module. O(1) a batch that is in time.

    ``lateness``
        the unit's policy: within a window, the reach grows at most to what it allowed at the window's start, unless by votes.
    ``most``
        upper bound of K and the reach: ``"10 min"``, a timedelta, or ns.
    """

    only_earliest = True

    def __init__(self, lateness: Lateness | None = None, most: Duration = MOST) -> None:
        self._most = duration_of(most, "most")
        if self._most <= 0:
            raise ValueError(f"the most that K may become is a duration above 0, not {most!r}")
        self._lateness = lateness if lateness is not None else Lateness()
        self.k = self.reach = 0
        self._spans: list[_Span] = []
        self._ends = NEVER
        self._count = self._worst = self._given = 0  # of this span: events, largest delay in time, reach given by votes
        self._first = self._second = 0  # the two largest delays of past spans
        self._limit = self._lateness.of(0) or END  # without a floor, nothing is final before a delay is seen
        self._nearest = END
        self._sources: dict[str, None] = {}
        self._acquit()
        self.learnt = tuple(name for name in vars(self) if name not in ("_lateness", "_most"))

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        self._count += len(events)
        if delayed and (worst := clk - min(delayed)) > self._worst:
            self._worst = worst
            self.k = min(max(self._second, min(self._first, worst)) if self._spans else worst, self._most)
            self._stretch(min(worst, self._limit))
            self._note_sources(_last_source(events))
        if self._voters:
            self._observed += len(events)
            self._note_sources(_sources(events))
        if clk >= self._ends:
            if self._ends == NEVER:
                self._ends = clk + SPAN
            elif self._count >= LEAST_SPAN:
                self._turn(clk, events)

    def waited(self, clk: int, ts: int) -> None:
        """A silence is no delay: if it is longer than the allowed lateness, nothing is learnt from it."""
        if clk - ts <= self._lateness.of(self.reach):
            self.observe(clk, [ts], ())

    def missed(self, clk: int, events: Sequence[Event], arrived: Sequence[Event]) -> None:
        self._count += len(events)
        self._observed += len(events)
        if len(self._voters) < _MOST_SOURCES:
            self._voters.update(dict.fromkeys(map(_SOURCE, events)))
        self._note_sources(_sources(arrived))
        self._missed += len(events)
        self._nearest = min(self._nearest, clk - max(events, key=TS).ts)
        sources, voters = len(self._sources), len(self._voters)
        jury, least = (JURY, LEAST_MISSED) if sources > 1 else (JURY_ALONE, LEAST_MISSED_ALONE)
        if self._missed < max(least, self._observed // 100) or self._observed < jury:
            return
        if voters * 3 > sources and (voters > 1 or sources == 1):
            self._given = self._nearest
            self._limit = max(self._limit, self._lateness.of(self._given))
            self._stretch(self._given)
            self._acquit()

    def _stretch(self, reach: int) -> None:
        self.reach = min(max(self.reach, reach), self._most)

    def _note_sources(self, names: Iterable[str]) -> None:
        """Note the sources of all events while some are late, to know the share of late sources."""
        if len(self._sources) < _MOST_SOURCES:
            self._sources.update(dict.fromkeys(names))

    def _acquit(self) -> None:
        """Start to count votes afresh."""
        self._voters: dict[str, None] = {}
        self._missed = self._observed = self._turns = 0
        self._nearest = END

    def _turn(self, clk: int, events: Sequence[Event]) -> None:
        """End a span; the oldest one is forgotten."""
        self._spans.append((self._worst, self._given, self.reach))
        if len(self._spans) > SPANS:
            del self._spans[0]
        self._ends, self._count, self._worst, self._given = clk + SPAN, 0, 0, 0
        self._second, self._first = sorted([0, *(span[0] for span in self._spans)])[-2:]
        self.k = min(self._second if len(self._spans) > 1 else self._first, self._most)
        given = max(span[1] for span in self._spans)
        before = self._spans[0][2] if len(self._spans) == SPANS else 0
        self._limit = max(self._lateness.of(before) or END, self._lateness.of(given))
        self.reach = min(max(min(self._first, self._limit), given), self._most)
        self._turns += 1
        if self._turns >= SPANS:
            self._sources.clear()
            self._acquit()
        self._note_sources(_last_source(events))  # this source moved the clock


def _sources(events: Sequence[Event]) -> Iterable[str]:
    return events.sources() if isinstance(events, AnyBlock) else map(_SOURCE, events)


def _last_source(events: Sequence[Event]) -> Iterable[str]:
    """That of the last event, if there is one."""
    if not events:
        return ()
    return (events.last_source() if isinstance(events, AnyBlock) else events[-1].source,)
