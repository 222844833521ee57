"""Reads from annotations which values functions take and give."""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from inspect import Parameter, signature
from typing import Any, Union, get_args, get_origin, get_type_hints

from detectors.flow.graphs.flow_graph import Annotation

_MANY = (Iterable, Iterator, Generator, Sequence, list)


def name_of(function: Callable[..., object], otherwise: str) -> str:
    """The name of a function, or ``otherwise`` if it has none worth showing."""
    name = getattr(function, "__name__", otherwise)
    return otherwise if name == "<lambda>" else name


def accepted(function: Callable[..., object], place: int = 0) -> Annotation:
    """The annotation of a function's parameter; None if there is none."""
    try:
        parameters = [
            each
            for each in signature(function).parameters.values()
            if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        ]
        return _hints(function).get(parameters[place].name)
    except (ValueError, TypeError, IndexError):
        return None


def element(function: Callable[..., object]) -> Annotation:
    """The type of one output of a map, by its return annotation; None if there is none."""
    return _element(_hints(function).get("return"))


def fold_outputs(fold: Callable[..., object]) -> Annotation:
    """The type of one output of a fold, whose annotation is ``tuple[State, Iterable[Output]]``; None if there is none."""
    hint = _hints(fold).get("return")
    arguments = get_args(hint) if get_origin(hint) is tuple else ()
    return _element(arguments[1]) if len(arguments) == 2 else None


def fits(given: Annotation, accepts: Annotation) -> bool:
    """Whether a value of one type may be passed where another is expected; True if unknown."""
    if isinstance(given, type) and isinstance(accepts, type) and not get_args(given) and not get_args(accepts):
        return issubclass(given, accepts) or (given is int and accepts is float)
    return True


def has_field(given: Annotation, name: str) -> bool:
    """Whether objects of a type have a field of this name; True if unknown, as for plain tuples."""
    if not isinstance(given, type) or given is tuple or given is object:
        return True
    return hasattr(given, name) or name in _hints(given)


def _hints(function: object) -> dict[str, Annotation]:
    try:
        return get_type_hints(function)
    except Exception:  # unknown names, builtins, partials: no information
        return {}


def _element(hint: Annotation) -> Annotation:
    if hint is None or hint is types.NoneType or hint is Any:
        return None
    origin: object = get_origin(hint)
    arguments = get_args(hint)
    if origin in (Union, types.UnionType):
        rest = [each for each in arguments if each is not types.NoneType]
        return _element(rest[0]) if len(rest) == 1 else hint
    if origin in _MANY:
        return None if arguments[0] is Any else arguments[0]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    if hint in (list, tuple, *_MANY) or origin is tuple:
        return None
    return hint
