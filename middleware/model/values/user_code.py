"""Classes and functions of user code that pickle cannot import: those of a script, a notebook or a Spark job, and local ones.

Stored state refers to them by name and content. A copy of a class in the state would be another class after a restart: no
member of an enum and no instance in the state would be equal to those that the code of the new life makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import EnumMeta
from types import FunctionType
from typing import Any, TypeGuard
from weakref import WeakValueDictionary

from middleware.model.errors import StateError

Code = type | FunctionType

_MAIN = "__main__"
_PLAIN = (int, float, str, bool, bytes, type(None))
_known: WeakValueDictionary[str, Code] = WeakValueDictionary()


def is_code(item: object) -> TypeGuard[Code]:
    """Whether this is a class or a Python function."""
    return isinstance(item, type | FunctionType)


def is_importable(item: Code) -> bool:
    """Whether its module has it under its name."""
    return _at(item.__module__, item.__qualname__) is item


def _has_import(item: Code) -> bool:
    return item.__module__ == "builtins" or is_importable(item)


def know(items: Iterable[Code]) -> None:
    """From now on state refers to this code by name; of two items with one name, the last counts."""
    _known.update((_name(item), item) for item in items)


def know_local(kinds: Iterable[type]) -> None:
    """Know what these classes refer to that is local to a function: a later process that has them has that, too. O(code)."""
    rest, met = list[Any](kinds), set[int]()
    while rest:
        item = rest.pop()
        if id(item) in met:
            continue
        met.add(id(item))
        if not is_code(item):
            rest += [*getattr(item, "__args__", ()), getattr(item, "__func__", None)]  # of an annotation, or a class method
        elif item.__module__ == _MAIN or not _has_import(item):
            if not is_importable(item):
                know([item])
            rest += [*getattr(item, "__annotations__", {}).values(), *_parts(item)]


def _parts(item: Code) -> list[Any]:
    """The objects that a class or a function refers to, besides those of its module."""
    if isinstance(item, type):
        return [*item.__bases__, *vars(item).values()]
    return [content for cell in item.__closure__ or () if (content := _content(cell)) is not None]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a variable without a value yet
        return None


def reference(item: Code) -> tuple[str, tuple[str, ...]] | None:
    """Name and content by which ``found`` gives this item in any process that has the code; None where an import does.

    Raises StateError for a class that no other process can find. Functions of this kind go by value: this is None, too.
    """
    name = _name(item)
    is_script = item.__module__ == _MAIN and "<" not in item.__qualname__
    if isinstance(item, FunctionType):
        return (name, ()) if _known.get(name) is item or (is_script and _is_defined(item)) else None
    if is_script or _known.get(name) is item:
        return name, _contents(item)
    if _has_import(item):
        return None
    raise StateError(
        f"the class {name} is made inside a function, where no later process finds it: define it at the top of its module"
    )


def _is_defined(item: FunctionType) -> bool:
    """Whether the script has this function, or what its definition made when a cell of the notebook was run again."""
    now = _at(item.__module__, item.__qualname__)
    return isinstance(now, FunctionType) and now.__code__.co_name == item.__code__.co_name


def found(name: str, contents: tuple[str, ...]) -> Code:
    """The class or function with this name here. Raises StateError if there is none, or if its content has changed."""
    item = _known.get(name) or _at(*name.split(":"))
    if not is_code(item):
        raise StateError(f"{name} is not there any more: put it back, or start with a new checkpoint")
    if isinstance(item, type):
        now = _contents(item)
        # new members of an enum change nothing for those that are stored
        fits = set(contents) <= set(now) if isinstance(item, EnumMeta) else contents == now
        if not fits:
            raise StateError(
                f"{name} has changed since it was stored: had {', '.join(contents)}; has {', '.join(now)}; "
                "put back what it had, or give the changed class another name"
            )
    return item


def _contents(kind: type) -> tuple[str, ...]:
    """The fields or members of a class, as far as the class declares them."""
    if isinstance(kind, EnumMeta):
        members: dict[str, Any] = dict(kind.__members__)
        values = {name: member.value for name, member in members.items()}
        return tuple(f"{name}={value!r}" if isinstance(value, _PLAIN) else name for name, value in values.items())
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return tuple(getattr(kind, "__struct_fields__", getattr(kind, "_fields", ())))


def _at(module: str, qualname: str) -> object:
    """The object of this name in an imported module; None if there is none."""
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _name(item: Code) -> str:
    return f"{item.__module__}:{item.__qualname__}"
