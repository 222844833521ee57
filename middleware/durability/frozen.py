"""State as bytes: pickles in which events go by the name of their type, as on the wire.

So a checkpoint can be read by a process whose classes are other objects of the same name. Checkpoints come from the
node's own state folder: they are as trusted as its code.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from types import FunctionType
from typing import Any

import cloudpickle
from msgspec.structs import astuple

from middleware.errors import StateError
from middleware.event import Event, EventType, EventTypes, type_name


def encode_state(state: Any, types: EventTypes) -> bytes:
    """The bytes of a state. Raises StateError if something in it cannot be pickled. O(size)."""
    data = BytesIO()
    try:
        _Pickler(data, types).dump(state)
    except Exception as error:
        raise StateError(
            f"the state cannot be written down: {error}; a detector that holds such things needs snapshot()"
        ) from error
    return data.getvalue()


def decode_state(data: bytes, types: EventTypes) -> Any:
    """The state that ``encode_state`` was given. Raises StateError if code that it needs is not there any more. O(size)."""
    try:
        return _Unpickler(BytesIO(data), types).load()
    except Exception as error:
        raise StateError(f"the state cannot be read: {error}; was a class moved, renamed or taken away since?") from error


def _event(event_type: EventType, *values: Any) -> Event:
    """An event from the values of all its fields, of which the last four are Event's own."""
    ts, number, source, level = values[-4:]
    try:
        return event_type(*values[:-4], ts=ts, id=number, source=source, level=level)
    except TypeError:  # fields by keyword only
        return event_type(**dict(zip(event_type.__struct_fields__, values, strict=True)))


def _named_type(name: str) -> EventType:
    raise StateError(f"{name} is for a codec to look up")  # the unpickler puts its registry in the place of this function


_BY_VALUE = (type, FunctionType)
"""What cloudpickle writes down by value where it cannot be imported."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: BytesIO, types: EventTypes) -> None:
        self.dispatch_table = dict(cloudpickle.Pickler.dispatch_table)  # its own is a chain of them in Python: slow
        super().__init__(file, protocol=5)  # which takes the table, so that comes first
        self._types = types

    def reducer_override(self, item: Any) -> Any:
        """Called for all but the plainest things, so the commonest come first."""
        kind = item.__class__
        if issubclass(kind, Event):
            return _event, (kind, *astuple(item))
        if not issubclass(kind, _BY_VALUE):
            return NotImplemented
        if isinstance(item, type) and issubclass(item, Event):
            name = type_name(item)
            if name in self._types and self._types[name] is item:
                return _named_type, (name,)
        return super().reducer_override(item)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, types: EventTypes) -> None:
        super().__init__(file)
        self._types = types

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == "_named_type":
            return self._types.__getitem__
        return super().find_class(module, name)
