"""The checked plan of windows: kinds, keys, aggregates, results. The code that runs windows gets it; ``Windows`` is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
import msgspec.structs

from detectors.outcomes import beyond, event_of, misfit
from detectors.window.aggregation.aggregates import Aggregate, Field, aggregate_of
from detectors.window.aggregation.monoid import Monoid
from detectors.window.kinds import WindowKind
from middleware.model.errors import WindowError
from middleware.model.event import Event, EventType, Key, Value, converted, field_names, type_name
from middleware.model.identity import canonical
from middleware.model.operator import Operator, described
from middleware.model.schema import hints_of

EMITS = ("close", "change", "final")
_STAMPS = ("ts", "id", "source", "level")


class WindowsPlan(Operator):
    """The operator without the code that runs it; see ``Windows``."""

    key: ClassVar[None] = None

    def __init__(
        self,
        reads: EventType | tuple[EventType, ...],
        over: WindowKind[Any],
        values: Mapping[str, Aggregate | Monoid | tuple[Monoid, Field]],
        *,
        key: str | tuple[str, ...] | None = None,
        result: EventType | None = None,
        emit: str = "close",
        name: str = "",
    ) -> None:
        reads = reads if isinstance(reads, tuple) else (reads,)
        if emit not in EMITS:
            raise WindowError(f"emit must be one of {', '.join(EMITS)}, not {emit!r}")
        if not isinstance(over, WindowKind):
            raise WindowError(f"{over!r} is no kind of windows: give Tumbling(...), Hopping(...), Session(...) or another")
        self.over = over
        self.emit = emit
        self.key_fields = (key,) if isinstance(key, str) else () if key is None else key
        if not (isinstance(self.key_fields, tuple) and all(isinstance(field, str) for field in self.key_fields)):
            raise WindowError(f'key names fields of the events: "sensor", ("room", "sensor") or None, not {key!r}')
        self.partition_key = self.key_fields
        self.aggregates = {field: aggregate_of(given, reads) for field, given in values.items()}
        self.has_misfits = False
        """Whether the result type has not taken some result yet: then all are looked at."""
        self.may_overflow = tuple(field for field, aggregate in self.aggregates.items() if aggregate.may_overflow)
        for event_type in reads:
            for field in self.key_fields:
                if field not in event_type.__struct_fields__:
                    raise WindowError(f"{type_name(event_type)} has no field {field!r}, which the windows are to be keyed by")
        names = [*self.key_fields, "start", "end", *self.aggregates]
        if taken := sorted({*_STAMPS}.intersection(names) | {name for name in names if names.count(name) > 1}):
            raise WindowError(f"results have {', '.join(taken)} already: give keys and values other names")
        self.result = result or self._made(reads)
        self._results: type[list[Event]] = list[self.result]  # type: ignore[name-defined]
        self._types = {field.name: field.type for field in msgspec.structs.fields(self.result)}
        self.subscribes = reads
        self.publishes = (self.result,)
        self.name = name or f"{self.result.__name__}s"
        made_of = {
            field: (each.monoid.name, each.field, each.kind) if each.kind else (each.monoid.name, each.field)
            for field, each in self.aggregates.items()
        }
        self.definition = described(over, emit, self.key_fields, made_of)
        self._check_result()

    def key_of(self) -> Callable[[Event], Key]:
        """The key of an event: a value, a tuple of several, or () without a key."""
        return attrgetter(*self.key_fields) if self.key_fields else lambda event: ()

    def shown(self, key: Value, known: Value) -> tuple[Value, ...]:
        """The key's fields in results, for a key and its canonical form (``identity.canonical``).

        All equal keys give the same fields, so results never show which of them came first: the key in the result's types, else
        (truth values, enums) as it is. Raises WindowError if the types do not take it.
        """
        pairs = [(key, known)] if len(self.key_fields) == 1 else zip(key, known, strict=True)
        return tuple([self._shown(field, *pair) for field, pair in zip(self.key_fields, pairs, strict=True)])

    def _shown(self, field: str, value: Value, known: Value) -> Value:
        for form, strict in ((known, True), (_one_form(value), True), (value, True), (known, False)):
            with suppress(Exception):  # a type may raise anything for a foreign value
                kind = self._types[field]
                found = converted(form, kind) if strict else msgspec.convert(form, kind, strict=False)
                if found == value:
                    return found
        raise WindowError(f"{type_name(self.result)}.{field} does not take {value!r}, by which the windows are to be keyed")

    def layout(self) -> list[int]:
        """For each field of a result: its place in (key fields, start, end, values, ts, id, source, level)."""
        names = [*self.key_fields, "start", "end", *self.aggregates, *_STAMPS]
        return [names.index(field) for field in self.result.__struct_fields__]

    def events(self, rows: list[tuple[Value, ...]]) -> list[Event]:
        """Results from the values of their fields. One that the result type does not take is made unchecked: ask ``wrong``."""
        try:
            made: list[Event] = converted(rows, self._results)
        except msgspec.ValidationError:
            self.has_misfits = True
            return [event_of(self.result, row) for row in rows]
        return made

    def wrong(self, event: Event) -> str | None:
        """What is wrong with a result: a number beyond 64 bits, or what its type does not take; None for any other."""
        found = beyond(event, self.may_overflow)
        return misfit(event, "was aggregated") if found is None and self.has_misfits else found

    def _made(self, reads: tuple[EventType, ...]) -> EventType:
        """A result type: the key's fields have the types of the events read, the others those that the aggregates give."""
        read = reads[0]
        hints = [hints_of(each) for each in reads]
        kinds = {field: [own.get(field, Any) for own in hints] for field in self.key_fields}
        fields: list[tuple[str, Any]] = [
            (field, found[0] if all(each == found[0] for each in found) else Any) for field, found in kinds.items()
        ]
        fields += [("start", int), ("end", int), *((field, each.gives) for field, each in self.aggregates.items())]
        try:
            made: Any = msgspec.defstruct(
                f"{read.__name__}Window",
                fields,
                bases=(Event,),
                namespace={"namespace": read.namespace},
                module="detectors.window.windows",
                frozen=True,
            )
            return made  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            raise WindowError(f"no result type can be made of the fields {[name for name, _ in fields]}: {error}") from None

    def _check_result(self) -> None:
        wanted = [*self.key_fields, "start", "end", *self.aggregates]
        if sorted(wanted) != sorted(field_names(self.result)):
            raise WindowError(
                f"{type_name(self.result)} must have just the fields {', '.join(wanted)} (key, window, values), "
                f"but has {', '.join(field_names(self.result))}"
            )


def _one_form(value: Value) -> Value:
    """A key in the form that all equal ones have, whatever was put into a set first."""
    if isinstance(value, frozenset | tuple):
        kind = frozenset if isinstance(value, frozenset) else tuple
        return kind(map(_one_form, value))
    known = canonical(value)
    return known if known == value else value
