"""How units behave: what a user may choose for each detector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec
from msgspec.structs import force_setattr

from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.slack.kslack import Lateness, SlackPolicy

BUFFERING: Final = "buffering"
"""The alpha of units that give their detectors only what is final."""


class Policies(msgspec.Struct, frozen=True):
    """How a unit behaves. The defaults serve most uses; each field says when to change it.

    ``alpha``
        how early a detector gets events: at once (0, full speculation), once clk has passed them by alpha * K (up to 1), or
        once they are final ("buffering"). Adaptation changes a number from there. With 1, events later than K are still
        corrected. "buffering" is the paper's baseline: nothing is ever corrected and no snapshot is taken, so a detector that
        raises cannot continue (``failing="stop"``); with ``Lateness(1, 0)`` events wait for K.
    ``slack``
        makes the K policy. None: learnt from events in time, never from one source alone. ``MaxSlack`` is the paper's maximum,
        which every outlier moves; a quantile forgets bursts; a fixed K serves comparisons.
    ``lateness``
        how long results may change; raise its floor for sources that may be silent or late for longer than that.
    ``retraction``
        on-demand or full (DEBS'13, 4.3), or whichever costs less.
    ``spacing``
        events between snapshots: None finds the best number from measured costs, 1 is the paper's setting.
    ``late``
        "ledger" or "error": whether an event beyond the allowed lateness is listed or ends the run.
    ``failing``
        "skip" the event at which a detector raises, or "stop" the detector (a keyed one: for that key). Then later events for
        it are listed as failed, too. If the event is withdrawn before it is final, the detector continues as if it never came.
    """

    alpha: float | Literal["buffering"] = 1.0
    slack: Callable[[], SlackPolicy] | None = None
    lateness: Lateness = Lateness()
    retraction: Retraction = Retraction.ON_DEMAND
    spacing: int | None = None
    late: str = "ledger"
    failing: str = "skip"

    def __post_init__(self) -> None:
        if not self.is_buffering and not (isinstance(self.alpha, int | float) and 0 <= self.alpha <= 1):
            raise ValueError(
                f'alpha must be a number from 0 (full speculation) to 1 (events wait for K), or "buffering", not {self.alpha!r}'
            )
        if self.slack is not None and not callable(self.slack):
            raise ValueError(f"slack makes a K policy: a class or a function, not {self.slack!r}")
        if not isinstance(self.lateness, Lateness):
            raise ValueError(f"lateness must be a Lateness(...), not {self.lateness!r}")
        if self.retraction not in tuple(Retraction):
            raise ValueError(f"retraction must be one of {', '.join(Retraction)}, not {self.retraction!r}")
        force_setattr(self, "retraction", Retraction(self.retraction))  # it may be given as a text
        if self.spacing is not None and (not isinstance(self.spacing, int) or self.spacing < 1):
            raise ValueError(f"spacing must be a whole number of events, at least 1, not {self.spacing!r}")
        if self.late not in ("ledger", "error"):
            raise ValueError(f'late must be "ledger" or "error", not {self.late!r}')
        if self.failing not in ("skip", "stop"):
            raise ValueError(f'failing must be "skip" or "stop", not {self.failing!r}')
        if self.is_buffering and self.failing != "stop":
            raise ValueError(
                'alpha = "buffering" takes no snapshots, so a detector that raises cannot continue: set failing = "stop"'
            )

    @property
    def is_buffering(self) -> bool:
        """Whether detectors get only what is final."""
        return self.alpha == BUFFERING

    @property
    def initial_alpha(self) -> float:
        """The share of K for which events wait at first; 1 with buffering."""
        return self.alpha if isinstance(self.alpha, int | float) else 1.0
