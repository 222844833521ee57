"""The code of a detector in a few words, the same in every process: for records of which code made a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import CodeType, MappingProxyType

from middleware.model.detector import Detector
from middleware.model.operator import Operator


def written(settings: Mapping[str, str]) -> str:
    """Settings as text.

    >>> written({"limit": "90", "name": "'press'"})
    "limit=90, name='press'"
    """
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def code_identity(detector: Detector, settings: Mapping[str, str] = MappingProxyType({})) -> str:
    """The version of a detector, its settings, and a digest of the code in its class; of an operator, that of its definition.

    Code that its methods call elsewhere shows only in the version. O(code).

    >>> class Never(Detector):
    ...     version = 3
    ...     def on_event(self, event):
    ...         return None
    >>> code_identity(Never(), {"limit": "90"}).startswith("version 3, limit=90, code ")
    True
    """
    if isinstance(detector, Operator):
        return f"definition {_digest([detector.definition])}"
    own = (kind for kind in type(detector).__mro__ if kind not in (Detector, object))
    texts = [text for kind in own for name, value in sorted(vars(kind).items()) for text in _texts(name, value)]
    return ", ".join([f"version {detector.version}", *([written(settings)] if settings else []), f"code {_digest(texts)}"])


def _digest(texts: list[str]) -> str:
    return blake2b("\n".join(texts).encode(), digest_size=4).hexdigest()


def _texts(name: str, value: object) -> Iterator[str]:
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if isinstance(code, CodeType):
        yield name
        yield from _of_code(code)
    elif not name.startswith("__") and isinstance(value, int | float | str | bytes | tuple):
        yield f"{name} = {value!r}"


def _of_code(code: CodeType) -> Iterator[str]:
    """The instructions, names and constants of a function, without the numbers of its lines."""
    yield repr((code.co_code, code.co_names, code.co_varnames))
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _of_code(each)
        else:  # the order of a set differs from process to process
            yield repr(sorted(map(repr, each))) if isinstance(each, frozenset) else repr(each)
