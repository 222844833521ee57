"""The attributes of an instance: in its ``__dict__``, in slots over the whole MRO, or what its ``__getstate__`` says they are.

What is saved of an instance is what ``copy`` and ``pickle`` would save, as a dict by name that ``state`` can copy; but for what
its class names as ``unchanging``.
"""

from __future__ import annotations

from functools import cache
from types import MemberDescriptorType
from typing import Any

Attributes = dict[str, Any]
"""What is saved of an instance, by name."""

_GIVEN = "__getstate__"
"""The name under which stands what an instance's own ``__getstate__`` gave: it need not be attributes."""


@cache
def slots(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and of all its bases, private ones as Python mangles them."""
    owners = [owner for owner in kind.__mro__ if "__slots__" in vars(owner)]
    members = (name for owner in owners for name, value in vars(owner).items() if type(value) is MemberDescriptorType)
    return tuple(dict.fromkeys(members))


@cache
def unchanging(kind: type) -> tuple[str, ...]:
    """The names of the attributes that are no part of the state: they are as the instance was made with."""
    return tuple(getattr(kind, "unchanging", ()))


@cache
def _saved_slots(kind: type) -> tuple[str, ...]:
    return tuple(name for name in slots(kind) if name not in unchanging(kind))


@cache
def gives_state(kind: type) -> bool:
    """Whether a class says itself what its state is, with ``__getstate__`` or ``__setstate__``."""
    return any(name in vars(owner) for owner in kind.__mro__[:-1] for name in (_GIVEN, "__setstate__"))


@cache
def has_dict_only(kind: type) -> bool:
    """Whether all there is to save of an instance of this class is its ``__dict__``."""
    return not _saved_slots(kind) and not gives_state(kind) and set(unchanging(kind)) <= set(slots(kind))


def attributes(instance: object) -> Attributes:
    """All that is to be saved of an instance, by name. Shares what it holds with it, and may be its very ``__dict__``."""
    kind: type = type(instance)
    own: Attributes = vars(instance)
    if has_dict_only(kind):
        return own
    if gives_state(kind):
        return {_GIVEN: instance.__getstate__()}
    fixed = unchanging(kind)
    return {name: value for name, value in own.items() if name not in fixed} | _filled_slots(instance)


def set_attributes(instance: object, values: Attributes) -> None:
    """Have an instance be made up of ``values``, as ``attributes`` gives them, and of what is unchanging."""
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
    """What people know as the state: what their ``__getstate__`` gave, else the attributes by name."""
    return values.get(_GIVEN, values)


def as_given(kind: type, state: object) -> Any:
    """The reverse of ``given``, for a class."""
    return {_GIVEN: state} if gives_state(kind) else state


def _set_given(instance: object, state: object) -> None:
    """As ``copy`` and ``pickle`` do with what ``__getstate__`` gave: ``__setstate__``, or attributes, and slots behind them."""
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
        return
    for part in state if isinstance(state, tuple) else (state,):
        _add(instance, part or {})


def _add(instance: object, values: Attributes) -> None:
    kind: type = type(instance)
    in_slots = slots(kind)
    for name, value in values.items():
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
        except AttributeError:  # never set, or deleted: it is to be so again
            continue
    return filled
