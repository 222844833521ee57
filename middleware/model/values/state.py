"""Copying and comparing detector state: cheap for plain values, pickled otherwise.

Two states count as the same only if no detector could tell them apart: equal values of equal types, dicts in the same
order. Plain ``==`` would take 1 for True and {1: a, 2: b} for {2: b, 1: a}, and a replay that stopped on such a match
could publish a wrong result.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from functools import cache
from io import BytesIO
from types import FunctionType
from typing import Any, NamedTuple
from uuid import UUID

import cloudpickle
import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields

from middleware.model.errors import ENDING
from middleware.model.event import Event, EventType, Int64, Timestamp
from middleware.model.values.attributes import Attributes
from middleware.model.values.user_code import Code

_ATOMS = frozenset({int, float, str, bool, bytes, type(None), complex, date, timedelta, UUID})
_all_atoms = _ATOMS.issuperset
_CODE = "*"


class StatePickle:
    """A state that is not plain, kept as its pickle. References to its owner (a bound method has one) are restored.

    ``code``: the classes and functions that the pickle refers to by number. So a copy has the very same ones, also where a
    cell of a notebook defined another class of that name since; a checkpoint stores them as it stores all others.
    """

    __slots__ = ("code", "data")

    def __init__(self, value: object, owner: object = None) -> None:
        data = BytesIO()
        pickler = _Pickler(data, owner)
        pickler.dump(value)
        self.data, self.code = data.getvalue(), tuple(pickler.code)

    def value(self, owner: object = None) -> Any:
        """The state anew, for ``owner``."""
        return _Unpickler(self, owner).load()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatePickle) and self.data == other.data and self.code == other.code

    def __hash__(self) -> int:
        return hash(self.data)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: BytesIO, owner: object) -> None:
        super().__init__(file)
        self._owner = owner
        self.code: dict[Code, int] = {}

    def persistent_id(self, item: object) -> str | None:
        if type(item) is object and (place := _sentinel(item, self._owner)):
            return place
        if isinstance(item, type) or (type(item) is FunctionType and "<" not in item.__qualname__):  # one of its module's
            return f"{_CODE}:{self.code.setdefault(item, len(self.code))}"
        return "owner" if item is self._owner and item is not None else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: StatePickle, owner: object) -> None:
        super().__init__(BytesIO(pickled.data))
        self._owner, self._code = owner, pickled.code

    def persistent_load(self, name: str) -> Any:
        if name == "owner":
            return self._owner
        where, _, called = name.partition(":")
        if where == _CODE:
            return self._code[int(called)]
        if where.isdigit():
            return vars(type(self._owner).__mro__[int(where)])[called]
        return getattr(sys.modules[where], called)


def _sentinel(item: object, owner: object) -> str:
    """Where a detector, its bases or their modules have an object that only stands for itself: as "module:name", or with the
    place of a class among the bases for the module; empty if they do not."""
    for place, kind in enumerate(type(owner).__mro__[:-1]):
        module = sys.modules.get(kind.__module__)
        for where, names in ((str(place), vars(kind)), (kind.__module__, vars(module) if module is not None else {})):
            if (found := next((name for name, value in names.items() if value is item), None)) is not None:
                return f"{where}:{found}"
    return ""


class ArrayBytes(NamedTuple):
    """An array of numbers that owns its memory, as bytes: they compare as fast as they are copied, and bit by bit."""

    kind: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: Any) -> ArrayBytes:
        """Raises _NotPlainError for what shares its memory, is not as new arrays are, or holds objects or records."""
        is_usual = array.base is None and array.flags.c_contiguous and array.flags.writeable
        if not is_usual or array.dtype.kind not in "biufc":
            raise _NotPlainError
        return cls(array.dtype.str, array.shape, array.tobytes())

    def array(self) -> Any:
        """The array anew."""
        import numpy as np

        return np.ndarray(self.shape, self.kind, self.data).copy()


class _NotPlainError(Exception):
    """The state holds something that is no plain value, or one mutable value in two places."""


def copy_state(state: Attributes, owner: object = None) -> Attributes | StatePickle:
    """A copy of the attributes of ``owner`` that shares nothing mutable with it. O(size of the state).

    A state that is not plain is pickled as a whole, so that what is one object in it stays one object.
    """
    if _all_atoms(map(type, state.values())):
        return state.copy()
    met: set[int] = set()
    try:
        return {name: _frozen(value, met) for name, value in state.items()}
    except _NotPlainError:
        return StatePickle(state, owner)


def restored_state(copy: Attributes | StatePickle, owner: object = None) -> Attributes:
    """Attributes for ``owner`` made from a copy, which can be restored again. O(size of the state)."""
    if isinstance(copy, StatePickle):
        return copy.value(owner)  # type: ignore[no-any-return]
    if _all_atoms(map(type, copy.values())):
        return copy.copy()
    return {name: _thawed(value) for name, value in copy.items()}


def _frozen(value: Any, met: set[int]) -> Any:
    """A copy of a plain value. ``met`` are the ids of the mutable ones copied so far: each may stand in one place only."""
    kind = type(value)
    if kind in _ATOMS or isinstance(value, Event | Enum):
        return value
    if kind is tuple:
        return value if _all_atoms(map(type, value)) else tuple([_frozen(item, met) for item in value])
    if kind is frozenset and _all_atoms(map(type, value)):
        return value
    if id(value) in met:
        raise _NotPlainError
    met.add(id(value))
    if kind is list:
        return value.copy() if _all_atoms(map(type, value)) else [_frozen(item, met) for item in value]
    if kind is deque:
        return deque([_frozen(item, met) for item in value], value.maxlen)
    if kind is dict:
        if _all_atoms(map(type, value.values())) and _all_atoms(map(type, value)):
            return value.copy()
        return {_frozen(key, met): _frozen(item, met) for key, item in value.items()}
    if kind is set and _all_atoms(map(type, value)):
        return value.copy()
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":  # numpy is not loaded for its sake
        return ArrayBytes.of(value)
    raise _NotPlainError


def _thawed(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return value.copy() if _all_atoms(map(type, value)) else [_thawed(item) for item in value]
    if kind is deque:
        return deque((_thawed(item) for item in value), value.maxlen)
    if kind is dict:
        return {_thawed(key): _thawed(item) for key, item in value.items()}
    if kind is tuple:
        return value if _all_atoms(map(type, value)) else tuple(_thawed(item) for item in value)
    if kind is set:
        return value.copy()
    if kind is ArrayBytes:
        return value.array()
    return value


def same_state(one: object, other: object) -> bool:
    """Whether no detector could tell the two states apart. False is always safe (it costs a replay), True never is."""
    if one is other:
        return True
    try:
        if one != other:
            return False
    except ENDING:
        raise
    except BaseException:
        return False
    return exactly(one, other)


def exactly(one: Any, other: Any) -> bool:
    """Whether two values that are ``==`` agree in types, signs of zero and order all the way down. Events: in their content."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return one != 0 or math.copysign(1.0, one) == math.copysign(1.0, other)
    if kind is complex:
        return exactly(one.real, other.real) and exactly(one.imag, other.imag)
    if kind in _ATOMS:
        return True
    if kind is dict:
        return _in_order(one, other) and all(map(exactly, one.values(), other.values()))
    if kind in (list, tuple, deque):
        return all(map(exactly, one, other)) and (kind is not deque or one.maxlen == other.maxlen)
    if kind in (set, frozenset):
        return _in_order(one, other)
    if isinstance(one, Event):
        return all(map(exactly, astuple(one)[:-4], astuple(other)[:-4]))
    return _exactly_made(one, other)


_SCALARS = (int, float, str, bool, bytes, Timestamp, Int64)


@cache
def _has_scalars_only(event_type: EventType) -> bool:
    return all(field.type in _SCALARS for field in fields(event_type))


def same_event(was: Event, now: Event) -> bool:
    """Whether no one could tell two events of one type apart; False is always safe.

    Scalars that are ``==`` can differ only in the sign of 0. NaN is unlike itself: then the same bytes are the same.
    """
    if not _equal(was, now):
        try:
            return msgspec.msgpack.encode(was) == msgspec.msgpack.encode(now)
        except (TypeError, ValueError, OverflowError):  # values that could not be sent either
            return False
    return (_has_scalars_only(was.__class__) and 0.0 not in astuple(was)) or exactly(was, now)


def _equal(one: Event, other: Event) -> bool:
    """Whether two events are equal; False where the comparison gives no truth value, as for arrays."""
    try:
        return bool(one == other)
    except ENDING:
        raise
    except BaseException:
        return False


def same_events(some: Sequence[Event], others: Sequence[Event]) -> bool:
    """Whether these are the same events in the same order; NaN is the same as NaN. O(events)."""
    return some == others or (len(some) == len(others) and all(map(alike, some, others)))


def alike(one: Event | None, other: Event | None) -> bool:
    """Whether two events are equal, or the same but for NaN, which is unlike itself."""
    if one is None or other is None:
        return one is other
    return type(one) is type(other) and (_equal(one, other) or same_event(one, other))


def _exactly_made(one: Any, other: Any) -> bool:
    """Whether two values of one compound type are alike; False for types that may hold something unknown."""
    if isinstance(one, Enum):
        return one is other
    if isinstance(one, datetime | time):
        return _same_zone(one.tzinfo, other.tzinfo) and one.fold == other.fold
    if isinstance(one, Decimal):
        return bool(one.as_tuple() == other.as_tuple())
    if isinstance(one, Struct):
        return all(map(exactly, astuple(one), astuple(other)))
    if isinstance(one, tuple) and not hasattr(one, "__dict__"):  # a NamedTuple
        return all(map(exactly, one, other))
    if is_dataclass(one):
        return _same_fields(one, other)
    return isinstance(one, StatePickle | bytearray)


def _same_zone(one: tzinfo | None, other: tzinfo | None) -> bool:
    """Whether times in both zones say the same; false for zones of kinds that are not known, unless they are one."""
    if one is other:
        return True
    is_fixed = type(one) is timezone and type(other) is timezone
    return is_fixed and one == other and str(one) == str(other)


def _same_fields(one: Any, other: Any) -> bool:
    """Whether two dataclasses of one type are alike; False if they hold more than their fields. Not all fields count for
    ``==``."""
    names = [field.name for field in dataclass_fields(one)]
    if any(vars(each).keys() != set(names) for each in (one, other) if hasattr(each, "__dict__")):
        return False
    return all(same_state(getattr(one, name, None), getattr(other, name, None)) for name in names)


def _in_order(one: Any, other: Any) -> bool:
    """Whether two collections that are ``==`` also give the same items in the same order when gone through."""
    return all(a == b and exactly(a, b) for a, b in zip(one, other, strict=True))
