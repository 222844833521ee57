"""Velocity and acceleration of what is only seen at places: differences backwards in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def motions(ts: npt.NDArray[np.int64], places: Floats, longest: float) -> Floats:
    """Place (m), velocity (m/s) and acceleration (m/s2) at each time: the rows of ``places`` (n, 3) as an array (n, 9). O(n).

    ``ts`` (ns) goes up. Velocity and acceleration are zero where nothing was seen within ``longest`` ns before, and both begin
    from zero after that.
    """
    import numpy as np

    found = np.zeros((len(ts), 9))
    found[:, :3] = places
    passed = np.diff(ts)[:, None]
    followed, rate = passed <= longest, 1e9 / passed
    found[1:, 3:6] = np.where(followed, (places[1:] - places[:-1]) * rate, 0.0)
    found[1:, 6:] = np.where(followed, (found[1:, 3:6] - found[:-1, 3:6]) * rate, 0.0)
    return found
