"""Failures of user code: which event, what was raised, and where in the user's code."""

from __future__ import annotations

import re
import sysconfig

import msgspec

from middleware.installation import ROOT
from middleware.model.detector import Detector, takes_batches
from middleware.model.errors import DetectorError, last_line
from middleware.model.event import Event

_OWN = str(ROOT / "middleware") + "/"
_LIBRARIES = tuple({sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Failure(msgspec.Struct, frozen=True):
    """An event that a detector is run without, because it failed there.

    ``location``
        file:line in the user's code that raised; that of ``on_event`` if it returned an invalid value.
    """

    detector: str
    event: Event
    traceback: str
    location: str

    @property
    def error(self) -> str:
        """The exception in one line."""
        return last_line(self.traceback)

    def __str__(self) -> str:
        return f"{self.detector} failed at {self.event!r}: {self.error}{f' ({self.location})' if self.location else ''}"


class DetectorFailedError(DetectorError):
    """A detector failed at an event: ``failure`` says which, what was raised, and where."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure}\n\n{failure.traceback}")
        self.failure = failure


def failure_of(name: str, detector: Detector, event: Event, traceback: str | None) -> Failure:
    """The failure described by a traceback."""
    return Failure(name, event, traceback or "", locate(traceback, detector))


def locate(traceback: str | None, detector: Detector) -> str:
    """File and line of the innermost call outside libraries, if the traceback shows one; else those of on_event."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', traceback or "")
    others = [(file, line) for file, line in frames if not file.startswith(_OWN)]
    users = [(file, line) for file, line in others if not file.startswith(_LIBRARIES)]
    if found := users or others:
        return ":".join(found[-1])
    kind = type(detector)
    code = getattr(kind.on_batch if takes_batches(kind) else kind.on_event, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
