"""When a log had reached which offset, so that a reader can be limited to what came since a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from middleware.model.time import SECOND

EVERY = 60 * SECOND
"""Time between two points: a limit is kept to within this, on the side of less."""

MOST_POINTS = 50_000
"""Most points that are kept, about five weeks."""


class History:
    """Points (Unix time, offset), in order: at this time the log had reached this offset."""

    def __init__(self, points: Iterable[tuple[int, int]] = ()) -> None:
        self.points = list(points)

    def note(self, wall: int, offset: int) -> None:
        """The log has reached an offset. O(1), mostly; nothing if the last point is recent, or the clock was set back."""
        points = self.points
        if points and wall - points[-1][0] < EVERY:
            return
        points.append((wall, offset))
        if len(points) > MOST_POINTS:
            del points[: MOST_POINTS // 10]

    def since(self, wall: int, offset: int) -> int:
        """The offset after which all blocks came at ``wall`` or later; ``offset``: that of the log. What came before the first
        point has no time, and may be older. O(log points)."""
        after = bisect_right(self.points, wall, key=lambda point: point[0])  # the first point later than the time
        return self.points[after][1] if after < len(self.points) else offset
