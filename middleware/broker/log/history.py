"""When a log had reached which offset, so that a reader can be limited to what came since a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from middleware.model.time import SECOND

EVERY = 60 * SECOND
"""Time between two marks: a limit is kept to within this, on the side of less."""

MOST_MARKS = 50_000
"""Most marks that are kept, about five weeks."""


class History:
    """Marks (Unix time, offset), in order: at this time the log had reached this offset."""

    def __init__(self, marks: Iterable[tuple[int, int]] = ()) -> None:
        self.marks = list(marks)

    def note(self, wall: int, offset: int) -> None:
        """The log has reached an offset. O(1), mostly; nothing if the last mark is recent, or the clock was set back."""
        marks = self.marks
        if marks and wall - marks[-1][0] < EVERY:
            return
        marks.append((wall, offset))
        if len(marks) > MOST_MARKS:
            del marks[: MOST_MARKS // 10]

    def since(self, wall: int, offset: int) -> int:
        """The offset after which all blocks came at ``wall`` or later; ``offset``: that of the log. What came before the first
        mark has no time, and may be older. O(log marks)."""
        after = bisect_right(self.marks, wall, key=lambda mark: mark[0])  # the first mark later than the time
        return self.marks[after][1] if after < len(self.marks) else offset
