"""Forms of messages: a struct made for an event type, into which JSON is decoded at once, without a dict in between.

Where a form gives a row, the careful way (``MessageReader``) would give the same; where it does not, that way is asked, and
says why there is none.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from middleware.connect.messages.message_blocks import Row
from middleware.connect.messages.source import Messages
from middleware.model.errors import EventError
from middleware.model.event import EventType, Int64
from middleware.runtime.json_records import own_key

NOT_READ = (EventError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of a message that is no event."""

Path = tuple[str, ...]
ReadBlock = Callable[[Messages], list[Row]]
"""The rows of the events that messages of one type are. Raises one of NOT_IN_BLOCKS if any of them cannot be read so."""

_NOT_FOUND = (AttributeError, IndexError)
"""The errors of a path that leads nowhere."""

NOT_IN_BLOCKS = (*NOT_READ, *_NOT_FOUND, OverflowError, UnicodeEncodeError)
"""The errors of a block with a message that is no event, that only the careful way can read, or that cannot be sent."""

_JSON_TYPES = (int, float, str, bool, type(None))
_STAMP = (("ts", int | float | str, UNSET), ("id", Int64, 0), ("source", str, ""), ("level", Literal[0], 0))
_STAMP_KEYS = {"ts": "ts", "id": "slackline:id", "source": "slackline:source", "level": "slackline:level"}
"""Identities come from paths, or from the connector: then what a message has under these keys is replaced."""


Times = Callable[[Sequence[Any], Sequence[int]], Sequence[int]]
"""Unix times (ns) of what stands for ``ts``, which is UNSET where the time is that of the message. Raises EventError."""

Column = Callable[[list[Any]], Iterable[Any]]
"""The values of one field in all forms. Raises one of _NOT_FOUND."""


class _Leaf(NamedTuple):
    """The value at the end of a path."""

    type: Any
    default: Any = NODEFAULT
    factory: Any = NODEFAULT


class _NoFormError(Exception):
    """Messages of this type can be read with care only."""


def form(event_type: EventType, paths: Mapping[str, Path], times: Times) -> ReadBlock | None:
    """The fast way to read messages of a type; None where fields are neither values of JSON nor lists of them.

    ``paths``: as ``MessageReader`` has them.
    """
    try:
        decode, (*own, ts, number, source, level) = _decoder(event_type, paths)
    except _NoFormError:
        return None
    has_id, has_source, has_level = "id" in paths, "source" in paths, "level" in paths

    def read(messages: Messages) -> list[Row]:
        forms = list(map(decode, messages.bodies))
        stamp = (
            times(list(ts(forms)), messages.ats),
            number(forms) if has_id else messages.ids,
            source(forms) if has_source else messages.sources,
            level(forms) if has_level else repeat(0),
        )
        return list(zip(*(column(forms) for column in own), *stamp, strict=False))  # levels have no end

    return read


def _decoder(event_type: EventType, paths: Mapping[str, Path]) -> tuple[Callable[[bytes], Any], list[Column]]:
    """The decoder of a message into a form, and the reader of each field of the type. Raises _NoFormError."""
    *own, _, _, _, _ = msgspec.structs.fields(event_type)
    if event_type.__struct_config__.tag is not None or hasattr(event_type, "__post_init__"):
        raise _NoFormError
    if not all(_is_same_in_json(each.type) for each in own):
        raise _NoFormError
    if any(own_key(each.name, event_type) != each.name and each.name not in paths for each in own):
        raise _NoFormError  # it is looked for under two keys
    leaves = {(own_key(each.name, event_type),): _Leaf(each.type, each.default, each.default_factory) for each in own}
    paths_of_leaves = [(paths.get(each.name, key), leaf) for each, (key, leaf) in zip(own, leaves.items(), strict=True)]
    for name, kind, default in _STAMP:
        stamp = _Leaf(kind) if name in paths else _Leaf(kind | UnsetType, default)
        paths_of_leaves.append((paths.get(name, (_STAMP_KEYS[name],)), stamp))
    tree: _Tree = {}
    columns = [_column(_put(tree, path, leaf), leaf) for path, leaf in paths_of_leaves]
    return msgspec.json.Decoder(_struct(event_type.__name__, tree)).decode, columns


_Tree = dict[str, "_Leaf | _Tree"]
"""The keys to look for in an object, or, if they are positions, in a list."""


def _put(tree: _Tree, path: Path, leaf: _Leaf) -> list[str]:
    """Put a leaf into the tree; the names of the attributes that lead to it, with a position at the end if it is in a list."""
    *above, last = path
    names = []
    for part in above:
        below = tree.setdefault(part, {})
        if isinstance(below, _Leaf):
            raise _NoFormError
        names.append(_name(tree, part))
        tree = below
    if last in tree:
        raise _NoFormError
    tree[last] = leaf
    return [*names, last if names and last.isdecimal() else _name(tree, last)]


def _name(tree: _Tree, key: str) -> str:
    return f"f{list(tree).index(key)}"


def _struct(name: str, tree: _Tree) -> Any:
    """A struct with a field for each key."""
    field: Any = msgspec.field  # its overloads do not know that both may be NODEFAULT
    slots: list[Any] = []
    for key, below in tree.items():
        if isinstance(below, _Leaf):
            slots.append((_name(tree, key), below.type, field(default=below.default, default_factory=below.factory)))
        elif any(part.isdecimal() for part in below):
            slots.append((_name(tree, key), _list(below), field(default_factory=list)))
        else:
            slots.append((_name(tree, key), _struct(f"{name}_", below) | UnsetType, UNSET))
    rename = {_name(tree, key): key for key in tree}
    return msgspec.defstruct(f"{name}Form", slots, rename=rename, kw_only=True, gc=False)


def _list(tree: _Tree) -> Any:
    """The type of a list whose values at some positions are looked for: they are to be of one type."""
    kinds = [below.type for key, below in tree.items() if isinstance(below, _Leaf) and key.isdecimal()]
    if len(kinds) < len(tree) or any(kind != kinds[0] for kind in kinds):
        raise _NoFormError
    return list[kinds[0]]  # type: ignore[valid-type]


def _column(names: list[str], leaf: _Leaf) -> Column:
    """The reader of the values of a leaf; values with a default may lie in objects that are not there."""
    *above, last = names
    if not last.isdecimal():
        get: Callable[[Any], Any] = attrgetter(".".join(names))
    else:
        array, index = attrgetter(".".join(above)), int(last)

        def get(form: Any) -> Any:
            return array(form)[index]

    if not above or leaf.default is NODEFAULT is leaf.factory:
        return partial(map, get)

    def found(form: Any) -> Any:
        try:
            return get(form)
        except _NOT_FOUND:
            return leaf.default if leaf.factory is NODEFAULT else leaf.factory()

    return partial(map, found)


def _is_same_in_json(annotation: Any) -> bool:
    """Whether values of this type mean the same to msgspec in JSON as in Python."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _is_same_in_json(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return all(map(_is_same_in_json, arguments))
    if origin in (list, tuple):
        return all(each is ... or _is_same_in_json(each) for each in arguments)
    return annotation in _JSON_TYPES
