"""The content of a class must not change: its attributes, and the defaults of its methods' arguments, which all instances
share.

No snapshot holds them, and every key sees them. Tables there are common and cost nothing; a change to them is found by
comparison (``Constants``), and is an error.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from middleware.model.errors import ENDING, DetectorError

_WHOLE = (int, float, str, bool, bytes, type(None), complex, type, types.FunctionType, types.ModuleType)
_all_whole = frozenset(_WHOLE).issuperset


def picture(value: object) -> object:
    """A picture of a value, taken apart as deep as ``copy.deepcopy`` goes: it compares equal while nothing in it has changed.

    A value that cannot be taken apart (a lock, say) stands for itself, and so do functions, classes and modules. O(size).
    """
    try:
        return _picture(value, {})
    except RecursionError:
        return id(value)


def _picture(value: Any, met: dict[int, object]) -> object:
    kind = type(value)
    if isinstance(value, _WHOLE):
        return value
    if id(value) in met:
        return "met before"
    if kind is dict:
        return kind, _pictures(value, value, met), _pictures(value, value.values(), met)
    if kind in (list, tuple):
        return kind, _pictures(value, value, met)
    if kind in (set, frozenset):
        return kind, value.copy()  # what can be in it does not change
    reduced = reduction(value)
    if isinstance(reduced, str):
        return id(value)
    met[id(value)] = value
    make, *parts = reduced
    return kind, make, *(_pictures(value, part, met) if isinstance(part, Iterator) else _picture(part, met) for part in parts)


def _pictures(owner: object, values: Iterable[object], met: dict[int, object]) -> list[object]:
    """The pictures of what ``owner`` holds."""
    values = list(values)
    if _all_whole(map(type, values)):
        return values
    met[id(owner)] = owner  # kept, so that nothing else gets its id
    return [_picture(value, met) for value in values]


def reduction(value: object) -> Any:
    """The parts into which ``copy`` and ``pickle`` take a value; a text if there are none, or its name is enough."""
    try:
        return value.__reduce_ex__(4)
    except ENDING:
        raise
    except BaseException:
        return ""


Name = tuple[type, str]
"""Where a value is held: the class, and its attribute or the argument of its method."""


def held_by(kind: type, base: type) -> dict[Name, object]:
    """The values a class and its bases, up to ``base``, hold besides code: attributes and defaults of arguments."""
    held: dict[Name, object] = {}
    for owner in kind.__mro__:
        if issubclass(base, owner):
            continue
        for name, value in vars(owner).items():
            function = code_in(value)
            if function is not None:
                held |= {(owner, f"{name}{within}"): default for within, default in _defaults(function).items()}
            elif not (name.startswith("__") and name.endswith("__")):
                held[owner, name] = value
    return held


def spoken(name: Name) -> str:
    """A name as people write it: ``Class.attribute``."""
    return f"{name[0].__name__}.{name[1]}"


def code_in(value: object) -> types.FunctionType | None:
    """The function behind an attribute of a class, if it is one."""
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return function if isinstance(function, types.FunctionType) else None


def _defaults(function: types.FunctionType) -> dict[str, object]:
    code = function.__code__
    positional = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(positional) : code.co_argcount]
    defaults = dict(zip(names, positional, strict=True)) | (function.__kwdefaults__ or {})
    held = {f"({argument}=...)": value for argument, value in defaults.items()}
    return held | {f".{attribute}": value for attribute, value in vars(function).items()}


_MISSING = object()
_K = TypeVar("_K")


def differing(before: dict[_K, object], after: dict[_K, object]) -> list[_K]:
    """The names under which two sets of pictures differ, or which only one of them has."""
    return [name for name in before | after if not _same(before.get(name, _MISSING), after.get(name, _MISSING))]


def _same(one: object, other: object) -> bool:
    try:
        are_nans = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
        return one is other or are_nans or bool(one == other)
    except ENDING:
        raise
    except BaseException:  # what cannot be compared
        return False


class Constants:
    """The values that a detector's class holds, and its instances for good, as they were when this was made."""

    def __init__(self, kind: type, base: type, unchanging: Mapping[str, object]) -> None:
        self._kind = kind
        self._base = base
        self._unchanging: dict[Name, object] = {(kind, name): value for name, value in unchanging.items()}
        self._were = self._pictures()

    def changing(self) -> list[str]:
        """The names of values that change with every use, in a way no picture shows: generators, running hashes."""
        held = held_by(self._kind, self._base) | self._unchanging
        moving = [name for name, value in held.items() if isinstance(value, Iterator) or hasattr(value, "hexdigest")]
        return [spoken(name) for name in moving if isinstance(reduction(held[name]), str)]

    def _pictures(self) -> dict[Name, object]:
        held = held_by(self._kind, self._base) | self._unchanging
        return {name: picture(value) for name, value in held.items()}

    def changed(self) -> list[str]:
        """The names of the values that have changed. O(size of what the class holds)."""
        return list(map(spoken, differing(self._were, self._pictures())))

    def check(self, detector: str) -> None:
        """Raise DetectorError if something has changed."""
        if changed := self.changed():
            raise DetectorError(
                f"{detector} changes what all its instances share: {', '.join(changed)}. No snapshot holds that, and every "
                "key sees it, so results would be wrong: make it in __init__ (self.name = ...); tables that stay as they "
                "are may be where they are"
            )
