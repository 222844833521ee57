"""Windows in step with each other, over plain numbers, in the native core: shared by ``Windows`` and queries."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from detectors.operator_columns import Given, ResultColumns, keys, plain_kinds
from detectors.outcomes import packed, unpacked
from detectors.window.kinds import Hopping
from middleware import native
from middleware.model.block.arrays import integers
from middleware.model.block.recipe import recipe
from middleware.model.change import Delta
from middleware.model.event import IDENTITY, Event, EventType, Key, Value, stable_hash
from middleware.model.identity import canonical
from middleware.model.operator import Operation, Snapshot
from middleware.model.schema import fields_of
from middleware.model.values.carried import holds_numbers

if TYPE_CHECKING:
    from middleware.model.block.block import Block
    from middleware.native._core import WindowChanges, WindowColumns

MOST_STEPS = 1_024
"""In how many windows an event may be. Each result is computed from all panes of its window; up to some thousands of panes that
is less work than a result from trees, which are run in Python (``slackline bench window-panes``)."""

_LONGEST = 2**60
"""Durations below 36 years: sums of times then stay in 64 bits."""

Column = tuple[str, bool]
"""A field, and whether it is a float to the native core."""

Row = tuple[Value, ...]


class ColumnPlaces(NamedTuple):
    """Places of columns: of the key, if it is one column of integers that are all there; of what is read."""

    key: int | None
    columns: list[int]


@dataclass(frozen=True)
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

    @cached_property
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
            canonical=canonical,
            show=self.show,
            at_once=self.at_once,
        )

    def suits(self, event_type: EventType) -> bool:
        """Whether columns of this type can be taken as they are: keys of exact plain types, numbers of the right kind."""
        kinds = plain_kinds(event_type)
        are_numbers = all(kinds[field] is int or (is_float and kinds[field] is float) for field, is_float in self.columns)
        return are_numbers and all(kinds[field] in (int, str, bool) for field in self.key)

    def places(self, event_type: EventType) -> ColumnPlaces:
        """Where the core finds what it reads in columns of a type that suits."""
        place = event_type.__struct_fields__.index
        is_whole = len(self.key) == 1 and fields_of(event_type)[self.key[0]] is int
        return ColumnPlaces(place(self.key[0]) if is_whole else None, [place(field) for field, _ in self.columns])

    def gives(self, result: EventType) -> bool:
        """Whether results can be columns: rows are results as they are, and each field is of the kind that its column has."""
        kinds, parts = list(plain_kinds(result).values()), self._parts()
        fitting: dict[type | None, tuple[type, ...]] = {int: (int, float), float: (float,), None: (int, str, bool)}
        own = self.layout[:-4]
        return len(own) == len(kinds) and all(kind in fitting[parts[place]] for kind, place in zip(kinds, own, strict=True))

    def widened(self, result: EventType) -> list[int]:
        """The fields of results, by number, that are floats where their column has integers."""
        parts, kinds = self._parts(), plain_kinds(result).values()
        return [
            at
            for at, (place, kind) in enumerate(zip(self.layout, kinds, strict=False))
            if parts[place] is int and kind is float
        ]

    def _parts(self) -> list[type | None]:
        """The kinds of what rows consist of; None for those of keys."""
        values = [int if name == "count" or column is None or not column[1] else float for name, column in self.aggregates]
        return [*([None] * len(self.key)), int, int, *values]


def is_in_step(over: Hopping) -> bool:
    """Whether these windows suit the core."""
    return over.retention <= MOST_STEPS * over.every and max(over.retention, over.every, abs(over.offset)) <= _LONGEST


class SteppedOperation(Operation):
    """Runs windows in the native core; a subclass makes events of its rows.

    ``made``
        the result type, which may have been made at run time; so failures with it are saved as plain values.
    ``result``
        the result type, if rows have its fields as they are: then the native core makes results where it can.
    ``is_whole``
        whether no value in rows is ever missing: then results of columns can be columns.
    """

    def __init__(
        self, steps: Steps, name: str, level: int, made: EventType, result: EventType | None, is_whole: bool = True
    ) -> None:
        super().__init__()
        self._steps, self._name, self._level, self._made_type, self._result = steps, name, level, made, result
        self._recipe = recipe(result) if result is not None else None
        # numbers in keys were checked when their events came in, and the core says which aggregates are beyond 64 bits
        self.is_carried = result is not None and holds_numbers(result)
        self._windows = self._start()
        self._as_columns = is_whole and result is not None and steps.gives(result)
        self._widened = steps.widened(result) if result is not None and self._as_columns else []
        self._places: dict[EventType, ColumnPlaces | None] = {}
        self._fed = False  # whether columns came last: then what ends as time passes is given as columns, too
        self._results: ResultColumns | None = None

    def _start(self) -> native.KeyedWindows:
        windows = self._steps.start(self._name, self._level)
        windows.make(self._recipe)
        return windows

    def _step(self, delta: Delta, upto: int, final: int) -> WindowChanges:
        """Rows or events inserted, revised (old and new) and withdrawn; whether they have a whole number beyond 64 bits; and
        new results as columns, where what came were columns and results can be.
        """
        retracts = delta.retracts
        if self.failures:
            retracts = [event for event in retracts if self.failures.pop(IDENTITY(event), None) is None]
        columns = delta.columns
        places = self._found(columns.event_type) if columns is not None else None
        if columns is not None:
            self._fed = places is not None
        elif delta.inserts:
            self._fed = False
        if not self._fed:
            return *self._windows.apply(delta.inserts, retracts, upto, final, self._failed), None
        if columns is None or places is None:
            return self._windows.feed(None, None, [], upto, final, retracts, self._as_columns)
        key = keys(columns, self._steps.key) if places.key is None else places.key
        return self._windows.feed(columns.in_core, key, places.columns, upto, final, retracts, self._as_columns)

    def takes(self, columns: Block) -> bool:
        return self._found(columns.event_type) is not None

    def _found(self, event_type: EventType) -> ColumnPlaces | None:
        """Where the core finds what it reads in columns of this type; None if it takes events."""
        if event_type not in self._places:
            self._places[event_type] = self._steps.places(event_type) if self._takes(event_type) else None
        return self._places[event_type]

    def _takes(self, event_type: EventType) -> bool:
        """Whether columns of this type can be taken as they are."""
        return self._steps.suits(event_type)

    def _columns_of(self, given: WindowColumns | None) -> Block | None:
        """New results as columns, from what the native core gives."""
        if given is None:
            return None
        if self._results is None:
            assert self._result is not None
            self._results = ResultColumns(self._result, self._name, self._level)
        key, starts, ends, values, ids = given
        parts: list[Given] = [*((field, None) for field in key), (starts, None), (ends, None), *values]
        columns = [parts[place] for place in self._steps.layout[:-4]]
        for place in self._widened:
            columns[place] = integers(columns[place][0]).astype(float), columns[place][1]
        return self._results.made(columns, integers(ends), ids, in_time=True)

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
