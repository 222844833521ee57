"""The errors that users see. Each message says what is wrong, where, and what to do about it."""


class SlacklineError(Exception):
    """Base of every error that Slackline raises on purpose."""


class Termination(SystemExit):
    """SIGTERM has come: not a ``sys.exit`` in somebody's code."""


ENDING = (KeyboardInterrupt, Termination)
"""Ends a run or a command, whatever code is running. All else that user code raises is a failure of that code, SystemExit and
asyncio's CancelledError, too: so where user code is called, these pass, and every other BaseException is caught."""


class EventError(SlacklineError):
    """An event, or an event type, that is not well formed."""


class DetectorError(SlacklineError):
    """A detector broke its contract: what it declares, returns or stamps."""


class QuantityError(SlacklineError, ValueError):
    """A duration, or another number with a unit, that cannot be read."""


class ScenarioError(SlacklineError):
    """A scenario file that cannot be run: names file, key and reason."""


class RunError(SlacklineError):
    """A run that failed on the way; its input is not at fault."""


class WireError(SlacklineError):
    """Bytes from the network that are not a well-formed frame of this protocol."""


class NetworkError(SlacklineError):
    """A peer that cannot be reached, refuses the link, or has left; an address or a key that cannot be used."""


class AddressError(NetworkError):
    """An address of the wrong form, or one that needs keys where there are none: nobody was asked."""


class KeyFileError(SlacklineError):
    """A key file or an allow-list that cannot be used."""


class StateError(SlacklineError):
    """Stored state that cannot be written, read or used: a full or broken disk, or code that has changed."""


class UnsavedError(StateError):
    """Detectors whose state cannot be stored: ``faults`` says why, by name."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in faults.items()))
        self.faults = faults


class SinkError(SlacklineError):
    """A sink (a file, a database, an endpoint) that does not accept final events."""


class SourceError(SlacklineError):
    """A source of messages (a topic, an endpoint) that cannot be read as it is given: trying again would not help."""


class UnreachableError(SlacklineError):
    """A server beside the mesh (a broker of messages, a database) that is down, lost or busy: later it may serve."""


class TraceError(SlacklineError):
    """A recording or a trace that cannot be read or written."""


class LedgerError(SlacklineError):
    """A late ledger that cannot be opened or read, or has no such entry."""


class LateEventError(SlacklineError):
    """Events came too late where none may: the policy for late events is ``error``, or the result of a run is checked."""


class LateEventWarning(UserWarning):
    """Events came too late for a run and are in none of its results."""


class WindowError(SlacklineError):
    """A window, or an aggregate over one, that makes no sense."""


def last_line(failure: str | None) -> str:
    """The last line of a traceback, which says what was raised. Empty if there is none."""
    return (failure or "").strip().rpartition("\n")[2]
