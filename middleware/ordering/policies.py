"""How units behave: what a user may choose for each detector."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import force_setattr

from middleware.ordering.kslack import Lateness, SlackPolicy
from middleware.ordering.retraction import Retraction


class Policies(msgspec.Struct, frozen=True):
    """How a unit behaves. The defaults serve most uses; each field says when to change it.

    ``alpha``
        the initial alpha: 1 is plain buffering, 0 full speculation. Adaptation changes it from there.
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
        it are listed as failed, too. If the event is withdrawn before it is final, the detector goes on as if it never came.
    """

    alpha: float = 1.0
    slack: Callable[[], SlackPolicy] | None = None
    lateness: Lateness = Lateness()
    retraction: Retraction = Retraction.ON_DEMAND
    spacing: int | None = None
    late: str = "ledger"
    failing: str = "skip"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must lie between 0 (full speculation) and 1 (plain buffering), not {self.alpha}")
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
