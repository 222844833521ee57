"""When the failures that a unit has had, and the events that it left out, become final and are to be listed."""

from __future__ import annotations

from middleware.model.event import END, NEVER


class Failing:
    """``since``: once all is final up to this time, some of them are; END: there are none that are not listed."""

    __slots__ = ("_counted", "_until", "since")

    def __init__(self) -> None:
        self._counted = 0
        self.since, self._until = END, NEVER  # at the second time, all of them are

    def note(self, counted: int, until: int, has_more: bool = False) -> None:
        """So many were counted so far, none of an event later than ``until``. ``has_more``: some are not counted yet."""
        if counted != self._counted or has_more:
            self._counted, self._until = counted, until
            self.since = min(self.since, until)

    def listed(self, counted: int, final: int) -> None:
        """Those up to ``final`` were listed, of so many."""
        self._counted = counted
        self.since = self._until if self._until > final else END

    def suppose(self, until: int) -> None:
        """There may be some, none of an event later than ``until``."""
        self.since = self._until = until
