"""Windows in step with each other, over plain numbers, in the native core: shared by ``Windows`` and queries."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from detectors.outcomes import packed, unpacked
from detectors.window.kinds import Hopping
from middleware import native
from middleware.model.event import IDENTITY, Event, EventType, Key, Value, stable_hash
from middleware.model.making import recipe
from middleware.model.operator import Operation, Snapshot

MOST_STEPS = 1_024
"""In how many windows an event may be. Each result is computed from all panes of its window; up to some thousands of panes that
is less work than a result from trees, which are run in Python (``slackline bench window-panes``)."""

_LONGEST = 2**60
"""Durations below 36 years: sums of times then stay in 64 bits."""

Column = tuple[str, bool]
"""A field, and whether it is a float to the native core."""

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The description of windows for the native core.

    ``key``
        the fields by which they are keyed.
    ``aggregates``
        the core's name of each, and the column it reads.
    ``layout``
        for each field of a row: its place in (key fields, start, end, aggregates, ts, id, source, level).
    ``show``
        how rows show a key, given the key as it came and its canonical form, the same for all equal keys.
    ``at_once``
        whether rows are published before the window has ended.
    """

    over: Hopping
    key: list[str]
    aggregates: list[tuple[str, Column | None]]
    layout: list[int]
    show: Callable[[Key, Key], Row]
    at_once: bool = False

    @property
    def columns(self) -> list[Column]:
        """The columns that aggregates read, each once."""
        return list(dict.fromkeys(column for _, column in self.aggregates if column is not None))

    def start(self, source: str, level: int) -> native.KeyedWindows:
        """New windows; their rows are stamped with this source and level."""
        columns = self.columns
        return native.KeyedWindows(
            sizes=list(self.over.sizes),
            every=self.over.every,
            offset=self.over.offset,
            key=self.key,
            columns=columns,
            aggregates=[(name, None if column is None else columns.index(column)) for name, column in self.aggregates],
            layout=self.layout,
            source=source,
            level=level,
            seed=stable_hash(source),
            encode=msgspec.msgpack.Encoder().encode,
            show=self.show,
            at_once=self.at_once,
        )


def is_in_step(over: Hopping) -> bool:
    """Whether the native core is there and suits these windows."""
    if not native.AVAILABLE or over.retention > MOST_STEPS * over.every:
        return False
    return max(over.retention, over.every, abs(over.offset)) <= _LONGEST


class SteppedOperation(Operation):
    """Runs windows in the native core; a subclass makes events of its rows.

    ``made``
        the result type, which may have been made at run time; so failures with it are saved as plain values.
    ``result``
        the result type, if rows have its fields as they are: then the native core makes results where it can.
    """

    def __init__(self, steps: Steps, name: str, level: int, made: EventType, result: EventType | None) -> None:
        super().__init__()
        self._recipe = recipe(result) if result is not None else None
        self._steps, self._name, self._level, self._made_type = steps, name, level, made
        self._windows = self._start()

    def _start(self) -> native.KeyedWindows:
        windows = self._steps.start(self._name, self._level)
        windows.make(self._recipe)
        return windows

    def _step(
        self, inserts: list[Event], retracts: list[Event], upto: int, final: int
    ) -> tuple[list[Row], list[Row], list[Row], list[Row], bool]:
        """Rows or events inserted, revised (old and new) and withdrawn; and whether they have a whole number beyond 64 bits."""
        if self.failures:
            retracts = [event for event in retracts if self.failures.pop(IDENTITY(event), None) is None]
        return self._windows.apply(inserts, retracts, upto, final, self._failed)

    def _failed(self, event: Event, error: BaseException) -> None:
        self.fail(event, "".join(traceback.format_exception(error)))

    @property
    def held(self) -> int:
        return self._windows.held

    @property
    def keys(self) -> int:
        return self._windows.keys

    def snapshot(self) -> Snapshot:
        return self._windows.snapshot(), packed(self.failures, self._made_type)

    def restore(self, state: Snapshot) -> None:
        content, failures = state
        self.failures = unpacked(failures, self._made_type)
        self._windows = self._start()
        self._windows.restore(*content)
