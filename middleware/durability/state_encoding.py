"""State as bytes: pickles in which events go by the name of their type, as on the wire.

So a process whose classes are other objects of the same name can read a checkpoint. A checkpoint begins with the fields of its
event types, because a pickle of events whose fields have changed may load wrongly, or not at all. Checkpoints come from the
node's own state folder: they are as trusted as its code.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from types import FunctionType
from typing import Any

import cloudpickle
import msgspec
from msgspec.structs import astuple

from middleware.model.detector import fields_of
from middleware.model.errors import ENDING, StateError
from middleware.model.event import Event, EventType, EventTypes, type_name
from middleware.model.later import Later
from middleware.model.values.user_code import found, reference

_LENGTH = 8


class WritingEnded(BaseException):
    """A file raises it to end the writing, as its result is not needed any more."""


_fields = msgspec.msgpack.Decoder(dict[str, str]).decode


def written_head(types: EventTypes, known: Mapping[str, str]) -> bytes:
    """The head of a checkpoint: the fields of all event types that the node knows or (``known``) knew."""
    head = msgspec.msgpack.encode({**known, **{name: fields_of(event_type) for name, event_type in types.items()}})
    return len(head).to_bytes(_LENGTH, "big") + head


def read_head(data: bytes) -> bytes:
    """The part behind the head."""
    return data[_LENGTH + int.from_bytes(data[:_LENGTH], "big") :]


def known_events(data: bytes, types: EventTypes) -> dict[str, str]:
    """The fields, by type, of all events that this checkpoint's log may hold. Raises StateError if they have changed."""
    try:
        known = _fields(memoryview(data)[_LENGTH:][: int.from_bytes(data[:_LENGTH], "big")])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(f"the checkpoint is none: {error}") from error
    now = {name: fields_of(types[name]) for name in known if name in types}
    if changed := [f"was {known[name]}, is {fields}" for name, fields in now.items() if fields != known[name]]:
        raise StateError(
            f"events have other fields than those that are stored: {'; '.join(changed)}; give changed events new names, or "
            "start the node in a new state folder, without what it knew"
        )
    return known


def encode_state(state: Any, types: EventTypes) -> bytes:
    """The bytes of a state. Raises StateError if something in it cannot be pickled. O(size)."""
    data = BytesIO()
    write_state(state, data, types)
    return data.getvalue()


def unsaved(state: Any, types: EventTypes) -> str | None:
    """Why the state of a unit cannot be pickled; None if it can. O(size)."""
    try:
        encode_state({"units": {"units": {"": state}}}, types)  # as deep as it stands in a checkpoint
    except StateError as error:
        return str(error)
    return None


def decode_state(data: bytes, types: EventTypes) -> Any:
    """The state that ``encode_state`` was given. Raises StateError if code that it needs is not there any more. O(size)."""
    return _loaded(BytesIO(data), types)


@contextmanager
def uncollected() -> Iterator[None]:
    """Run without garbage collections: all that is made here is kept, so looking through it again and again is wasted."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def write_state(state: Any, file: Any, types: EventTypes) -> None:
    """Write what ``encode_state`` gives to a file, 64 KiB at a time."""
    try:
        _Pickler(file, types).dump(state)
    except (*ENDING, WritingEnded):
        raise
    except BaseException as error:
        raise StateError(
            f"the state cannot be written down: {error}; a detector that holds such things needs snapshot()"
        ) from error


def _loaded(data: BytesIO, types: EventTypes) -> Any:
    try:
        return _Unpickler(data, types).load()
    except ENDING:
        raise
    except BaseException as error:
        raise StateError(
            f"the state cannot be read: {error}; if a class was moved, renamed or taken away since, put it back, or start the "
            "node with --rebuild to take the whole log again"
        ) from error


def _event(event_type: EventType, *values: Any) -> Event:
    """An event from the values of all its fields, of which the last four are Event's own."""
    if len(values) != len(event_type.__struct_fields__):  # of a type that only the detector knows
        names = ", ".join(event_type.__struct_fields__)
        raise StateError(f"{type_name(event_type)} was stored with {len(values)} fields, and has others now: {names}")
    ts, number, source, level = values[-4:]
    try:
        return event_type(*values[:-4], ts=ts, id=number, source=source, level=level)
    except TypeError:  # fields by keyword only
        return event_type(**dict(zip(event_type.__struct_fields__, values, strict=True)))


def _named_type(name: str) -> EventType:
    raise StateError(f"{name} is for a codec to look up")  # the unpickler replaces this function by its registry


_TOGETHER = 256
"""Items of a ``Later`` that are pickled together: a pickler keeps all it has written until it is done."""


class _Read(list[Any]):
    """The list that a ``Later`` becomes when it is read."""

    def __init__(self, types: EventTypes) -> None:
        super().__init__()
        self._types = types

    def extend(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            super().extend(decode_state(chunk, self._types))

    def append(self, chunk: bytes) -> None:
        self.extend([chunk])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled again, it is a list: the snapshot of an operation may hold what the operation was restored from."""
        return list, (), None, iter(self)


def _read() -> _Read:
    raise StateError("a list that was made later is for an unpickler to make")  # as above


def _written(items: Later, types: EventTypes) -> Iterator[bytes]:
    rest = iter(items)
    while together := list(islice(rest, _TOGETHER)):
        yield encode_state(together, types)


_BY_VALUE = (type, FunctionType)
"""Kinds of objects that cloudpickle writes down by value where they cannot be imported."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: Any, types: EventTypes) -> None:
        self.dispatch_table = dict(cloudpickle.Pickler.dispatch_table)  # its own is a chain of them in Python: slow
        super().__init__(file, protocol=5)  # it reads the table, so that is set first
        self._types = types

    def reducer_override(self, item: Any) -> Any:
        """Called for all but the plainest things, so the commonest come first."""
        kind = item.__class__
        if issubclass(kind, Event):
            return _event, (kind, *astuple(item))
        if kind is Later:
            return _read, (), None, _written(item, self._types)
        if not issubclass(kind, _BY_VALUE):
            return NotImplemented
        if isinstance(item, type) and issubclass(item, Event):
            name = type_name(item)
            if name in self._types and self._types[name] is item:
                return _named_type, (name,)
        if (by_name := reference(item)) is not None:
            return found, by_name
        return super().reducer_override(item)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, types: EventTypes) -> None:
        super().__init__(file)
        self._types = types

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == "_named_type":
            return self._types.__getitem__
        if module == __name__ and name == "_read":
            return lambda: _Read(self._types)
        return super().find_class(module, name)
