"""The attributes of an instance: its ``__dict__``, the slots of its whole MRO, or the result of its ``__getstate__``.

An instance is saved as ``copy`` and ``pickle`` would save it, as a dict by name that ``state`` can copy, without the attributes
that its class names as ``unchanging``.
"""

from __future__ import annotations

from functools import cache
from types import MemberDescriptorType
from typing import Any

Attributes = dict[str, Any]
"""The saved attributes of an instance, by name."""

_GIVEN = "__getstate__"
"""The name for the result of an instance's own ``__getstate__``, which need not be attributes."""


@cache
def slots(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and of all its bases, private ones as Python mangles them."""
    owners = [owner for owner in kind.__mro__ if "__slots__" in vars(owner)]
    members = (name for owner in owners for name, value in vars(owner).items() if type(value) is MemberDescriptorType)
    return tuple(dict.fromkeys(members))


@cache
def unchanging(kind: type) -> tuple[str, ...]:
    """The names of the attributes that are not part of the state: they stay as the instance was made."""
    return tuple(getattr(kind, "unchanging", ()))


@cache
def _saved_slots(kind: type) -> tuple[str, ...]:
    return tuple(name for name in slots(kind) if name not in unchanging(kind))


@cache
def gives_state(kind: type) -> bool:
    """Whether a class defines its state itself, with ``__getstate__`` or ``__setstate__``."""
    return any(name in vars(owner) for owner in kind.__mro__[:-1] for name in (_GIVEN, "__setstate__"))


@cache
def has_dict_only(kind: type) -> bool:
    """Whether the ``__dict__`` of an instance of this class is all there is to save."""
    return not _saved_slots(kind) and not gives_state(kind) and set(unchanging(kind)) <= set(slots(kind))


def attributes(instance: object) -> Attributes:
    """All that is to be saved of an instance, by name. Shares the instance's values, and may be its own ``__dict__``."""
    kind: type = type(instance)
    own: Attributes = vars(instance)
    if has_dict_only(kind):
        return own
    if gives_state(kind):
        return {_GIVEN: instance.__getstate__()}
    fixed = unchanging(kind)
    return {name: value for name, value in own.items() if name not in fixed} | _filled_slots(instance)


def set_attributes(instance: object, values: Attributes) -> None:
    """Replace the attributes of an instance by ``values``, as ``attributes`` returns them; the unchanging ones stay."""
    kind: type = type(instance)
    own, fixed = vars(instance), unchanging(kind)
    for name in [name for name in own if name not in fixed]:
        del own[name]
    for name in _filled_slots(instance):
        object.__delattr__(instance, name)
    if _GIVEN not in values:
        _add(instance, values)
    elif (given := values[_GIVEN]) is not None:
        _set_given(instance, given)


def given(values: Attributes) -> Any:
    """The state as users know it: the result of their ``__getstate__``, else the attributes by name."""
    return values.get(_GIVEN, values)


def as_given(kind: type, state: object) -> Any:
    """The reverse of ``given``, for a class."""
    return {_GIVEN: state} if gives_state(kind) else state


def _set_given(instance: object, state: object) -> None:
    """Restore a ``__getstate__`` result as ``copy`` and ``pickle`` do: by ``__setstate__``, or as attributes, then slots."""
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    for part in state if isinstance(state, tuple) else (state,):
        _add(instance, part or {})


def _add(instance: object, values: Attributes) -> None:
    kind: type = type(instance)
    in_slots, fixed = slots(kind), unchanging(kind)
    for name, value in values.items():
        if name in fixed:  # it was part of the state when that was stored, by former code: the instance has the value of now
            continue
        if name in in_slots:
            object.__setattr__(instance, name, value)
        else:
            vars(instance)[name] = value


def _filled_slots(instance: object) -> Attributes:
    kind: type = type(instance)
    filled = {}
    for name in _saved_slots(kind):
        try:
            filled[name] = object.__getattribute__(instance, name)
        except AttributeError:  # never set, or deleted: it stays unset
            continue
    return filled
