"""Code sent by value with a job: executors have Slackline and installed packages, but no modules of users or scenarios.

Code of a user's module (or of a notebook) goes by value: ``cloudpickle`` writes down functions and classes, and this
module adds event types, which it cannot make anew. Installed packages go by name, so both sides need the same versions.
"""

from __future__ import annotations

import io
import pickle
import sys
import sysconfig
import types
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary, WeakValueDictionary

import cloudpickle
import msgspec

from middleware.installation import PACKAGES
from middleware.model.values.user_code import Code, is_importable, know

_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_META = tuple(name for name in dir(msgspec.Meta) if not name.startswith("_"))
_INHERITED = ("__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__match_args__", "__slots__")


_known: WeakValueDictionary[str, type] = WeakValueDictionary()
_ids: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_whole: set[str] = set()
"""Types that were dumped or loaded here, by the number that names them on the way. A process makes each type once, as
cloudpickle does with classes, so that all that two jobs have in common goes together.
"""


def dump_by_value(value: object) -> bytes:
    """A value as bytes that ``load_by_value`` reads in a process without the user's modules. Raises what pickle raises."""
    buffer = io.BytesIO()
    with _users_modules():
        pickler = _Pickler(buffer, protocol=5)
        pickler.dump(value)
        pickler.dump(list(pickler.code))
    return buffer.getvalue()


def load_by_value(data: bytes) -> Any:
    """The value that was dumped: the same object for the same bytes, so it must not be changed. State names its code."""
    value, code = _unpacked(data)
    know(code)
    return value


@lru_cache(maxsize=8)  # executors run one task after another, and each class that is made anew has caches of its own
def _unpacked(data: bytes) -> tuple[Any, list[Code]]:
    unpickler = pickle.Unpickler(io.BytesIO(data))
    return unpickler.load(), unpickler.load()


def make_portable(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that does the same where Slackline is, and says what to do where it is not. Spark takes it there by value."""
    data = cloudpickle.dumps(work)

    def done(given: Any) -> Any:
        try:
            found = pickle.loads(data)
        except ImportError as error:
            raise RuntimeError(
                f"this executor cannot run Slackline's work: {error}; set PYSPARK_PYTHON to a Python that has Slackline on all "
                "machines, or send along what 'slackline spark pack' writes"
            ) from None
        return found(given)

    return done


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """``code``: the classes that go by value, and the functions that have a name in a module."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.code: dict[Code, None] = {}

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, types.FunctionType) and is_importable(item) and _goes_by_value(item):
            self.code[item] = None
        if isinstance(item, type) and _goes_by_value(item):
            self.code[item] = None
            if issubclass(item, msgspec.Struct):
                return _reduced(item)
            return _portable(item, super().reducer_override(item))
        if isinstance(item, msgspec.Meta):
            return _meta, ({name: getattr(item, name) for name in _META if getattr(item, name) is not None},)
        return super().reducer_override(item)


def _goes_by_value(item: Code) -> bool:
    """Whether executors cannot import it: it is a user's, or was made while this process ran."""
    module = sys.modules.get(item.__module__)
    return module is None or module.__name__ == "__main__" or is_users(module) or not is_importable(item)


@cache
def is_users(module: types.ModuleType) -> bool:
    """Whether a module is neither a part of Slackline nor installed: executors are not supposed to have it."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    path = Path(file).absolute()
    if any(path.resolve().is_relative_to(folder) for folder in PACKAGES.values()) or {"site-packages", "dist-packages"} & {
        *path.parts
    }:
        return False
    return not any(path.is_relative_to(folder) for folder in _INSTALLED)


@contextmanager
def _users_modules() -> Iterator[None]:
    """Meanwhile, cloudpickle writes down by value what is in the user's modules."""
    found = [each for each in sys.modules.copy().values() if isinstance(each, types.ModuleType) and is_users(each)]
    found = [each for each in found if sys.modules.get(each.__name__) is each and each.__name__ != "__main__"]
    known = set(cloudpickle.list_registry_pickle_by_value())
    added = [each for each in found if each.__name__ not in known]
    for each in added:
        cloudpickle.register_pickle_by_value(each)
    try:
        yield
    finally:
        for each in added:
            cloudpickle.unregister_pickle_by_value(each)


def _meta(given: dict[str, Any]) -> msgspec.Meta:
    return msgspec.Meta(**given)


def _portable(kind: type, reduced: Any) -> Any:
    """How cloudpickle takes a class apart, without what is of this process only: annotations as texts, which name things in
    a module that is not known where the class goes, and what msgspec has worked out about it.
    """
    if not isinstance(reduced, tuple) or len(reduced) < 3 or not isinstance(reduced[2], tuple):
        return reduced
    members = reduced[2][0]
    if isinstance(members, dict):
        members.pop("__msgspec_cache__", None)
        with suppress(Exception):  # a name that only type checkers know: nobody asks for it at run time
            hints = get_type_hints(kind, include_extras=True)
            members["__annotations__"] = {name: hints[name] for name in members["__annotations__"]}
    return reduced


def _reduced(kind: Any) -> tuple[Any, ...]:
    """A struct type: how to make its fields, then its other members, which may mention the type itself."""
    config = kind.__struct_config__
    options = {
        name: getattr(config, name) for name in ("frozen", "eq", "order", "array_like", "gc", "weakref", "omit_defaults")
    }
    options |= {"forbid_unknown_fields": config.forbid_unknown_fields, "tag": config.tag, "tag_field": config.tag_field}
    own = set(get_annotations(kind))
    fields = [_field(field) for field in msgspec.structs.fields(kind) if field.name in own]
    members = {name: value for name, value in vars(kind).items() if _is_member(name, value, kind)}
    early = {name: members.pop(name) for name in ("__post_init__", "__doc__") if members.get(name) is not None}
    number = _ids.setdefault(kind, uuid.uuid4().hex)
    _known.setdefault(number, kind)
    _whole.add(number)
    made = (number, kind.__name__, kind.__qualname__, kind.__module__, kind.__bases__, fields, options, early)
    return _made, made, (number, members), None, None, _set_members


def _is_member(name: str, value: object, kind: Any) -> bool:
    return not (
        name in _INHERITED or name.startswith("__struct_") or name in kind.__struct_fields__ or name == "__rich_repr__"
    ) and not (isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType))


def _field(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, _Factory(field.default_factory)
    return field.name, field.type


class _Factory(msgspec.Struct, frozen=True):
    """A field's default that is made anew each time; ``msgspec.field`` itself cannot be pickled."""

    make: Callable[[], Any]


def _made(
    number: str,
    name: str,
    qualname: str,
    module: str,
    bases: tuple[type, ...],
    fields: list[tuple[Any, ...]],
    options: dict[str, Any],
    early: dict[str, Any],
) -> type:
    if (known := _known.get(number)) is not None:
        return known
    given = [
        (*field[:2], msgspec.field(default_factory=field[2].make))
        if len(field) > 2 and isinstance(field[2], _Factory)
        else field
        for field in fields
    ]
    made = msgspec.defstruct(name, given, bases=bases, module=module, namespace={**early, "__qualname__": qualname}, **options)
    return _known.setdefault(number, made)


def _set_members(kind: type, state: tuple[str, dict[str, Any]]) -> None:
    number, members = state
    if number not in _whole:
        _whole.add(number)
        for name, value in members.items():
            setattr(kind, name, value)
