"""The output of a stage as events: by key to the parts of the next stage, spread over parts, or to a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from detectors.flow.graphs.flow_stages import Outlet
from detectors.flow.operations.calls import CallFailures
from detectors.flow.operations.items import ABSENT, Change, Position, same
from detectors.flow.operations.sharding import part_of
from middleware.model.change import Delta
from middleware.model.errors import ENDING, DetectorError
from middleware.model.event import Event, EventType, Key, Value, converted, field_names, type_name
from middleware.model.operator import Origin

_REMEMBERED = 65_536
"""For how many texts a stage caches the part."""


class Output(ABC):
    """Turns changes of items into changes of events.

    ``types``
        the event types it publishes.
    ``outlet``
        identifies the changes that it publishes.
    """

    types: Sequence[EventType]
    outlet: Any

    def publish(self, changes: list[Change], origin: Origin, out: Delta, failures: CallFailures | None) -> None:
        """Add the changes of events for ``changes`` to ``out``. An item that cannot be sent is a failure."""
        if all(old is ABSENT for _, old, _ in changes):
            try:
                out.inserts.extend([self._made(position, new, origin) for position, _, new in changes])
                return
            except ENDING:
                raise
            except BaseException:  # then one by one, to find the culprit
                pass
        for position, old, new in changes:
            gone = self._event(position, old, origin, None) if old is not ABSENT else None
            if gone is not None or old is not ABSENT:
                self._forgive(position, failures)
            come = self._event(position, new, origin, failures) if new is not ABSENT else None
            if gone is None:
                if come is not None:
                    out.inserts.append(come)
            elif come is None:
                out.retracts.append(gone)
            elif gone.__class__ is come.__class__:
                if not same(gone, come):
                    out.revises.append((gone, come))
            else:
                out.retracts.append(gone)
                out.inserts.append(come)

    @property
    def _where(self) -> str:
        return f"{self.outlet.node.name} -> {self.outlet.to.name}"

    def _forgive(self, position: Position, failures: CallFailures | None) -> None:
        if failures is not None and failures.found:
            failures.found.pop((self._where, position), None)

    def _event(self, position: Position, value: Value, origin: Origin, failures: CallFailures | None) -> Event | None:
        try:
            return self._made(position, value, origin)
        except ENDING:
            raise
        except BaseException:
            if failures is not None:
                failures.raised(self._where, position)
            return None

    @abstractmethod
    def _made(self, position: Position, value: Value, origin: Origin) -> Event:
        """The event of a value at a position."""


class KeyedOutput(Output):
    """Sends items for a grouping to the part that has their key.

    Their positions end in ``part``, the part that they come from. When a revision moves an item's cause to another key, and so
    to another part, the item's successor may overtake its tombstone on the way here: these are two items and must not be
    confused.
    """

    def __init__(self, outlet: Outlet, types: list[EventType], parts: int, part: int) -> None:
        self.outlet, self.types, self._parts = outlet, types, parts
        self._from = (part,) if parts > 1 else ()
        assert outlet.to.function is not None
        self._key: Callable[[Value], Key] = outlet.to.fused.key if outlet.to.fused is not None else outlet.to.function
        self._value = outlet.node.gives
        self._to = outlet.to.name
        self._makers: list[Callable[..., Event]] = list(types)
        self._part: dict[str, int] = {}

    def _made(self, position: Position, value: Value, origin: Origin) -> Event:
        if self._value is not None:
            value = converted(value, self._value)  # another node could not read a value of another type
        key = self._key(value)
        part = self._part.get(key) if key.__class__ is str else None
        if part is None:
            part = self._learn(key)
        made: Event = self._makers[part](
            value,
            position[1:] + self._from,
            ts=position[0],
            id=origin.id(self._to, *position),
            source=origin.source,
            level=origin.level,
        )
        return made

    def _learn(self, key: Key) -> int:
        """The part of a key; the parts of texts are cached, up to a bound."""
        part = part_of(key, self._parts)
        if key.__class__ is str:
            if len(self._part) >= _REMEMBERED:
                self._part.clear()
            self._part[key] = part
        return part


class SpreadOutput(Output):
    """Sends each event of a source to some part, by its identity."""

    outlet = None
    _where = "spread"

    def __init__(self, types: list[EventType]) -> None:
        self.types = types

    def _made(self, position: Position, value: Value, origin: Origin) -> Event:
        part = part_of((value.source, value.id), len(self.types))
        number = origin.id("", *position)
        maker: Callable[..., Event] = self.types[part]
        made: Event = maker(value, position[1:], ts=position[0], id=number, source=origin.source, level=origin.level)
        return made


class SinkOutput(Output):
    """Publishes results: events of a type that the user declared."""

    def __init__(self, outlet: Outlet) -> None:
        event_type = outlet.to.event_type
        assert event_type is not None
        self.outlet, self.types = outlet, (event_type,)
        self._type = event_type
        self._names = field_names(event_type)
        self._cause = self._names.index("cause") if "cause" in self._names else None
        assert outlet.to.function is not None
        self._fields: Callable[[Value], Value] = outlet.to.function

    def _made(self, position: Position, value: Value, origin: Origin) -> Event:
        fields = list(self._fields(value))
        if self._cause is not None:
            fields.insert(self._cause, position[1:])
        if len(fields) != len(self._names):
            raise DetectorError(f"{type_name(self._type)} has the fields {', '.join(self._names)}, but was given {fields!r}")
        number = origin.id(self.outlet.to.name, self.outlet.node.name, *position)
        try:
            made: Event = converted([*fields, position[0], number, origin.source, origin.level], self._type)
        except msgspec.ValidationError as error:
            raise DetectorError(f"{type_name(self._type)}: {error} (fields: {', '.join(self._names)})") from None
        return made
