"""Windows in step with each other, over plain numbers, in the native core: the fast way to run what ``running`` runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from detectors.outcomes import does_not_fit, packed, unpacked, withheld
from detectors.window.kinds import Hopping
from middleware import native
from middleware.change import Delta
from middleware.event import END, IDENTITY, Event, stable_hash
from middleware.operator import Operation

if TYPE_CHECKING:
    from detectors.window.windows import Windows

_KNOWN = ("count", "sum", "mean", "min", "max", "range")
_MOST_STEPS = 32
"""A result is calculated from all a window holds: each event counts in so many of them. Beyond, a tree serves better."""

_LONGEST = 2**60
"""Durations below 36 years: sums of times then stay in 64 bits."""


def can_run(plan: Windows) -> bool:
    """Whether the native core can run these windows."""
    over = plan.over
    if not native.AVAILABLE or not isinstance(over, Hopping):
        return False
    if over.retention > _MOST_STEPS * over.every or max(over.retention, over.every, abs(over.offset)) > _LONGEST:
        return False
    return all(
        aggregate.monoid.native is not None
        and aggregate.monoid.name in _KNOWN
        and (aggregate.field is None if aggregate.monoid.name == "count" else isinstance(aggregate.field, str))
        for aggregate in plan.aggregates.values()
    )


class SteppedOperation(Operation):
    """Runs ``Windows`` for which ``can_run``. ``show``: how results show keys, if not as ``Windows.shown``.

    ``overflows``
        how many rows ``feed`` has left out, since a whole number in them is beyond 64 bits.
    """

    def __init__(self, plan: Windows, name: str, level: int, show: Callable[[Any, Any], tuple[Any, ...]] | None = None) -> None:
        super().__init__()
        self._plan, self._name, self._level = plan, name, level
        self._show = show or plan.shown
        self.overflows = 0
        self.columns: list[tuple[str, bool]] = []
        self._windows = self._new()

    def _new(self) -> native.KeyedWindows:
        plan, over = self._plan, self._plan.over
        assert isinstance(over, Hopping)
        columns = self.columns
        aggregates: list[tuple[str, int | None]] = []
        for aggregate in plan.aggregates.values():
            place = None
            if isinstance(aggregate.field, str) and aggregate.monoid.native:
                column = aggregate.field, aggregate.monoid.native[1] == "float"
                if column not in columns:
                    columns.append(column)
                place = columns.index(column)
            aggregates.append((aggregate.monoid.name, place))
        return native.KeyedWindows(
            sizes=list(over.sizes),
            every=over.every,
            offset=over.offset,
            key=list(plan.key_fields),
            columns=columns,
            aggregates=aggregates,
            layout=plan.layout(),
            source=self._name,
            level=self._level,
            seed=stable_hash(self._name),
            encode=msgspec.msgpack.Encoder().encode,
            show=self._show,
            at_once=plan.emit == "change",
        )

    @property
    def held(self) -> int:
        return self._windows.held

    @property
    def keys(self) -> int:
        return self._windows.keys

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        retracts = delta.retracts
        if self.failures:
            retracts = [event for event in retracts if self.failures.pop(IDENTITY(event), None) is None]
        upto = {"close": emitted, "final": final, "change": END}[self._plan.emit]
        inserted, old, new, withdrawn, is_beyond = self._windows.apply(delta.inserts, retracts, upto, final, self._failed)
        events = self._plan.events
        revised = list(zip(events(old), events(new), strict=True)) if old else []
        out = Delta(events(inserted), revised, events(withdrawn) if withdrawn else [])
        return withheld(self, out, self._plan.beyond) if is_beyond else out

    def feed(self, times: Any, keys: Any, columns: list[Any], upto: int, final: int) -> list[tuple[Any, ...]]:
        """Take columns of what comes, none of it at or before the ``final`` of the last call; rows of the windows that end."""
        rows, _, _, _, is_beyond = self._windows.feed(times, keys, columns, upto, final)
        if not is_beyond:
            return rows
        fit = [row for row in rows if not any(map(does_not_fit, row))]
        self.overflows += len(rows) - len(fit)
        return fit

    def _failed(self, event: Event, error: BaseException) -> None:
        self.fail(event, "".join(traceback.format_exception(error)))

    def snapshot(self) -> Any:
        return self._windows.snapshot(), packed(self.failures, self._plan.result)

    def restore(self, state: Any) -> None:
        content, failures = state
        self.failures = unpacked(failures, self._plan.result)
        self._windows = self._new()
        self._windows.restore(*content)
