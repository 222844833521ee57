"""Velocity and acceleration of an object that is only seen at positions: differences backwards in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def motions(ts: npt.NDArray[np.int64], positions: Floats, longest: float) -> Floats:
    """Position (m), velocity (m/s) and acceleration (m/s2) at each time, as an array (n, 9); ``positions``: (n, 3). O(n).

    ``ts`` (ns) goes up. Velocity and acceleration are zero where nothing was seen within ``longest`` ns before, and both begin
    from zero after that.
    """
    import numpy as np

    found = np.zeros((len(ts), 9))
    found[:, :3] = positions
    passed = np.diff(ts)[:, None]
    followed, rate = passed <= longest, 1e9 / passed
    found[1:, 3:6] = np.where(followed, (positions[1:] - positions[:-1]) * rate, 0.0)
    found[1:, 6:] = np.where(followed, (found[1:, 3:6] - found[:-1, 3:6]) * rate, 0.0)
    return found


_AGAIN = 0.48
"""Seconds before play resumes from which the ball is recorded: who restarts play must be near it when he kicks."""


def followed(alive: npt.NDArray[np.bool_], rate: float) -> npt.NDArray[np.bool_]:
    """The frames (``rate`` a second) that show a ball: those in which it is alive, and the last half second before."""
    import numpy as np

    reach = round(_AGAIN * rate)
    padded = np.append(alive, np.zeros(reach, bool))
    found: npt.NDArray[np.bool_] = np.any([padded[k : k + len(alive)] for k in range(reach + 1)], axis=0)
    return found


_REACH = 3
"""Frames to either side from which the velocity before and after a moment is measured."""
_CONTACT = 0.04
"""Seconds that a contact is taken to last: its acceleration is the change of velocity in that time."""
_HIT = 2.5
"""A smaller change of velocity (m/s) is noise: four times its deviation where positions are off by 3 cm."""


def ball_motions(ts: npt.NDArray[np.int64], positions: Floats, longest: float) -> Floats:
    """The motion of a ball whose positions are noisy: at 25 frames a second, differences of differences are mostly noise.

    A contact is where velocity, over three frames before and after, changes by 2.5 m/s at least, and most of the frames around.
    There the acceleration is that of a contact of 40 ms; around it, it is zero. Velocity is the mean over up to two frames to
    either side, and never across a contact: from a contact on it is the one after it. It looks 0.12 s ahead. O(n).
    """
    import numpy as np

    found = np.zeros((len(ts), 9))
    found[:, :3] = positions
    breaks = np.flatnonzero(np.diff(ts) > longest) + 1
    for run in np.split(np.arange(len(ts)), breaks):
        if len(run) > 1:
            found[run, 3:] = _run(ts[run], positions[run])
    return found


def _run(ts: npt.NDArray[np.int64], positions: Floats) -> Floats:
    """Velocity and acceleration in one run of frames without a gap."""
    import numpy as np

    n, number = len(ts), np.arange(len(ts))

    def velocity(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Floats:
        found: Floats = (positions[high] - positions[low]) * (1e9 / np.maximum(ts[high] - ts[low], 1))[:, None]
        return found

    low, high = np.maximum(number - _REACH, 0), np.minimum(number + _REACH, n - 1)
    change = np.where(((low < number) & (number < high))[:, None], velocity(number, high) - velocity(low, number), 0.0)
    size = np.linalg.norm(change, axis=1)
    padded = np.pad(size, _REACH)
    around = np.stack([padded[k : k + n] for k in range(2 * _REACH + 1)])
    contact = (size >= _HIT) & (np.argmax(around, axis=0) == _REACH)
    last = np.maximum.accumulate(np.where(contact, number, 0))
    following = np.where(contact, number, n - 1)
    following = np.append(np.minimum.accumulate(following[::-1])[::-1][1:], n - 1)
    smooth = velocity(np.maximum(number - 2, last), np.minimum(number + 2, following))
    near = np.pad(contact, _REACH)
    beside = np.any([near[k : k + n] for k in range(2 * _REACH + 1)], axis=0)
    acceleration = np.where(contact[:, None], change / _CONTACT, np.where(beside[:, None], 0.0, change / (_REACH * _CONTACT)))
    return np.hstack([smooth, acceleration])
