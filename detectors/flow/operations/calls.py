"""Calls the functions that users give to a flow, and records failures when they raise."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence

from detectors.flow.operations.items import ABSENT, Position
from middleware.model.errors import ENDING
from middleware.model.event import Value


class PartialFailure(Exception):
    """Raised by a function that failed but still has outputs; its ``__cause__`` is the error."""

    def __init__(self, outputs: Sequence[Value]) -> None:
        super().__init__(outputs)
        self.outputs = outputs


def outputs(result: Value) -> Sequence[Value]:
    """The result of a function as a sequence of outputs: an iterator, a list or a plain tuple is many, all else is one."""
    if result is None:
        return ()
    if result.__class__ is list or result.__class__ is tuple:
        return result
    if isinstance(result, Iterator):
        return list(result)
    return [result]


class CallFailures:
    """The tracebacks of items at which a function raised, by operation and position."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, Position], str] = {}

    def call(self, where: str, function: Callable[[Value], Value], position: Position, value: Value) -> Sequence[Value]:
        """The outputs of a present value; none, and a failure, if the function raises."""
        try:
            return outputs(function(value))
        except PartialFailure as error:
            cause = error.__cause__ or error
            self.found[where, position] = "".join(traceback.format_exception(cause, limit=-8))
            return error.outputs
        except ENDING:
            raise
        except BaseException:
            self.raised(where, position)
            return ()

    def raised(self, where: str, position: Position) -> None:
        """Record the exception that is being handled."""
        self.found[where, position] = traceback.format_exc(limit=-8)

    def recall(self, where: str, function: Callable[[Value], Value], position: Position, value: Value) -> Sequence[Value]:
        """The outputs that a value had which is now gone; its failure goes with it."""
        if value is ABSENT:
            return ()
        try:
            return outputs(function(value))
        except PartialFailure as error:
            given = error.outputs
        except ENDING:
            raise
        except BaseException:
            given = ()
        self.found.pop((where, position), None)
        return given

    def record(self, where: str, position: Position, failure: str) -> None:
        """Record another failure of an item."""
        self.found[where, position] = failure
