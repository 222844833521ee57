"""The operator of joins over windows of time: each side is indexed by key and time, so a change costs O(its matches).

Windows of one moment (both sides EVERY the same time): a pair is a result of each boundary that lies in the windows of both.
EVERY 1: a pair is one result, made when the later of the two comes, if the earlier is in its window then.

A pair's results are a function of the pair alone. So published results need not be kept: withdrawing a tuple withdraws the
results of its pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from detectors.cql.changes import SourceHashes, packed, unpacker
from detectors.cql.planning.query_plan import JoinQueryPlan, Side
from detectors.cql.query_operators.current import CurrentJoin
from detectors.cql.query_operators.native_rows import in_core_else_compiled, projection
from detectors.cql.query_operators.paired import PairedColumns
from detectors.cql.query_operators.query_operator import QueryOperator
from detectors.cql.query_operators.relation import key_code
from detectors.language.value_types import REALS
from detectors.language.written import NotPlainError
from detectors.operator_columns import joined
from detectors.outcomes import difference
from detectors.window.kinds import end_at
from middleware import native
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import END, NEVER, Event, Key, Value
from middleware.model.later import Later
from middleware.model.operator import Operation, Origin, Snapshot
from middleware.model.values.carried import holds_numbers

if TYPE_CHECKING:
    from middleware.native._core import Met

LEAST_PURGE = 1024
"""The least number of changes between two purges."""

PURGE_SHARE = 0.5
"""The same as a share of the tuples held, so that purging costs O(1) per change."""


class JoinOperator(QueryOperator[JoinQueryPlan]):
    """The operator of a ``JoinQueryPlan`` query."""

    min_rows_for_columns = 0

    def start(self, name: str, level: int) -> Operation:
        if self.plan.is_paired:
            return PairJoin(self.plan, name, level)
        kind = MomentJoin if self.plan.is_aligned and not any(self.plan.keeps) else CurrentJoin
        return kind(self.plan, name, level)


class _Join(Operation, ABC):
    """The base of both kinds of joins."""

    def __init__(self, plan: JoinQueryPlan, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        origin = Origin(name, level)
        self._stamp = repr(name), str(level)
        more = {"zip": zip, "range": range, "max": max, "min": min, "end_at": end_at}
        self._results: Callable[[list[Event], list[Event], list[int]], list[Event]] = plan.frame.define(self._code(), more)
        self._sides = [
            (True, plan.left.source.event_type, plan.frame.define(_entering(plan.left, "e"))),
            (False, plan.right.source.event_type, plan.frame.define(_entering(plan.right, "f"))),
        ]
        self._marking = [(factor, SourceHashes(origin, role)) for factor, role in zip(FACTORS, ("left", "right"), strict=False)]
        self._is_one_type = plan.left.source.event_type is plan.right.source.event_type
        self._pairs = self._new()
        self._emitted = NEVER
        self._changed = 0

    def _new(self) -> native.Pairs:
        left, right = (
            side.window.size.amount if side.window.size is not None else 0 for side in (self.plan.left, self.plan.right)
        )
        return native.Pairs(left, right, *self._marking)

    @abstractmethod
    def _code(self) -> str:
        """Code of a function that gives the results of pairs, passed as two columns."""

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        before = self._take_back(self._changes(delta.retracts, self._pairs.remove)) if delta.retracts else []
        self._emitted = emitted
        after = self._hold_back(self._changes(delta.inserts, self._pairs.insert)) if delta.inserts else []
        after += self._due()
        self._purge(len(delta), final)
        return difference(before, after)

    def _purge(self, changes: int, final: int) -> None:
        """Forget what no tuple can meet any more, now and then."""
        self._changed += changes
        if self._changed > max(LEAST_PURGE, self._pairs.held * PURGE_SHARE) or final == END:
            self._changed = 0
            self._pairs.forget(final)

    def _changes(self, events: list[Event], change: Callable[[bool, list[Key], list[Event]], Met]) -> list[Event]:
        """All results of pairs that contain one of ``events``, which are inserted or removed one side after the other."""
        results: list[Event] = []
        for is_left, event_type, entering in self._sides:
            own = events if self._is_one_type else [event for event in events if event.__class__ is event_type]
            keys, own = entering(own)
            left, right, identities = change(is_left, keys, own)
            if left:
                results += self._results(left, right, identities)
        return results

    def _take_back(self, results: list[Event]) -> list[Event]:
        return results

    def _hold_back(self, results: list[Event]) -> list[Event]:
        return results

    def _due(self) -> list[Event]:
        return []

    @property
    def held(self) -> int:
        return self._pairs.held

    @property
    def keys(self) -> int:
        return self._pairs.keys

    def snapshot(self) -> Snapshot:
        sides = [Later(_plain, self._pairs.content(is_left)) for is_left in (True, False)]
        return sides, self._emitted, self._changed

    def restore(self, state: Snapshot) -> None:
        sides, self._emitted, self._changed = state
        self._pairs = self._new()
        for content, (is_left, event_type, _) in zip(sides, self._sides, strict=True):
            unpack = unpacker(event_type)
            for key, rows in content:
                events = unpack(rows)
                self._pairs.insert(is_left, [key] * len(events), events)


class PairJoin(_Join):
    """EVERY 1: each pair once, when the later of the two comes."""

    takes_several = True

    def __init__(self, plan: JoinQueryPlan, name: str, level: int) -> None:
        self._columns: PairedColumns | None = None
        with suppress(NotPlainError):
            self._columns = PairedColumns(plan, name, level)
        super().__init__(plan, name, level)
        if (in_core := projection(plan, ("e", "f"), name, level)) is not None:
            self.is_carried = holds_numbers(plan.target.event_type)
            self._results = in_core_else_compiled(self, in_core.of_pairs, self._results)

    def _new(self) -> native.Pairs:
        pairs = super()._new()
        if self._columns is not None:
            self._columns.attach(pairs)
        return pairs

    def takes(self, columns: Block) -> bool:
        return self._columns is not None

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        given = delta.given
        if given is None or self._columns is None:
            return super().apply(delta, emitted, final)
        before = self._changes(delta.retracts, self._pairs.remove) if delta.retracts else []
        self._emitted = emitted
        parts = [(left, piece) for left, kind, _ in self._sides for piece in given.pieces if piece.event_type is kind]
        found = self._columns.fed(self._pairs, parts)
        columns, met = (None, None) if found is None else found
        rows = self._results(*met) if met is not None else []
        if found is None:
            rows = self._changes(delta.inserts, self._pairs.insert)
        self._purge(len(delta), final)
        if before or rows:
            return difference(before, joined(columns, rows))
        return Delta(columns)

    def _code(self) -> str:
        plan = self.plan
        test = f" if {plan.condition.holds}" if plan.condition is not None else ""
        result = plan.constructor("e.ts if e.ts > f.ts else f.ts", "pair", *self._stamp)
        return f"def made(left, right, pairs):\n    return [{result} for e, f, pair in zip(left, right, pairs){test}]\n"


class MomentJoin(_Join):
    """Windows that end at the same moments: each pair at each boundary that both windows hold. Due when time has passed it."""

    def __init__(self, plan: JoinQueryPlan, name: str, level: int) -> None:
        super().__init__(plan, name, level)
        self._waiting: dict[int, dict[int, Event]] = {}
        self._heap: list[int] = []

    def _code(self) -> str:
        plan, window = self.plan, self.plan.left.window
        left, right = (side.window.size.amount if side.window.size else 0 for side in (plan.left, plan.right))
        slide, phase = window.slide.amount, window.phase
        first = f"end_at(max(e.ts, f.ts), {slide}, {phase})"
        if window.start is not None:
            first = f"max({window.start}, {first})"
        test = f" if {plan.condition.holds}" if plan.condition is not None else ""
        moments = f"range({first}, min(e.ts + {left}, f.ts + {right}), {slide})"
        identity = f"((pair + ts * {FACTORS[2]} + {2**63}) & {2**64 - 1}) - {2**63}"
        each = f"for e, f, pair in zip(left, right, pairs){test} for ts in {moments}"
        return f"def made(left, right, pairs):\n    return [{plan.constructor('ts', identity, *self._stamp)} {each}]\n"

    def _take_back(self, results: list[Event]) -> list[Event]:
        """The results that were published; the others are still waiting, and are dropped."""
        published = []
        for result in results:
            if result.ts <= self._emitted:
                published.append(result)
            else:
                del self._waiting[result.ts][result.id]
        return published

    def _hold_back(self, results: list[Event]) -> list[Event]:
        """The results whose time has passed; the others wait."""
        emitted = self._emitted
        for result in results:
            if result.ts > emitted:
                waiting = self._waiting.get(result.ts)
                if waiting is None:
                    waiting = self._waiting[result.ts] = {}
                    heappush(self._heap, result.ts)
                waiting[result.id] = result
        return [result for result in results if result.ts <= emitted]

    def _due(self) -> list[Event]:
        due: list[Event] = []
        while self._heap and self._heap[0] <= self._emitted:
            due += self._waiting.pop(heappop(self._heap)).values()
        return due

    def snapshot(self) -> Snapshot:
        waiting = Later(packed, [result for results in self._waiting.values() for result in results.values()])
        return super().snapshot(), waiting

    def restore(self, state: Snapshot) -> None:
        shared, waiting = state
        super().restore(shared)
        self._waiting, self._heap = {}, []
        assert not self._hold_back(unpacker(self.plan.target.event_type)(waiting)), "a result waits that is due"


FACTORS = (0x9E3779B97F4A7C15, 0xE7037ED1A0B428DB, 0x165667B19E3779F9)
"""The factors of left ids, right ids and moments in the identity of a pair.

The rest of it is a hash of each source. For two pairs of the same sources to have one identity, their differences would have to
be a vector of the lattice of these constants, whose shortest vector is longer than 2^31 (a test reduces it). So ids that are
sequence numbers never collide, and hashes collide as hashes do.
"""


def _entering(side: Side, variable: str) -> str:
    """Code for the tuples that join at all (NULL and NaN equal nothing), and their keys: a value, or a tuple of several."""
    tests = [f"({side.before.holds})"] if side.before is not None else []
    tests += [f"({code.value}) is not None" for code in side.keys if code.nullable]
    tests += [f"({code.value}) == ({code.value})" for code in side.keys if code.type in REALS]
    code = key_code(side.keys)
    key = code[1:-2] if len(side.keys) == 1 else code
    some = f"    events = [{variable} for {variable} in events if {' and '.join(tests)}]\n" if tests else ""
    return f"def made(events):\n{some}    return [{key} for {variable} in events], events\n"


def _plain(content: list[tuple[Key, list[Event]]]) -> Iterator[tuple[Key, list[tuple[Value, ...]]]]:
    return ((key, packed(events)) for key, events in content)
