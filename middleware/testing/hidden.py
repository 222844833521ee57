"""Finds hidden inputs and outputs of a detector, besides events and attributes: clocks, randomness, I/O, shared state."""

from __future__ import annotations

import gc
import io
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from typing import Any

from middleware.model.detector import Detector
from middleware.model.values.constants import code_in, held_by, picture, spoken

_CLOCK_READERS = frozenset(
    {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns"}
    | {"thread_time", "thread_time_ns", "sleep", "clock_gettime", "clock_gettime_ns"}
)
_OUTSIDE = frozenset({"posix", "nt", "_socket", "_io", "io", "select", "_posixsubprocess"})
_IN_MEMORY = (io.StringIO, io.BytesIO)
_shared_generator = getattr(random, "_inst", None)


def hidden_input(function: object) -> bool:
    """Whether the result of a built-in function depends on more than its arguments, or whether it does I/O.

    The detector's own ``random.Random`` is state like any other, and allowed.
    """
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None)
    if isinstance(owner, type):
        return issubclass(owner, date) and name in {"now", "utcnow", "today"}
    if owner is not None and not isinstance(owner, types.ModuleType):
        in_io = type(owner).__module__ == "_io" and not isinstance(owner, _IN_MEMORY)
        return in_io or owner is _shared_generator or type(owner).__module__ == "_socket"
    if module == "time":
        return name in _CLOCK_READERS
    return module in _OUTSIDE or (module == "builtins" and name in {"open", "input", "print"})


def hidden_calls(call: Callable[[], object]) -> list[str]:
    """The hidden inputs that a call reads, each as ``time.time at file:line``, in order, without repeats.

    Sees calls from Python code, but not those inside compiled code. Purity is also checked by comparing runs.
    """
    found: dict[str, None] = {}

    def watch(frame: types.FrameType, event: str, function: Any) -> None:
        if event == "c_call" and hidden_input(function):
            location = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            found[f"{_full_name(function)} at {location}"] = None

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # callbacks of collections (hypothesis has one) would be taken for the detector
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return list(found)


def _full_name(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if owner is _shared_generator:
        return f"random.{function.__name__}"
    if owner is None or isinstance(owner, types.ModuleType):
        return f"{function.__module__}.{function.__name__}"
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{function.__name__}"


def shared_state(detector_class: type[Detector]) -> dict[str, object]:
    """The mutable state that all instances share, by name, as pictures that can be compared.

    Class attributes, argument defaults, globals, and variables of enclosing functions.
    """
    shared = {spoken(name): value for name, value in held_by(detector_class, Detector).items()}
    for owner in detector_class.__mro__:
        if owner not in (Detector, object):
            for name, value in vars(owner).items():
                for function in _functions(value):
                    shared.update(_used_by(function, f"{owner.__name__}.{name}"))
    return {name: picture(value) for name, value in shared.items()}


def _functions(value: object) -> list[types.FunctionType]:
    """The functions behind an attribute of a class: a method, or those of a property."""
    values = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (code_in(value),)
    return [function for function in values if isinstance(function, types.FunctionType)]


def _used_by(function: types.FunctionType, name: str) -> Iterator[tuple[str, object]]:
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the variable has no value yet
            yield f"{variable} around {name}", cell.cell_contents
    for used in _names(function.__code__):
        value = function.__globals__.get(used)
        if value is not None and not callable(value) and not isinstance(value, types.ModuleType):
            yield f"{function.__module__}.{used}", value


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
