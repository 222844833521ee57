"""alpha adaptation: how much to speculate, steered by the busy factor like TCP's congestion window (DEBS'13, Algorithm 3)."""

from __future__ import annotations

import msgspec

LOWER, UPPER = 0.8, 0.9
"""Target zone of the busy factor: time in detectors / time available to the worker."""

STEP = 0.05
"""How much alpha falls in each interval in slow mode."""

INTERVAL = 500_000_000
"""How often alpha is adapted, ns."""


class Alpha(msgspec.Struct, frozen=True):
    """State of the adaptation: ``alpha`` 1 is plain buffering, 0 full speculation.

    ``best``
        the last alpha before a back-off. It sets the bisection line, (1 - best) / 2: below it, alpha falls by small steps.
    """

    alpha: float = 1.0
    best: float = 1.0
    slow: bool = False

    def adapted(self, busy: float) -> Alpha:
        """The next state, for the busy factor of the last interval.

        Above the zone, speculation stops at once. Below the zone, alpha is halved; from the bisection line on, it falls by
        small steps. Within the zone nothing changes.

        >>> Alpha().adapted(0.3).adapted(0.4)
        Alpha(alpha=0.25, best=1.0, slow=False)
        >>> Alpha(alpha=0.125).adapted(0.95)
        Alpha(alpha=1.0, best=0.125, slow=False)
        """
        if busy > UPPER:
            # a back-off from alpha 1 teaches nothing: the line stays where the last speculation failed
            return Alpha(1.0, self.alpha if self.alpha < 1.0 else self.best)
        if busy >= LOWER:
            return self
        slow = self.slow or (1.0 - self.best) / 2 > self.alpha / 2
        return Alpha(max(0.0, self.alpha - STEP) if slow else self.alpha / 2, self.best, slow)
