"""The course of a match: who has the ball, what he does with it, and what follows. One seed, one match.

Players move in ticks of 20 ms, the ball in steps of 2 ms. All chance comes from one generator in a fixed order, so the
first seconds are the same however long the match is played.
"""

from __future__ import annotations

from array import array
from heapq import nsmallest
from math import cos, hypot, sin
from random import Random

from scenarios.soccer.match import tactics
from scenarios.soccer.match.deadball import Stoppage, kick_off, stoppage
from scenarios.soccer.match.physics import STEP, Ball, Body, path
from scenarios.soccer.match.tactics import HALF_LENGTH, HALF_WIDTH, Velocity, attack, keeps, team
from scenarios.soccer.match.truth import Story, Touch
from scenarios.soccer.match.variety import Variety, struck_frame

TICK = 0.02
PEOPLE = 25
"""22 players, the referee, two assistants."""

_STEPS = round(TICK / STEP)


def _steps(seconds: float) -> int:
    return round(seconds / STEP)


def _in_goal(ball: Ball) -> bool:
    """Whether a ball that crosses a line now goes into a goal."""
    return abs(ball.x) > HALF_LENGTH and abs(ball.y) < tactics.POST and ball.z < tactics.BAR


class Match:
    """A match in progress. ``ball_track`` and ``body_track`` record each step and tick; ``story`` what happened.

    ``variety``: of fouls, posts and passes; None: there is none of it.
    """

    def __init__(self, seed: int, variety: Variety | None = None) -> None:
        self.random = Random(seed)
        self.variety = variety
        self.step = 0
        self.ball = Ball()
        self.bodies = [Body(*tactics.kick_off_place(i, i == 9)) for i in range(22)]
        self.bodies += [Body(-8.0, 6.0), Body(20.0, -34.8), Body(-20.0, 34.8)]
        self.story = Story()
        self.ball_track, self.body_track = array("d"), array("d")
        self.owner = self.holder = self.intended = -1
        self.last = Touch(9, "", 0, 0.0, 0.0)
        self.release = self.lunge = self.next_plan = 0
        self.beaten, self.beaten_until = -1, 0
        self.missed: set[int] = set()
        self.way: list[tuple[float, float, float]] = []
        self.chasers: dict[int, tuple[float, float]] = {}
        self.stop: Stoppage | None = kick_off(0, 9)

    def play(self, seconds: float) -> None:
        """Go on until ``seconds`` after the start."""
        while self.step * STEP < seconds:
            self._tick()

    def _tick(self) -> None:
        self._record_bodies()
        self._act()
        for sub in range(_STEPS):
            if self.stop is None and self.holder < 0 and sub % 5 == 0:
                self._contacts()
            self._record_ball()
            self._move_ball()
            self.step += 1
            if self.stop is None:
                self._lines()
        self._move_bodies()

    def _record_bodies(self) -> None:
        for body in self.bodies:
            self.body_track.extend((body.x, body.y, body.vx, body.vy, body.ax, body.ay))

    def _record_ball(self) -> None:
        b = self.ball
        self.ball_track.extend((b.x, b.y, b.z, b.vx, b.vy, b.vz, b.ax, b.ay, b.az))

    # Motion

    def _move_ball(self) -> None:
        ball, holder = self.ball, self.holder
        if self.stop is not None:
            self.stop.move(ball, self.step)
        elif holder >= 0 and ball.contact == 0:
            hands = self.bodies[holder]
            ball.steer(hands, hands.x + 0.35 * attack(holder), 1.1)
        else:
            ball.step()

    def _move_bodies(self) -> None:
        seconds = self.step * STEP
        self._plan()
        for i in range(22):
            x, y, top = self._target(i, seconds)
            self.bodies[i].move(x, y, top, TICK)
        ball = self.ball
        referee, one, other = self.bodies[22:]
        referee.move(ball.x * 0.8 - 9.0, ball.y * 0.7 + (7.0 if ball.y < 0 else -7.0), 5.0, TICK)
        one.move(max(0.0, min(ball.x, HALF_LENGTH)), -34.8, 5.0, TICK)
        other.move(min(0.0, max(ball.x, -HALF_LENGTH)), 34.8, 5.0, TICK)

    def _target(self, i: int, seconds: float) -> tuple[float, float, float]:
        """Where player ``i`` runs now, and how fast at most."""
        ball, body = self.ball, self.bodies[i]
        if self.stop is not None:
            return self.stop.target(i, ball, seconds)
        if i == self.holder:
            return body.x, body.y, 1.0
        if self._is_beaten(i):
            return body.x - 2.0 * attack(i), body.y, 2.0
        if i == self.owner:
            return ball.x + 0.15 * ball.vx, ball.y + 0.15 * ball.vy, 7.5
        if i in self.chasers:
            return *self.chasers[i], 7.5
        attacking = team(i) == team(self.last.player)
        x, y = tactics.place(i, ball, attacking, seconds)
        return self.variety.place(i, x, attacking, self.bodies) if self.variety else x, y, 5.0

    def _plan(self) -> None:
        """Who goes for the ball, five times a second."""
        if self.stop is not None or self.holder >= 0:
            self.chasers = {}
            return
        if self.step < self.next_plan:
            return
        self.next_plan = self.step + _steps(0.2)
        if self.owner >= 0:
            rivals = [i for i in range(22) if team(i) != team(self.owner) and not keeps(i) and not self._is_beaten(i)]
            self._press(min(rivals, key=self._gap))
            return
        self.way = path(self.ball, 3.0)
        self.chasers = {}
        for side in (0, 1):
            self._send(side)
        *_, yields = sorted(self.chasers, key=self._gap)
        if self._gap(yields) < 2.0:  # two go for it side by side: the later one gives way, and presses
            body, ball = self.bodies[yields], self.ball
            away = 1.5 / max(self._gap(yields), 0.1)
            self.chasers[yields] = (
                ball.x + ball.vx * 0.3 + (body.x - ball.x) * away,
                ball.y + ball.vy * 0.3 + (body.y - ball.y) * away,
            )

    def _press(self, rival: int) -> None:
        """Sends an opponent towards the player with the ball: he stays a step off, until he lunges for it."""
        ball, side = self.ball, attack(rival)
        if self._gap(rival) < 2.6 and self.step >= self.lunge + _steps(0.6) and self.random.random() < 0.1:
            if self.variety is not None and self.variety.is_foul():
                self._foul(rival, self.owner)
                return
            self.lunge = self.step + _steps(0.6)
        off = 0.0 if self.step < self.lunge else 2.0
        self.chasers = {rival: (ball.x + 0.2 * ball.vx - off * side, ball.y + 0.2 * ball.vy)}

    def _send(self, side: int) -> None:
        """Sends the player of one team who meets the free ball first, and its keeper if a shot comes."""
        mine = side == team(self.last.player)
        able = [i for i in range(11 * side, 11 * side + 11) if i != self.last.player or self.step - self.last.step > _steps(1)]
        if not mine and self.last.kind == "shot":
            keeper = 11 * side
            _, y, _ = min(self.way, key=lambda point: abs(point[0] - self.bodies[keeper].x))
            self.chasers[keeper] = (self.bodies[keeper].x, max(-4.0, min(4.0, y)))
            able.remove(keeper)
        delay = 0.1 if mine else 0.35
        first = min(able, key=lambda i: (*tactics.chase(i, self.bodies, self.way, delay), i))
        if mine and self.intended in able:
            first = self.intended
        index, _ = tactics.chase(first, self.bodies, self.way, 0.0)
        self.chasers[first] = self.way[index][:2]

    def _gap(self, i: int) -> float:
        """How far the ball is from player ``i`` now: within a tick he keeps his motion."""
        body, ahead = self.bodies[i], self.step % _STEPS * STEP
        return hypot(body.x + body.vx * ahead - self.ball.x, body.y + body.vy * ahead - self.ball.y)

    # Contacts

    def _contacts(self) -> None:
        """The player clearly nearest to the ball touches it, if it is in his reach and he wants to."""
        ball = self.ball
        if ball.contact > 0 and ball.struck:
            return
        i, next_one = nsmallest(2, range(22), key=self._gap)
        hands, clearly = self._in_own_box(i), self._gap(next_one) > self._gap(i) + 0.25
        in_reach = self._gap(i) < (1.2 if hands else 0.6) and ball.z < (2.4 if hands else 1.9)
        if not (in_reach and clearly and self._wants(i)):
            return
        if i == self.owner:
            self._on_the_ball(i)
        else:
            self._take(i)

    def _in_own_box(self, i: int) -> bool:
        body = self.bodies[i]
        return keeps(i) and -body.x * attack(i) > 36.0 and abs(body.y) < 20.0

    def _wants(self, i: int) -> bool:
        since = self.step - self.last.step
        if self._is_beaten(i) or since < _steps(0.1 if self.last.kind == "shot" else 0.2):
            return False
        if i == self.owner:
            return since > _steps(0.32)
        if i == self.last.player and since < _steps(1.0):
            return False
        if self.owner >= 0:  # a tackle
            return team(i) != team(self.owner) and self.step < self.lunge
        if self.ball.speed > 11 and i != self.intended and not keeps(i):  # a fast ball, which he may miss
            if i in self.missed:
                return False
            self.missed.add(i)
            return self.random.random() < 0.4
        return True

    def _is_beaten(self, i: int) -> bool:
        """Whether the player has just lost the ball in a tackle, and is off his balance."""
        return i == self.beaten and self.step < self.beaten_until

    def _take(self, i: int) -> None:
        """Player ``i`` gets the ball: stops a shot, catches it, or brings it under control."""
        if self.owner >= 0 and self.variety is not None and self.variety.is_foul():
            self._foul(i, self.owner)
            return
        shot = self.last.kind == "shot" and team(i) != team(self.last.player)
        self.story.got(self.last, self.step, i, self.ball)
        if self.owner >= 0:
            self.beaten, self.beaten_until = self.last.player, self.step + _steps(1.2)
        ball, body = self.ball, self.bodies[i]
        if shot and (not keeps(i) or self.random.random() < 0.3):
            turn = self.random.uniform(-1.2, 1.2)
            speed = max(4.0, 0.35 * ball.speed) * attack(i)
            self._strike(i, "loose", (speed * cos(turn), speed * sin(turn), self.random.uniform(0.0, 2.0)))
        elif (rival := self._brought_down(i)) >= 0:
            self._foul(rival, i)
        elif self._in_own_box(i):
            self._strike(i, "hold", (body.vx, body.vy, 0.0))
            self.holder, self.release = i, self.step + _steps(self.random.uniform(1.2, 2.2))
        else:
            direction = tactics.heading(i, self.bodies)
            speed = 1.5 + 0.6 * hypot(body.vx, body.vy)
            self._strike(i, "dribble", self._firm(speed * cos(direction), speed * sin(direction)))
            self.release = self.step + _steps(self.random.uniform(0.1, 1.2))

    def _brought_down(self, i: int) -> int:
        """The opponent who fouls player ``i`` as he gets the ball in their penalty area; -1 if nobody does."""
        if self.variety is None or not self.variety.is_penalty(i, self.ball):
            return -1
        rival = min((j for j in range(22) if team(j) != team(i) and not keeps(j)), key=self._gap)
        return rival if self._gap(rival) < 4.0 else -1

    def _foul(self, i: int, victim: int) -> None:
        assert self.variety is not None
        self.story.tell("foul", self.step, i, victim)
        self.stop = self.variety.free_kick(self.step, self.ball, self.bodies, victim)
        self.owner = self.holder = -1

    def _firm(self, vx: float, vy: float) -> Velocity:
        """This velocity, or a higher one: no touch is so soft that it leaves the ball as it was."""
        ball = self.ball
        while hypot(vx - ball.vx, vy - ball.vy) < 2.0:
            vx, vy = vx * 1.1, vy * 1.1
        return vx, vy, 0.0

    def _on_the_ball(self, i: int) -> None:
        """The player with the ball at his feet shoots, passes, or pushes it on."""
        body, ball = self.bodies[i], self.ball
        gap = HALF_LENGTH - body.x * attack(i)
        pressed = min(hypot(b.x - body.x, b.y - body.y) for j, b in enumerate(self.bodies[:22]) if team(j) != team(i)) < 2.2
        if gap < 30 and abs(body.y) < 18 and (gap < 20 or self.random.random() < 0.7):
            self._shoot(i)
        elif self.step > self.release or (pressed and self.random.random() < 0.4):
            self._pass(i)
        else:
            direction = tactics.heading(i, self.bodies)
            speed = min(max(hypot(body.vx, body.vy) + 2.0, 3.5), 8.0)
            vx, vy = speed * cos(direction), speed * sin(direction)
            if hypot(vx - ball.vx, vy - ball.vy) > 2.0:
                self._strike(i, "dribble", (vx, vy, 0.0))

    def _shoot(self, i: int) -> None:
        aimed = self.variety.shot(i, self.ball) if self.variety else None
        self._strike(i, "shot", aimed or tactics.shooting(i, self.ball, self.random))

    def _pass(self, i: int) -> None:
        if self.variety is not None and (idea := self.variety.idea(i, self.ball, self.bodies)) is not None:
            mate, velocity = idea
            self._strike(i, "pass", velocity)
            self.intended = mate
            return
        mate = tactics.receiver(i, self.bodies, self.random, reach=45.0 if keeps(i) else 36.0)
        self._strike(i, "pass", tactics.passing(i, mate, self.ball, self.bodies, self.random))
        self.intended = mate

    def _strike(self, i: int, kind: str, velocity: Velocity) -> None:
        self.ball.strike(*velocity, length=0.06 if kind == "hold" else 0.04)
        self.last = Touch(i, kind, self.step, self.ball.x, self.ball.y)
        self.owner = i if kind == "dribble" else -1
        self.holder = self.intended = -1
        self.missed.clear()
        self.next_plan = 0
        self.story.tell("touch", self.step, i)
        if kind == "shot":
            self.story.tell_shot(self.step, i, self._goes_in())

    def _goes_in(self) -> bool:
        """Whether the ball will be in a goal if nobody touches it."""
        ghost = self.ball.copy()
        for _ in range(_steps(3.0)):
            ghost.step()
            if abs(ghost.x) > HALF_LENGTH:
                return _in_goal(ghost)
        return False

    # Rules

    def _lines(self) -> None:
        ball = self.ball
        if self.variety is not None and struck_frame(ball):
            self.story.tell("woodwork", self.step, self.last.player)
        if abs(ball.x) <= HALF_LENGTH + 0.11 and abs(ball.y) <= HALF_WIDTH + 0.11:
            return
        goal = _in_goal(ball)
        self.story.went_out(self.last, self.step, goal)
        self.stop = stoppage(self.step, ball, self.bodies, team(self.last.player), goal)
        self.owner = self.holder = -1

    def _act(self) -> None:
        """What is done at its time, not on a contact: restarts, and the keeper's throw or kick from his hands."""
        stop = self.stop
        if stop is not None and stop.ready(self.step, self.bodies):
            self.stop = None
            self.story.tell("restart", self.step, stop.taker)
            (self._shoot if stop.shoots else self._pass)(stop.taker)
        elif stop is None and self.holder >= 0 and self.step > self.release:
            self._pass(self.holder)
