"""``Windows``: windows as incremental operators. Late events revise exactly the results they touch."""

from __future__ import annotations

from detectors.window.stepped_windows import SteppedWindows, can_run
from detectors.window.windows_operation import WindowsOperation
from detectors.window.windows_plan import WindowsPlan
from middleware.model.operator import Operation


class Windows(WindowsPlan):
    """One result for each window and each key that has events in it.

    ``reads``
        event types, or one.
    ``over``
        the kind of windows: ``Tumbling``, ``Hopping``, ``Sliding``, ``Session``, ``Landmark``, ``Counted``.
    ``values``
        name -> (monoid, field), or a monoid that needs no field: the values of results.
    ``key``
        names of fields; each key has its own windows. None for no key.
    ``result``
        the event type of results: the key's fields, ``start``, ``end`` (ns; the window is (start, end]), and the values, by
        name. Made if it is not given. Results are stamped with the end of the window.
    ``emit``
        ``close``: when the unit's time has passed the end, early and corrected later; ``change``: at once, and again whenever
        an event comes; ``final``: once, when nothing can change any more.

    >>> from detectors.window import COUNT, MAX, Tumbling
    >>> from middleware.model.event import Event
    >>> class Reading(Event):
    ...     sensor: int
    ...     value: float
    >>> Windows(Reading, Tumbling(10), {"readings": COUNT, "highest": (MAX, "value")}, key="sensor").publishes
    (<class 'detectors.window.windows.ReadingWindow'>,)

    Raises WindowError if the plan makes no sense.
    """

    def start(self, name: str, level: int) -> Operation:
        return SteppedWindows(self, name, level) if can_run(self) else WindowsOperation(self, name, level)
