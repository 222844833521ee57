"""SIGTERM ends a command in order, as Ctrl-C does: what it has started is ended, what it has open is closed."""

from __future__ import annotations

import signal
from contextlib import suppress
from threading import Timer, get_ident
from types import FrameType

from middleware.cli.output import ExitCode
from middleware.model.errors import Termination

_DEFERRING = "middleware.runtime.loop.interrupts"
"""The module whose handler of Ctrl-C only notes it, and raises KeyboardInterrupt a moment later."""

_AGAIN, _TIMES = 0.05, 100
"""Seconds until a signal that came while a module was being imported is answered, unless it still is; and how often."""

_put_off: list[int] = []
"""Signals that came while a module was being imported."""

_came: list[int] = []
"""The SIGTERM that is being answered."""


def end_in_order() -> None:
    """From now on SIGTERM leaves the main thread by SystemExit, through every ``finally``; to be called in that thread.

    It is no KeyboardInterrupt, because some commands take Ctrl-C for "stop this, and continue". While it is being answered,
    further ones are ignored: whoever is in a hurry sends SIGKILL. Neither SIGTERM nor Ctrl-C is lost in an import.
    """
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def interrupted() -> ExitCode:
    """The exit code of an interrupted command: 143 after SIGTERM, 130 after Ctrl-C, as a shell has it."""
    return ExitCode.TERMINATED if _came else ExitCode.INTERRUPTED


def _terminate(number: int, frame: FrameType | None) -> None:
    if _came or _is_put_off(number, frame):
        return
    _came.append(number)
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        with suppress(KeyboardInterrupt):  # PySpark's, in a session that somebody else has started, cancels its jobs first
            on_interrupt(signal.SIGINT, frame)
        if getattr(on_interrupt, "__module__", "") == _DEFERRING:
            return  # a process is being started: it is known, and can be ended, when KeyboardInterrupt comes
    raise Termination(ExitCode.TERMINATED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _is_put_off(number, frame):
        signal.default_int_handler(number, frame)


def _is_put_off(number: int, frame: FrameType | None) -> bool:
    """Let a signal come again if a module is being imported now.

    Who imports may take whatever is raised for "there is no such module", and continue, as pyarrow does with pandas.
    """
    if not _is_importing(frame) or len(_put_off) >= _TIMES:
        return False
    _put_off.append(number)
    again = Timer(_AGAIN, signal.pthread_kill, (get_ident(), number))
    again.daemon = True
    again.start()
    return True


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
