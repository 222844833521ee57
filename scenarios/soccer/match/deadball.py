"""From the moment when the ball goes out to the restart: the ball comes to rest, is tossed back, somebody walks up to it.

A throw-in is taken with the foot here: transmitters would not show the difference that matters, which is where it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from scenarios.soccer.match import tactics
from scenarios.soccer.match.physics import STEP, Ball, Body, Toss
from scenarios.soccer.match.tactics import HALF_LENGTH, HALF_WIDTH, attack, team

_FENCE = 3.5
_NET = 1.5


def _steps(seconds: float) -> int:
    return round(seconds / STEP)


class Stoppage:
    """A dead ball. ``taker`` will restart play at (x, y), ``earliest`` at that step; the ball is tossed back at ``fetch``.

    ``shoots``: whether he does so by a shot.
    """

    def __init__(
        self,
        taker: int,
        x: float,
        y: float,
        *,
        fetch: int,
        earliest: int,
        kick_off: bool = False,
        goal: bool = False,
        shoots: bool = False,
    ) -> None:
        self.taker, self.x, self.y = taker, x, y
        self.shoots = shoots
        self.fetch, self.earliest = fetch, earliest
        self.kick_off, self.goal = kick_off, goal
        self.toss: Toss | None = None
        self.placed = fetch < 0

    def move(self, ball: Ball, step: int) -> None:
        """The ball moves on by one step: rolls to the fence or into the net, then goes to its place."""
        if self.toss is not None:
            if self.toss.step(ball):
                self.toss, self.placed = None, True
                ball.x, ball.y, ball.z = self.x, self.y, 0.0
                ball.vx = ball.vy = ball.vz = ball.ax = ball.ay = ball.az = 0.0
        elif self.placed:
            return
        elif step >= self.fetch and ball.contact == 0 and ball.speed < 0.5:
            self.toss = Toss(ball, self.x, self.y)
        else:
            self._run_out(ball, hurry=step >= self.fetch)
            ball.step()

    def _run_out(self, ball: Ball, hurry: bool) -> None:
        """The net, the fence, and in the end somebody's hand stop the ball."""
        if ball.contact > 0:
            return
        margin = _NET if self.goal else _FENCE
        leaving = ball.x * ball.vx > 0 and abs(ball.x) > HALF_LENGTH + margin
        leaving = leaving or (ball.y * ball.vy > 0 and abs(ball.y) > HALF_WIDTH + margin)
        if leaving:
            ball.strike(0.0, 0.0, min(ball.vz, 0.0), 0.15, struck=False)
        elif hurry and ball.z < 0.3:
            ball.strike(0.0, 0.0, 0.0, 0.3, struck=False)

    def target(self, player: int, ball: Ball, seconds: float) -> tuple[float, float, float]:
        """Where a player goes meanwhile, and how fast at most."""
        if player == self.taker:
            return self.x - 0.42 * attack(player), self.y, 6.0
        if self.kick_off:
            return *tactics.kick_off_place(player, False), 5.0
        x, y = tactics.place(player, ball, team(player) == team(self.taker), seconds)
        away = hypot(x - self.x, y - self.y)
        if away < 6.0:  # room for the one who restarts
            x += (6.0 - away) * (-1.0 if self.x > 0 else 1.0)
        return x, y, 4.0

    def ready(self, step: int, bodies: Sequence[Body]) -> bool:
        """Whether the ball lies in its place and the taker stands at it."""
        taker = bodies[self.taker]
        there = hypot(taker.x - self.x, taker.y - self.y) < 0.55 and hypot(taker.vx, taker.vy) < 1.0
        return self.placed and there and step >= self.earliest


def kick_off(step: int, taker: int) -> Stoppage:
    """The start of the match: the ball is in the middle already."""
    return Stoppage(taker, 0.0, 0.0, fetch=-1, earliest=step + _steps(0.5), kick_off=True)


def stoppage(step: int, ball: Ball, bodies: Sequence[Body], touched: int, goal: bool) -> Stoppage:
    """What follows when the ball goes out, ``touched`` last by that team (0 or 1)."""
    side = 1.0 if ball.x > 0 else -1.0
    defends = 1 if side > 0 else 0
    restarts = 1 - touched
    fetch, earliest = step + _steps(0.8), step + _steps(1.5)
    if goal:
        return Stoppage(
            11 * defends + 9, 0.0, 0.0, fetch=step + _steps(1.5), earliest=step + _steps(6.0), kick_off=True, goal=True
        )
    if abs(ball.x) <= HALF_LENGTH + 0.11:
        x, y = max(-HALF_LENGTH + 1, min(HALF_LENGTH - 1, ball.x)), HALF_WIDTH * (1.0 if ball.y > 0 else -1.0)
    elif restarts == defends:
        x, y = side * (HALF_LENGTH - 5.5), 5.0 if ball.y > 0 else -5.0
        return Stoppage(11 * defends, x, y, fetch=fetch, earliest=earliest)
    else:
        x, y = side * (HALF_LENGTH - 0.3), (HALF_WIDTH - 0.3) * (1.0 if ball.y > 0 else -1.0)
    taker = min(
        range(11 * restarts + 1, 11 * restarts + 11), key=lambda i: hypot(bodies[i].x - x, bodies[i].y - y)
    )  # fmt: skip
    return Stoppage(taker, x, y, fetch=fetch, earliest=earliest)
