"""What a plain generated match lacks: fouls with free kicks and penalties, posts, and passes with an idea behind them.

All of it is drawn from a generator of its own, so that a match without variety stays the match that it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, exp, hypot, sin
from random import Random

from scenarios.soccer.match import tactics
from scenarios.soccer.match.deadball import Stoppage
from scenarios.soccer.match.physics import DRAG, GRAVITY, STEP, Ball, Body
from scenarios.soccer.match.tactics import BAR, HALF_LENGTH, HALF_WIDTH, POST, Velocity, attack, team

_THICK = 0.17
"""A ball whose middle is so near to that of a post or the bar strikes it (m)."""
_BOX_DEPTH, _BOX_WIDTH, _SPOT = 16.5, 20.16, 11.0
_RANGE = 28.0
"""From so near a free kick is a shot."""
_STRIKERS = (10, 21)
"""One of each team who waits behind the last line."""

Idea = tuple[int, Velocity]
"""To whom a pass goes, and the velocity of the ball."""


class Variety:
    """How often what happens, each from 0 to 1, of all occasions that there are for it.

    ``fouls`` of tackles (twice as many where a player gets the ball in the area); ``ideas`` of passes; ``posts`` of shots that
    are aimed at one.
    """

    def __init__(self, seed: int, fouls: float = 0.2, ideas: float = 0.15, posts: float = 0.04) -> None:
        self._random = Random(f"variety {seed}")
        self._fouls, self._ideas, self._posts = fouls, ideas, posts
        self.triangle: list[int] = []
        self.builder = -1

    def is_foul(self) -> bool:
        """Whether a tackle is one."""
        return self._random.random() < self._fouls

    def free_kick(self, step: int, ball: Ball, bodies: Sequence[Body], victim: int) -> Stoppage:
        """What follows on a foul at ``victim``: the ball is put where it was, or on the spot if that is in the area."""
        side = attack(victim)
        is_penalty = _in_area(ball, victim)
        x, y = max(-HALF_LENGTH + 1, min(HALF_LENGTH - 1, ball.x)), max(-HALF_WIDTH + 1, min(HALF_WIDTH - 1, ball.y))
        if is_penalty:
            x, y = side * (HALF_LENGTH - _SPOT), 0.0
        first = 11 * team(victim)
        taker = min(range(first + 1, first + 11), key=lambda i: hypot(bodies[i].x - x, bodies[i].y - y))
        shoots = hypot(HALF_LENGTH - x * side, y) < _RANGE
        return Stoppage(taker, x, y, fetch=step + round(0.8 / STEP), earliest=step + round(9.0 / STEP), shoots=shoots)

    def is_penalty(self, player: int, ball: Ball) -> bool:
        """Whether a player who gets the ball where it is now is brought down, in the area."""
        return _in_area(ball, player) and self._random.random() < 2 * self._fouls

    def place(self, player: int, x: float, attacking: bool, bodies: Sequence[Body]) -> float:
        """Where along the pitch a player waits who belongs at ``x``: one striker of the attacking team behind the last line."""
        if not attacking or player not in _STRIKERS:
            return x
        return attack(player) * min(_last_line(player, bodies) + 2.5, HALF_LENGTH - 3.0)

    def shot(self, player: int, ball: Ball) -> Velocity | None:
        """The velocity of a shot straight at a post; None for one like others."""
        if self._random.random() >= self._posts:
            return None
        gap = HALF_LENGTH * attack(player) - ball.x
        y, speed = self._random.choice((-POST, POST)), 25.0
        distance = hypot(gap, y - ball.y)
        time, direction = (exp(DRAG * distance) - 1) / (DRAG * speed), atan2(y - ball.y, gap)
        return speed * cos(direction), speed * sin(direction), (1.0 - ball.z) / time + GRAVITY / 2 * time

    def idea(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        """A pass with an idea: round a triangle, from the back to the front, to the other side, through or behind the line."""
        if self.triangle and self.triangle[0] == player:
            return self._to(self.triangle.pop(0), self.triangle[0], ball, bodies) if len(self.triangle) > 1 else None
        builder, self.triangle, self.builder = self.builder, [], -1
        if player == builder and (forward := self._forward(player, ball, bodies)) is not None:
            return forward
        if self._random.random() >= self._ideas:
            return None
        kinds = [self._round, self._one_two, self._build, self._across, self._through, self._to_striker]
        self._random.shuffle(kinds)
        return next((idea for kind in kinds if (idea := kind(player, ball, bodies)) is not None), None)

    def _to(self, player: int, mate: int, ball: Ball, bodies: Sequence[Body]) -> Idea:
        return mate, tactics.passing(player, mate, ball, bodies, self._random)

    def _mates(self, player: int, bodies: Sequence[Body], near: float, far: float) -> list[int]:
        """Team-mates in the field so far away, the most open ones first."""
        first, me = 11 * team(player), bodies[player]
        away = {i: hypot(bodies[i].x - me.x, bodies[i].y - me.y) for i in range(first + 1, first + 11) if i != player}
        return sorted(
            (i for i, gap in away.items() if near <= gap <= far), key=lambda i: -tactics.openness(player, bodies[i], bodies)
        )

    def _round(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        mates = self._mates(player, bodies, 6.0, 18.0)[:2]
        if len(mates) < 2:
            return None
        self.triangle = [mates[0], mates[1], player]
        return self._to(player, mates[0], ball, bodies)

    def _one_two(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        mates = self._mates(player, bodies, 6.0, 12.0)
        if not mates:
            return None
        self.triangle = [mates[0], player]
        return self._to(player, mates[0], ball, bodies)

    def _build(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        """The first of the passes that bring the ball out of the own third, and into the final one."""
        return self._forward(player, ball, bodies) if ball.x * attack(player) < -HALF_LENGTH / 3 else None

    def _forward(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        side = attack(player)
        ahead = [i for i in self._mates(player, bodies, 9.0, 28.0) if (bodies[i].x - ball.x) * side > 7 and i not in _STRIKERS]
        if not ahead or ball.x * side > HALF_LENGTH / 3 + 3:
            return None
        self.builder = ahead[0]
        return self._to(player, ahead[0], ball, bodies)

    def _across(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        other = [i for i in self._mates(player, bodies, 27.0, 50.0) if bodies[i].y * ball.y < 0]
        wide = [i for i in other if abs(bodies[i].y - ball.y) > 27]
        return self._to(player, wide[0], ball, bodies) if wide else None

    def _through(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        """Into the room behind the last line, for a mate who is before it and can be there first."""
        side, line = attack(player), _last_line(player, bodies)
        ahead = [i for i in self._mates(player, bodies, 5.0, 30.0) if line - 15 < bodies[i].x * side < line - 0.3]
        if not ahead or ball.x * side > line - 2 or line > HALF_LENGTH - 14:
            return None
        mate = ahead[0]
        x, y = (line + 6.0) * side, bodies[mate].y * 0.9
        direction, distance = atan2(y - ball.y, x - ball.x), hypot(x - ball.x, y - ball.y)
        speed = min(8.0 + 0.35 * distance, 20.0)
        return mate, (speed * cos(direction), speed * sin(direction), 0.0)

    def _to_striker(self, player: int, ball: Ball, bodies: Sequence[Body]) -> Idea | None:
        striker = _STRIKERS[team(player)]
        if striker not in self._mates(player, bodies, 8.0, 45.0):
            return None
        return self._to(player, striker, ball, bodies)


def _last_line(player: int, bodies: Sequence[Body]) -> float:
    """How far up the pitch, in the direction of a player's attack, the opponents' last man in the field is."""
    return max(bodies[i].x * attack(player) for i in (range(1, 11) if team(player) else range(12, 22)))


def _in_area(ball: Ball, player: int) -> bool:
    """Whether the ball is in the penalty area that a player attacks."""
    return HALF_LENGTH - _BOX_DEPTH < ball.x * attack(player) < HALF_LENGTH and abs(ball.y) < _BOX_WIDTH


def struck_frame(ball: Ball) -> bool:
    """Whether the ball, flying out, has just struck a post or the bar: then it comes back."""
    outward = ball.x * ball.vx > 0 and HALF_LENGTH - _THICK < abs(ball.x) <= HALF_LENGTH + _THICK
    if ball.contact > 0 or not outward:
        return False
    post = abs(abs(ball.y) - POST) < _THICK and ball.z < BAR + _THICK
    bar = abs(ball.y) < POST and abs(ball.z - BAR) < _THICK
    if post or bar:
        ball.strike(-0.5 * ball.vx, 0.7 * ball.vy, 0.5 * ball.vz, 0.03, struck=False)
    return post or bar
