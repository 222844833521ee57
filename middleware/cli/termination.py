"""SIGTERM ends a command in order, as Ctrl-C does: what it has started is ended, what it has open is closed."""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType

from middleware.cli.output import ExitCode

_DEFERRING = "middleware.runtime.interrupts"
"""The module whose handler of Ctrl-C only notes it, and raises KeyboardInterrupt a moment later."""

_came: list[int] = []
"""The SIGTERM that is being answered."""


def end_in_order() -> None:
    """From now on SIGTERM leaves the main thread by SystemExit, through every ``finally``; to be called in that thread.

    It is no KeyboardInterrupt, because some commands take Ctrl-C for "stop this, and go on". While it is being answered,
    further ones are ignored: whoever is in a hurry sends SIGKILL.
    """
    signal.signal(signal.SIGTERM, _terminate)


def interrupted() -> ExitCode:
    """What a command that was interrupted ends with: 143 after SIGTERM, 130 after Ctrl-C, as a shell has it."""
    return ExitCode.TERMINATED if _came else ExitCode.INTERRUPTED


def _terminate(number: int, frame: FrameType | None) -> None:
    if _came:
        return
    _came.append(number)
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        with suppress(KeyboardInterrupt):  # PySpark's, in a session that somebody else has started, cancels its jobs first
            on_interrupt(signal.SIGINT, frame)
        if getattr(on_interrupt, "__module__", "") == _DEFERRING:
            return  # a process is being started: it is known, and can be ended, when KeyboardInterrupt comes
    raise SystemExit(ExitCode.TERMINATED)
