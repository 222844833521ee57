"""What a node knows of its publishers: which are silent, and which run ahead of the others. Pure: time is an argument.

**Idle.** A publisher that has promised a watermark, and then says nothing for ``idle``, does not hold the others back any
longer: the node promises in its place that nothing older than its clock comes from it. If no publisher says anything for
``idle`` and the clock stands, the node promises the same in the place of all of them, so what has arrived becomes final.
One that can't be heard is not idle: it has no credit, or is known to have sent what its channel has lost.
A publisher that comes back goes on as before, except that events at or below what was promised meanwhile are late.
(Flink lets idle sources leave the watermark in the same way; it does nothing when all are idle.)

**Ahead.** One wrong time stamp, far in the future, would move the clock and make everything behind it late. So while
results become final by the clock (some raw type comes without promises), no event may lie more than ``ahead`` beyond
what the most advanced *other* publisher had reached, plus the time that has passed since, or beyond what the node's
former life had reached; and no event may ever lie more than that beyond the wall clock. Events that do are turned away.
A publisher that is alone is believed.

**The wall clock.** The node's own may be wrong. So all peers that attach say what theirs shows: if the others agree with each
other, and none with the node, the node goes by theirs (``agreed_wall``), even when they have left. A node that has just begun,
and knows only one other clock, which is ahead of its own, lets no one publish until it has heard another (``is_undecided``).
What it has found out lasts through its lives (``former``), until the clock of some peer agrees with its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

import msgspec

from middleware.model.event import MAX_TS, NEVER
from middleware.model.time import SECOND

UNDECIDED = 10 * SECOND
"""How long a node listens at most, from its start, for a second clock where the first one is ahead of its own."""

_MOST_WALLS = 1_000
"""Most clocks that are remembered, including those of peers that have left."""


class SourcePolicy(msgspec.Struct, frozen=True):
    """When a silent publisher stops holding others back, how far one may run ahead of the others, and how long sources wait
    for a reader that asked for it (``on_slow="block"``) and takes nothing; nanoseconds."""

    idle: int = 10 * SECOND
    ahead: int = 3_600 * SECOND
    hold: int = 60 * SECOND

    def __post_init__(self) -> None:
        if self.idle <= 0 or self.ahead <= 0 or self.hold <= 0:
            raise ValueError(f"idle, ahead and hold are times > 0, not {self.idle}, {self.ahead} and {self.hold} ns")


class Source(msgspec.Struct):
    """One publisher.

    ``received_at``
        when it last said anything (events or promises).
    ``newest``, ``newest_at``
        the largest time that was taken from it, and when.
    ``promised``
        by type, what it promised itself.
    ``on_behalf``
        the clock up to which the node promises in its place at the moment; None if it speaks for itself.
    """

    received_at: int
    newest: int = NEVER
    newest_at: int = 0
    promised: dict[str, int] = {}
    on_behalf: int | None = None


def agreed_wall(own: int, others: Iterable[int], within: int) -> int:
    """The clock to go by: ``own``, unless it is behind those of all others, and most of these agree; then the least of those.

    Clocks agree if they are at most ``within`` apart. It takes two others, so that no single one is believed against the node,
    and one that agrees with the node is enough for the node to be right. A clock that is ahead turns nothing away: it stays.
    O(n log n).
    """
    told = sorted(others)
    if len(told) < 2 or told[0] - own <= within:
        return own
    middle = told[len(told) // 2]
    agreeing = [each for each in told if abs(each - middle) <= within]
    return agreeing[0] if len(agreeing) >= 2 and len(agreeing) * 2 > len(told) else own


class Sources:
    """The publishers of one node, by key. What lies in the future is known once ``wall_is`` was called.

    ``behind``
        how far the clocks of the others are ahead of this node's, if it goes by theirs (ns); else 0. ``former``: the same of
        its former life, which holds until two others have said what theirs show.
    ``own_wall``
        Unix time minus the running clock, by the node's own clock; None until ``wall_is`` is called.
    ``reached_before``
        the clock of the node's former life: an old event that comes first in this one does not make all others run ahead.
    """

    def __init__(self, policy: SourcePolicy, now: int) -> None:
        self.policy = policy
        self.types: set[str] = set()
        """Raw types that publishers of this node have offered, ever."""
        self.is_quiet = False
        """Whether the node promises in the place of all of them at the moment."""
        self.behind = self.former = 0
        self.own_wall: int | None = None
        self.reached_before = NEVER
        self._born = now
        self._wall: int | None = None
        self._walls: dict[Hashable, int] = {}
        self._known: dict[Hashable, Source] = {}
        self._clock: int | None = None
        self._stirred_at = now
        self._idle_from = now
        """Before this time no publisher is idle, and not all is quiet."""
        self._leaders: tuple[int, Hashable, int] | None = None

    def wall_is(self, wall: int, now: int) -> None:
        """Unix time at ``now``: the wall clock may be corrected, and the running clock may stand still in suspend."""
        own = wall - now
        if self.own_wall is None or abs(own - self.own_wall) > SECOND:  # it was set, or has drifted: not at every step
            self.own_wall = own
            self._agree()

    def told_wall(self, key: Hashable, wall: int, now: int) -> None:
        """A node or a publisher has said what its clock shows."""
        self._walls[key] = wall - now
        self._agree()

    def is_undecided(self, now: int) -> bool:
        """Whether this node's clock may be the one that is behind, and no peer that can tell has come yet."""
        if self.own_wall is None or self.behind or len(self._walls) != 1 or now - self._born >= UNDECIDED:
            return False
        return next(iter(self._walls.values())) - self.own_wall > self.policy.ahead

    def was_behind(self, behind: int) -> None:
        """What a former life had found out about this node's clock."""
        self.former = behind
        self._agree()

    def _agree(self) -> None:
        if self.own_wall is not None:
            own, told, within = self.own_wall, self._walls.values(), self.policy.ahead
            holds = len(told) < 2 and all(wall - own > within for wall in told)
            self._wall = own + self.former if holds else agreed_wall(own, told, within)
            self.behind = self._wall - own

    def __getitem__(self, key: Hashable) -> Source:
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def attach(self, key: Hashable, now: int) -> None:
        """A publisher has attached."""
        self._known[key] = Source(now)
        self._stirred_at = now

    def leave(self, key: Hashable) -> None:
        """It is gone."""
        self._known.pop(key, None)
        if (not self.behind or len(self._walls) > _MOST_WALLS) and self._walls.pop(key, None) is not None:
            self._agree()  # else what it said is still true: that it left casts no doubt on those that stay
        self._leaders = None

    def received(self, key: Hashable, now: int) -> None:
        """It has said something."""
        self._known[key].received_at = self._stirred_at = now

    def could_not_speak(self, now: int, away: int = 0) -> None:
        """This node took nothing from anyone until now: the silence of its publishers does not count, nor does the time for
        which it was ``away`` (suspended, say) count as time in which it listened for another clock."""
        self._born += away
        for key in self._known:
            self.received(key, now)

    # -- ahead --------------------------------------------------------------------------------------------------------

    def limit(self, key: Hashable, now: int, by_clock: bool) -> int:
        """No event of this publisher may lie beyond this time. O(1) except for the first call after something changed.

        ``by_clock``: whether anything becomes final by the clock.
        """
        reach = MAX_TS if self._wall is None else self._wall + now + self.policy.ahead
        if by_clock:
            if self._leaders is None:
                self._leaders = self._lead(now)
            first, leader, second = self._leaders
            lead = second if key == leader else first
            if lead != NEVER:
                reach = min(reach, max(lead + now, self.reached_before) + self.policy.ahead)
        return min(reach, MAX_TS)

    def _lead(self, now: int) -> tuple[int, Hashable, int]:
        """Of the active publishers: how far the first is ahead of arrival, its key, and how far ahead the second is."""
        active = [
            (source.newest - source.newest_at, number, key)
            for number, (key, source) in enumerate(self._known.items())
            if source.newest != NEVER and now - source.received_at < self.policy.idle
        ]
        active.sort(reverse=True)
        first, leader = (active[0][0], active[0][2]) if active else (NEVER, None)
        return first, leader, active[1][0] if len(active) > 1 else NEVER

    def reached(self, key: Hashable, newest: int, now: int) -> None:
        """Events of it up to ``newest`` were taken."""
        source = self._known[key]
        if newest <= source.newest:
            return
        source.newest, source.newest_at = newest, now
        if self._leaders is not None:
            _, leader, second = self._leaders
            lead = newest - now
            if key == leader and lead >= second:
                self._leaders = lead, leader, second
            elif key == leader or lead > second:  # the order may have changed
                self._leaders = None

    # -- idle ---------------------------------------------------------------------------------------------------------

    def is_astir(self, clock: int | None, now: int) -> bool:
        """Whether no publisher can be idle yet, so that ``tick`` has nothing to say. O(1)."""
        if clock != self._clock:
            self._clock, self._stirred_at = clock, now
        return now < self._idle_from

    def tick(self, clock: int | None, now: int, held: Collection[Hashable]) -> tuple[list[Hashable], bool]:
        """The publishers idle now, and whether all is quiet.

        ``held``: those that could not be heard, as they have no credit, or what they sent was lost and will come again.
        """
        idle = self.policy.idle
        for key in held:
            if key in self._known:
                self.received(key, now)
        if clock != self._clock:
            self._clock, self._stirred_at = clock, now
        self._idle_from = idle + min([self._stirred_at, *(source.received_at for source in self._known.values())])
        silent = [key for key, source in self._known.items() if now - source.received_at >= idle]
        if silent:
            self._leaders = None
        return silent, clock is not None and now - self._stirred_at >= idle
