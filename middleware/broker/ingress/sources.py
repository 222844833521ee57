"""What a node knows of its publishers: which are silent, and which times others bear out. Pure: time is an argument.

**Idle.** A publisher that has promised a watermark, and then sends nothing for ``idle``, does not delay the others any
longer: the node promises for the idle source that nothing older than the node's clock comes from it. If no publisher sends
anything for ``idle`` and the clock does not move, the node promises the same for all of them, so what has arrived becomes
final. A publisher is exempt, and not idle, while it has no credit, or has sent frames that its channel has lost.
A publisher that comes back resumes, except that events at or below what was promised meanwhile are late.
(Flink lets idle sources leave the watermark in the same way; it does nothing when all are idle.)

**Time that others bear out.** One wrong time stamp in the future would move the clock and make everything behind it late. So an
event is taken at once only if something besides its publisher shows that its time has come (``is_borne_out``):

1. The wall clock: the event is live, at most ``ahead`` older than the wall clock, and at most ``LEAD`` beyond it.
2. An event beyond the wall clock needs another publisher or node that has got as far, or one that says the same. A publisher
   that has been alone for ``idle``, and sends nothing but such events, is believed.
3. An older event (of a recording, or with logical times) may lie ``idle`` beyond what its own publisher, or the most advanced
   other one, has reached; more if there is no other one. This counts only while results become final by the clock.

An event that nothing bears out waits (``withheld``). An event more than ``ahead`` beyond the wall clock is rejected.

**Promises bind those who make them.** A promise beyond the wall clock counts only up to what events have reached, or ``idle``
behind the wall clock, and grows with it (``counted``). END counts: it says that this publisher sends no more, and nothing
of others.

**The wall clock.** The node's own may be wrong. So all peers announce their clocks when they attach: if the others agree with
each other, and none with the node, the node goes by theirs (``agreed_wall``), even when they have left. A node that has just
begun, and knows only one other clock, which is ahead of its own, lets no one publish until it knows another, or the time for
that is up and each node of its configuration has announced its clock (``clock_in_doubt``). The difference lasts through the
lives of the node (``former``), until the clock of some peer agrees with its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import cast

import msgspec

from middleware.model.event import END, MAX_TS, NEVER
from middleware.model.quantities import Duration, duration_of
from middleware.model.time import MILLISECOND, SECOND

UNDECIDED = 10 * SECOND
"""How long a node listens at most, from its start, for the clocks of publishers where the first one is ahead of its own."""

LEAD = 200 * MILLISECOND
"""How far an event may lie beyond the wall clock and be live: clocks of machines in one network differ by less."""

_MOST_WALLS = 1_000
"""Most clocks that are remembered, including those of peers that have left."""


@dataclass(frozen=True, init=False)
class SourcePolicy:
    """When a silent publisher stops holding others back, how far an event may lie beyond the wall clock, and how long sources
    wait for a reader that asked for it (``on_slow="block"``) and takes nothing: ``"10s"``, a timedelta, or ns."""

    idle: int
    ahead: int
    hold: int

    def __init__(self, idle: Duration = 10 * SECOND, ahead: Duration = 3_600 * SECOND, hold: Duration = 60 * SECOND) -> None:
        for name, given in ("idle", idle), ("ahead", ahead), ("hold", hold):
            object.__setattr__(self, name, length := duration_of(given, name))
            if length <= 0:
                raise ValueError(f"{name} is a duration above 0, not {given!r}")


class PublisherState(msgspec.Struct):
    """One publisher.

    ``received_at``
        when its last message (events or promises) came.
    ``newest``, ``newest_at``
        the largest time that was taken from it, and when.
    ``promised``
        by type, what it promised itself.
    ``idle_promise``
        the clock up to which the node promises for it while it is idle; None while it promises itself.
    """

    received_at: int
    newest: int = NEVER
    newest_at: int = 0
    promised: dict[str, int] = {}
    idle_promise: int | None = None


def agreed_wall(own: int, others: Iterable[int], within: int) -> int:
    """Return our ``own`` clock, unless every peer is ahead of it and a majority of peers agree; then the earliest of those.

    Clocks agree if they are at most ``within`` apart. It takes two others, so that no single one is believed against the node,
    and one that agrees with the node is enough for the node to be right. A clock that is ahead causes no rejection: it stays.
    O(n log n).
    """
    clocks = sorted(others)
    if len(clocks) < 2 or clocks[0] - own <= within:
        return own
    middle = clocks[len(clocks) // 2]
    agreeing = [each for each in clocks if abs(each - middle) <= within]
    return agreeing[0] if len(agreeing) >= 2 and len(agreeing) * 2 > len(clocks) else own


class Claim(msgspec.Struct):
    """The time up to which a publisher or a node has come, ``until``, as announced ``at`` a moment of the running clock.

    ``withheld``: the latest of its events that wait, if any: NEVER counts as nothing.
    """

    until: int = NEVER
    at: int = 0
    withheld: int = NEVER


class Sources:
    """The publishers of one node, by key. What lies in the future is known once ``wall_is`` was called.

    ``behind``
        how far the clocks of the others are ahead of this node's, if it goes by theirs (ns); else 0. ``former``: the same of
        its former life, which holds until two others have announced their clocks.
    ``own_wall``
        Unix time minus the running clock, by the node's own clock; None until ``wall_is`` is called.
    ``nodes``
        those of the configuration: a node that is away will come back, and its clock can tell.
    ``reached_before``
        the clock of the node's former life: an old event that comes first in this one does not make all others run ahead.
    """

    def __init__(self, policy: SourcePolicy, now: int, nodes: Collection[Hashable] = ()) -> None:
        self.policy, self._nodes = policy, nodes
        self.types: set[str] = set()
        """Raw types that publishers of this node have offered, ever."""
        self.is_quiet = False
        """Whether the node promises for all of them at the moment."""
        self.behind = self.former = 0
        self.own_wall: int | None = None
        self.reached_before = NEVER
        self._born = now
        self._wall: int | None = None
        self._walls: dict[Hashable, int] = {}
        self._known: dict[Hashable, PublisherState] = {}
        self._clock: int | None = None
        self._stirred_at = now
        self._idle_from = now
        """Before this time no publisher is idle, and not all is quiet."""
        self._claims: dict[Hashable, Claim] = {}
        self._leaders: tuple[int, Hashable, int] | None = None
        self._top = NEVER
        """The latest time that an event has, or a node has spoken of."""
        self._present_at = now
        """When an event last came, or a node last spoke of a time, that was not beyond the wall clock."""

    def wall_is(self, wall: int, now: int) -> None:
        """Unix time at ``now``: the wall clock may be corrected, and the running clock may stand still in suspend."""
        own = wall - now
        if self.own_wall is None or abs(own - self.own_wall) > LEAD // 4:  # it was set, or has drifted: not at every step
            self.own_wall = own
            self._agree()

    def wall_announced(self, key: Hashable, wall: int, now: int) -> None:
        """A node or a publisher has announced what its clock shows."""
        self._walls[key] = wall - now
        self._agree()

    def clock_in_doubt(self, now: int) -> bool:
        """Whether this node's clock may be the one that is behind, and no peer that can tell has come yet."""
        if self.own_wall is None or self.behind or len(self._walls) != 1:
            return False
        if now - self._born >= UNDECIDED and all(node in self._walls for node in self._nodes):
            return False
        return next(iter(self._walls.values())) - self.own_wall > self.policy.ahead

    def was_behind(self, behind: int) -> None:
        """What a former life had found out about this node's clock."""
        self.former = behind
        self._agree()

    def _agree(self) -> None:
        if self.own_wall is not None:
            own, clocks, within = self.own_wall, self._walls.values(), self.policy.ahead
            is_former = len(clocks) < 2 and all(wall - own > within for wall in clocks)
            self._wall = own + self.former if is_former else agreed_wall(own, clocks, within)
            self.behind = self._wall - own

    def __getitem__(self, key: Hashable) -> PublisherState:
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def attach(self, key: Hashable, now: int) -> None:
        """A publisher has attached."""
        self._known[key] = PublisherState(now)
        self._stirred_at = now

    def leave(self, key: Hashable) -> None:
        """A publisher or a node is gone. The clock of a configured node still counts: it comes back under its name. A publisher
        may come back under another name, and one wrong clock must not count as two that agree."""
        self._known.pop(key, None)
        self._claims.pop(key, None)
        # While the node goes by the clocks of others, that one of them has left says nothing of those that stay.
        is_kept = key in self._nodes or (self.behind and len(self._walls) <= _MOST_WALLS)
        if not is_kept and self._walls.pop(key, None) is not None:
            self._agree()
        self._leaders = None

    def received(self, key: Hashable, now: int) -> None:
        """A message came from a publisher."""
        self._known[key].received_at = self._stirred_at = now

    def could_not_speak(self, now: int, away: int = 0) -> None:
        """This node took nothing from anyone until now: the silence of its publishers does not count, nor does the time for
        which it was ``away`` (suspended, say) count as time in which it listened for another clock."""
        self._born += away
        for key in self._known:
            self.received(key, now)

    # -- times that others bear out -----------------------------------------------------------------------------------

    def wall(self, now: int) -> int | None:
        """The wall clock that the node goes by; None if it knows none."""
        return None if self._wall is None else self._wall + now

    def most(self, now: int) -> int:
        """Events beyond this time are rejected."""
        return MAX_TS if self._wall is None else min(self._wall + now + self.policy.ahead, MAX_TS)

    def limit(self, key: Hashable, oldest: int, newest: int, now: int, by_clock: bool) -> int:
        """The events of one payload up to this time are taken at once; others are to be judged one by one.

        ``oldest``, ``newest``: the times of its events; NEVER if they are not known. ``by_clock``: whether anything becomes
        final by the clock. O(1) for live events, else O(publishers) after something changed.
        """
        wall = None if self._wall is None else self._wall + now
        if newest == NEVER:  # a publisher of live events sends more of them
            newest = self._known[key].newest
        if wall is not None:
            if wall - self.policy.ahead <= newest <= wall + LEAD:
                return wall + LEAD
            if newest > wall + LEAD and oldest > wall + LEAD:
                return min(max(wall + LEAD, self._beyond(key, now)), self.most(now))
        return self._recorded(key, now, by_clock)

    def _recorded(self, key: Hashable, now: int, by_clock: bool) -> int:
        """The time up to which events may come that are not live."""
        most = MAX_TS if self._wall is None else self._wall + now + LEAD
        if not by_clock:
            return most
        if self._leaders is None:
            self._leaders = self._lead(now)
        first, leader, second = self._leaders
        lead = second if key == leader else first
        if lead == NEVER:
            return most
        own = self._known[key].newest if key in self._known else NEVER
        return min(max(lead + now, own, self.reached_before) + self.policy.idle, most)

    def _beyond(self, key: Hashable, now: int) -> int:
        """The time up to which events beyond the wall clock may come from a publisher that sends no others."""
        others = [claim.until + now - claim.at for claim in self._others(key, now) if claim.until != NEVER]
        if others:
            return max(others) + LEAD
        return MAX_TS if now - max(self._present_at, self._born) >= self.policy.idle else NEVER

    def is_borne_out(self, key: Hashable, ts: int, now: int, by_clock: bool) -> bool:
        """Whether an event that waits may be taken by now. ``key``: its publisher, which may have left. O(publishers)."""
        wall = self.wall(now)
        is_beyond = wall is not None and ts > wall + LEAD
        if wall is not None and wall - self.policy.ahead <= ts <= wall + LEAD:
            return True
        others = self._others(key, now)
        if not is_beyond and ts <= self._recorded(key, now, by_clock):
            return True
        if not others:
            return not is_beyond
        if is_beyond and any(claim.until != NEVER and ts <= claim.until + now - claim.at + LEAD for claim in others):
            return True
        if any(claim.withheld != NEVER and abs(claim.withheld - ts) <= self.policy.idle for claim in others):
            return True
        return ts <= min(max(claim.until, claim.withheld) for claim in others)

    def _others(self, key: Hashable, now: int) -> list[Claim]:
        """The claims of the active others."""
        return [
            claim
            for other, claim in self._claims.items()
            if other != key and max(claim.until, claim.withheld) != NEVER and self._is_active(other, claim, now)
        ]

    def _is_active(self, key: Hashable, claim: Claim, now: int) -> bool:
        source = self._known.get(key)
        return now - (claim.at if source is None else source.received_at) < self.policy.idle

    def _lead(self, now: int) -> tuple[int, Hashable, int]:
        """Of the active ones: how far the first is ahead of the running clock, its key, and how far ahead the second is."""
        active = [
            (claim.until - claim.at, number, key)
            for number, (key, claim) in enumerate(self._claims.items())
            if claim.until != NEVER and self._is_active(key, claim, now)
        ]
        active.sort(reverse=True)
        first, leader = (active[0][0], active[0][2]) if active else (NEVER, None)
        return first, leader, active[1][0] if len(active) > 1 else NEVER

    def reached(self, key: Hashable, newest: int, now: int) -> None:
        """Events of a publisher up to ``newest`` were taken. It may have left, if they had to wait."""
        source = self._known.get(key)
        self._top = max(newest, self._top)
        if source is not None and newest > source.newest:
            source.newest, source.newest_at = newest, now
            self.claims(key, newest, now)
        elif self._wall is None or newest <= self._wall + now + LEAD:
            self._present_at = now

    def claims(self, key: Hashable, until: int, now: int) -> None:
        """A publisher or a node says that time has come up to ``until``: by its events, its promises, or its clock mark."""
        if self._wall is None or until <= self._wall + now + LEAD:
            self._present_at = now
        self._top = max(until, self._top)
        claim = self._claims.get(key)
        if claim is None:
            claim = self._claims[key] = Claim()
        elif until <= claim.until:
            return
        claim.until, claim.at = until, now
        if self._leaders is not None:
            _, leader, second = self._leaders
            lead = until - now
            if key == leader and lead >= second:
                self._leaders = lead, leader, second
            elif key == leader or lead > second:  # the order may have changed
                self._leaders = None

    def ended(self, key: Hashable) -> None:
        """A publisher has ended all that it promised anything of: where it was says nothing of time any more."""
        if (claim := self._claims.get(key)) is not None:
            claim.until, self._leaders = NEVER, None

    def withholds(self, key: Hashable, latest: int, now: int) -> None:
        """The latest event of an attached publisher that waits has this time (NEVER: none waits)."""
        if key in self._known:
            self._claims.setdefault(key, Claim(at=now)).withheld = latest

    def rejects_beyond(self, key: Hashable, now: int) -> int:
        """Events beyond this time are rejected if there is no room for them to wait: others are there, and do not agree."""
        is_alone = self._wall is None or not self._others(key, now)
        return MAX_TS if is_alone else cast(int, self._wall) + now + LEAD

    def counted(self, promised: int, now: int) -> int:
        """The time up to which a promise counts for others now."""
        if promised == END or self._wall is None:
            return promised
        wall = self._wall + now
        if promised <= wall + LEAD:
            return promised
        # events of others that are under way are a moment old: a promise that nothing bears out makes none of them late
        return min(promised, max(wall - self.policy.idle, self._top, self.reached_before))

    # -- idle ---------------------------------------------------------------------------------------------------------

    def is_astir(self, clock: int | None, now: int) -> bool:
        """Whether no publisher can be idle yet, so that ``tick`` has nothing to say. O(1)."""
        if clock != self._clock:
            self._clock, self._stirred_at = clock, now
        return now < self._idle_from

    def tick(self, clock: int | None, now: int, exempt: Collection[Hashable]) -> tuple[list[Hashable], bool]:
        """The publishers idle now, and whether all is quiet.

        ``exempt``: publishers that are not idle, as they have no credit, or their frames were lost and will come again.
        """
        idle = self.policy.idle
        for key in exempt:
            if key in self._known:
                self.received(key, now)
        if clock != self._clock:
            self._clock, self._stirred_at = clock, now
        nodes = [claim.at for key, claim in self._claims.items() if key not in self._known]
        self._idle_from = idle + min([self._stirred_at, *(source.received_at for source in self._known.values()), *nodes])
        self._idle_from = min(
            [self._idle_from, *(idle + claim.at for key, claim in self._claims.items() if key not in self._known)]
        )
        silent = [key for key, source in self._known.items() if now - source.received_at >= idle]
        gone = [key for key, claim in self._claims.items() if key not in self._known and now - claim.at >= idle]
        for key in gone:
            del self._claims[key]
        if silent or gone:
            self._leaders = None
        return silent, clock is not None and now - self._stirred_at >= idle
