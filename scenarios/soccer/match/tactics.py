"""What footballers want: where to stand, where to run with the ball, to whom and how to pass, where to shoot.

Players are numbered from 0: 0-10 team A, which attacks towards +x, 11-21 team B; 0 and 11 keep goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, cos, exp, hypot, pi, sin, sqrt
from random import Random

from scenarios.soccer.match.physics import DRAG, GRAVITY, ROLLING, Ball, Body

HALF_LENGTH, HALF_WIDTH = 52.5, 34.0
POST, BAR = 3.66, 2.44

Velocity = tuple[float, float, float]

_FORMATION = (
    (-49.5, 0.0),
    (-31.0, -9.0), (-31.0, 9.0), (-28.0, -24.0), (-28.0, 24.0),
    (-12.0, -8.0), (-12.0, 8.0), (-9.0, -25.0), (-9.0, 25.0),
    (9.0, -7.0), (9.0, 7.0),
)  # fmt: skip


def team(player: int) -> int:
    return 0 if player < 11 else 1


def keeps(player: int) -> bool:
    return player in (0, 11)


def attack(player: int) -> float:
    """The direction along x in which this player's team attacks."""
    return 1.0 if player < 11 else -1.0


def place(player: int, ball: Ball, attacking: bool, seconds: float) -> tuple[float, float]:
    """Where a player belongs, by his role, when the ball is where it is: the formation shifts with the ball."""
    x, y = _FORMATION[player % 11]
    side = attack(player)
    bx, by = ball.x * side, ball.y
    if keeps(player):
        return side * (-50.5 + min(max(bx + 30, 0.0) * 0.12, 8.0)), max(-2.8, min(2.8, by * 0.12))
    x += 0.7 * bx + (9.0 if attacking else -3.0)
    y = y * (1.0 if attacking else 0.8) + 0.3 * by
    pace = 0.35 + 0.02 * (player % 7)
    x += 3.0 * sin(pace * seconds + 1.7 * player)
    y += 3.0 * cos(0.8 * pace * seconds + 2.3 * player)
    return side * max(-47.0, min(47.0, x)), max(-32.0, min(32.0, y))


def kick_off_place(player: int, kicking: bool) -> tuple[float, float]:
    """Where a player stands at a kick-off: in his own half; ``kicking`` for the one who takes it."""
    x, y = _FORMATION[player % 11]
    side = attack(player)
    if kicking:
        return -side * 0.45, 0.0
    return side * (x * 0.8 if x < -20 else min(x * 0.8, -6.0 if x > 0 else -10.0)), y if x < 0 else y * 1.3


def heading(player: int, bodies: Sequence[Body]) -> float:
    """In which direction (rad) to run with the ball: to the goal, around the nearest opponent ahead, away from the lines."""
    me, side = bodies[player], attack(player)
    direction = atan2(-0.6 * me.y, side * HALF_LENGTH - me.x)
    for other in range(22):
        if team(other) == team(player):
            continue
        dx, dy = bodies[other].x - me.x, bodies[other].y - me.y
        if hypot(dx, dy) < 6.0 and dx * side > 0:
            direction += (-0.7 if sin(atan2(dy, dx) - direction) > 0 else 0.7) * (1 - hypot(dx, dy) / 6.0)
    if abs(me.y) > 30 and sin(direction) * me.y > 0:
        direction = 0.0 if side > 0 else pi
    return direction


def openness(player: int, mate: Body, bodies: Sequence[Body]) -> float:
    """How far (m, at most 5) the opponents are from the straight way to a team-mate."""
    me = bodies[player]
    dx, dy = mate.x - me.x, mate.y - me.y
    length = max(hypot(dx, dy), 0.1)
    best = 5.0
    for other in range(22):
        if team(other) != team(player):
            ox, oy = bodies[other].x - me.x, bodies[other].y - me.y
            along = max(0.0, min(length, (ox * dx + oy * dy) / length))
            best = min(best, hypot(ox - dx * along / length, oy - dy * along / length))
    return best


def receiver(player: int, bodies: Sequence[Body], random: Random, reach: float = 36.0) -> int:
    """To whom to pass: to one ahead, free, and neither close nor far."""
    me, side = bodies[player], attack(player)
    best, chosen = -1e9, -1
    for mate in range(11 * team(player), 11 * team(player) + 11):
        there = bodies[mate]
        distance = hypot(there.x - me.x, there.y - me.y)
        if mate == player or keeps(mate) or distance > reach:
            continue
        worth = 0.11 * (there.x - me.x) * side + 0.5 * openness(player, there, bodies) - 0.04 * abs(distance - 15)
        worth += random.gauss(0.0, 0.5) - (6.0 if distance < 6 else 0.0)
        if worth > best:
            best, chosen = worth, mate
    return chosen if chosen >= 0 else 11 * team(player) + (5 if player % 11 != 5 else 6)


def passing(player: int, mate: int, ball: Ball, bodies: Sequence[Body], random: Random) -> Velocity:
    """The velocity that takes the ball to where a team-mate will be: along the ground, or lofted if far or barred."""
    there = bodies[mate]
    away = hypot(there.x - ball.x, there.y - ball.y)
    lofted = away > 28 or (away > 15 and openness(player, there, bodies) < 1.0)
    flight = max(1.0, away / 17) if lofted else away / 11
    x = max(-HALF_LENGTH + 2, min(HALF_LENGTH - 2, there.x + there.vx * flight))
    y = max(-HALF_WIDTH + 2, min(HALF_WIDTH - 2, there.y + there.vy * flight))
    direction = atan2(y - ball.y, x - ball.x) + random.gauss(0.0, 0.04)
    distance = hypot(x - ball.x, y - ball.y) * random.gauss(1.0, 0.08)
    if lofted:
        speed = (exp(DRAG * distance) - 1) / (DRAG * flight)
        return speed * cos(direction), speed * sin(direction), GRAVITY / 2 * flight
    # d(v^2)/ds = -2 (ROLLING + DRAG v^2), solved for the speed with which the ball arrives at 5 m/s.
    ratio = ROLLING / DRAG
    speed = max(sqrt((25 + ratio) * exp(2 * DRAG * max(distance, 0.0)) - ratio), 7.0)
    return speed * cos(direction), speed * sin(direction), 0.0


def shooting(player: int, ball: Ball, random: Random) -> Velocity:
    """The velocity of a shot at the opponents' goal: a corner is aimed at, and not always met."""
    gap = HALF_LENGTH * attack(player) - ball.x
    y = random.choice((-2.6, 2.6)) + random.gauss(0.0, 0.9)
    height = abs(random.gauss(0.7, 0.7))
    distance = hypot(gap, y - ball.y)
    speed = random.uniform(20.0, 27.0)
    time = (exp(DRAG * distance) - 1) / (DRAG * speed)
    direction = atan2(y - ball.y, gap)
    return speed * cos(direction), speed * sin(direction), (height - ball.z) / time + GRAVITY / 2 * time


def chase(player: int, bodies: Sequence[Body], way: Sequence[tuple[float, float, float]], delay: float) -> tuple[int, float]:
    """When (index in ``way``, a point each 0.1 s) a player can meet a free ball at the earliest, and how far he is then."""
    me = bodies[player]
    for index, (x, y, z) in enumerate(way):
        miss = hypot(x - me.x - 0.3 * me.vx, y - me.y - 0.3 * me.vy) - 6.0 * max(0.1 * (index + 1) - delay, 0.0)
        if miss < 0.3 and z < 1.6:
            return index, 0.0
    x, y, _ = way[-1]
    return len(way) - 1, hypot(x - me.x, y - me.y)
