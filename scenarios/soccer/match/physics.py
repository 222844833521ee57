"""How a football and a footballer move. Units: m, m/s, m/s2, s.

The ball rolls with friction, flies with drag, bounces, and is struck: a contact changes its velocity along half a sine of
acceleration, so that what a sensor would measure has peaks of the height and length of real ones.
"""

from __future__ import annotations

from math import cos, hypot, pi, sin, sqrt

STEP = 0.002
"""Length of one step of the ball."""

GRAVITY = 9.81
DRAG = 0.012
"""Air drag: 1/2 * density 1.2 * coefficient 0.25 * cross-section 0.038 / mass 0.43, per m."""
ROLLING = 0.9
"""Deceleration on short grass."""

KICK = 0.04
"""Length of a contact with a player: longer than a real one (0.01 s), as locating systems smooth accelerations."""
_BOUNCE = 0.01
_REBOUND, _FRICTION = 0.55, 0.3
_LIFTS = 1.0


class Ball:
    """A ball in free motion or in contact. ``contact`` is how much of the present contact is left (s)."""

    __slots__ = ("_dv", "_length", "_v0", "ax", "ay", "az", "contact", "struck", "vx", "vy", "vz", "x", "y", "z")

    def __init__(self, x: float = 0.0, y: float = 0.0) -> None:
        self.x, self.y, self.z = x, y, 0.0
        self.vx = self.vy = self.vz = 0.0
        self.ax = self.ay = self.az = 0.0
        self.contact = 0.0
        self.struck = False
        self._length = 1.0
        self._v0 = self._dv = (0.0, 0.0, 0.0)

    def copy(self) -> Ball:
        other = Ball()
        for name in Ball.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    @property
    def speed(self) -> float:
        return sqrt(self.vx * self.vx + self.vy * self.vy + self.vz * self.vz)

    def strike(self, vx: float, vy: float, vz: float, length: float = KICK, struck: bool = True) -> None:
        """Begin a contact after which the ball has this velocity. ``struck``: by a player, not by ground, net or fence."""
        self._v0 = (self.vx, self.vy, self.vz)
        self._dv = (vx - self.vx, vy - self.vy, vz - self.vz)
        self._length = self.contact = length
        self.struck = struck

    def step(self) -> None:
        """Move on by STEP."""
        was = (self.vx, self.vy, self.vz)
        if self.contact > 0:
            self._in_contact()
        elif self.z <= 0.0 and abs(self.vz) <= _LIFTS:
            self._roll()
        elif self.z <= 0.0 and self.vz < 0:
            self._bounce()
        else:
            drag = -DRAG * self.speed
            self._accelerate(drag * self.vx, drag * self.vy, drag * self.vz - GRAVITY)
        self.x += (was[0] + self.vx) * (STEP / 2)
        self.y += (was[1] + self.vy) * (STEP / 2)
        self.z += (was[2] + self.vz) * (STEP / 2)

    def _bounce(self) -> None:
        """Off the ground, which takes part of the forward speed too: by friction, so never much against the upward push."""
        push = -(1 + _REBOUND) * self.vz
        keeps = 1 - min(0.12, _FRICTION * push / max(hypot(self.vx, self.vy), 0.1))
        self.strike(keeps * self.vx, keeps * self.vy, -_REBOUND * self.vz, _BOUNCE, struck=False)
        self._in_contact()

    def _accelerate(self, ax: float, ay: float, az: float) -> None:
        self.ax, self.ay, self.az = ax, ay, az
        self.vx += ax * STEP
        self.vy += ay * STEP
        self.vz += az * STEP

    def _in_contact(self) -> None:
        self.contact = max(self.contact - STEP, 0.0)
        if self.contact < STEP / 2:
            self.contact = 0.0
        phase = pi * (1 - self.contact / self._length)
        part, rate = (1 - cos(phase)) / 2, sin(phase) * pi / (2 * self._length)
        self.vx, self.vy, self.vz = (v + dv * part for v, dv in zip(self._v0, self._dv, strict=True))
        self.ax, self.ay, self.az = (dv * rate for dv in self._dv)

    def _roll(self) -> None:
        self.z = self.vz = 0.0
        speed = hypot(self.vx, self.vy)
        slows = (ROLLING + DRAG * speed * speed) * STEP
        if speed <= slows:
            self.vx = self.vy = self.ax = self.ay = self.az = 0.0
            return
        self._accelerate(-self.vx / speed * slows / STEP, -self.vy / speed * slows / STEP, 0.0)

    def steer(self, hands: Body, x: float, z: float) -> None:
        """Move on by STEP in a keeper's hands: drawn to the point (``x``, ``z``) before him by 30 m/s2 at most."""
        ax = 60 * (x - self.x) + 15 * (hands.vx - self.vx)
        ay = 60 * (hands.y - self.y) + 15 * (hands.vy - self.vy)
        az = 60 * (z - self.z) - 15 * self.vz
        if (size := sqrt(ax * ax + ay * ay + az * az)) > 30.0:
            ax, ay, az = ax * 30.0 / size, ay * 30.0 / size, az * 30.0 / size
        self._accelerate(ax, ay, az)
        self.x += self.vx * STEP
        self.y += self.vy * STEP
        self.z += self.vz * STEP


class Toss:
    """The way of a ball handed back on to the pitch: a smooth curve (least jerk) from rest to rest."""

    def __init__(self, ball: Ball, x: float, y: float) -> None:
        self._from = (ball.x, ball.y, ball.z)
        self._by = (x - ball.x, y - ball.y)
        self.length = max(1.5, hypot(*self._by) / 10)
        self.gone = 0.0

    def step(self, ball: Ball) -> bool:
        """Move ``ball`` on by STEP; whether it has arrived."""
        self.gone += STEP
        s = min(self.gone / self.length, 1.0)
        place = s**3 * (10 - 15 * s + 6 * s * s)
        speed = 30 * s * s * (1 - s) ** 2 / self.length
        change = 60 * s * (1 - s) * (1 - 2 * s) / self.length**2
        (x, y, z), (dx, dy) = self._from, self._by
        ball.x, ball.y = x + dx * place, y + dy * place
        ball.vx, ball.vy = dx * speed, dy * speed
        ball.ax, ball.ay = dx * change, dy * change
        arc = s**3 * (1 - s) ** 3
        ball.z = z * (1 - place) + 64 * arc
        ball.vz = -z * speed + 64 * 3 * s * s * (1 - s) ** 2 * (1 - 2 * s) / self.length
        ball.az = -z * change + 64 * 6 * s * (1 - s) * (1 - 5 * s + 5 * s * s) / self.length**2
        return s >= 1.0


class Body:
    """A person on the ground, who accelerates with at most 7 m/s2."""

    __slots__ = ("ax", "ay", "vx", "vy", "x", "y")

    STRENGTH = 7.0

    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y
        self.vx = self.vy = self.ax = self.ay = 0.0

    def move(self, x: float, y: float, top: float, dt: float) -> None:
        """Move on by ``dt`` towards a point at a speed of at most ``top``, slowing down before it."""
        wx, wy = 2.5 * (x - self.x), 2.5 * (y - self.y)
        if (want := hypot(wx, wy)) > top:
            wx, wy = wx * top / want, wy * top / want
        ax, ay = 4.0 * (wx - self.vx), 4.0 * (wy - self.vy)
        if (size := hypot(ax, ay)) > self.STRENGTH:
            ax, ay = ax * self.STRENGTH / size, ay * self.STRENGTH / size
        self.ax, self.ay = ax, ay
        self.x += (self.vx + ax * dt / 2) * dt
        self.y += (self.vy + ay * dt / 2) * dt
        self.vx += ax * dt
        self.vy += ay * dt


def path(ball: Ball, seconds: float, every: float = 0.1) -> list[tuple[float, float, float]]:
    """Where ``ball`` will be if nobody touches it: a point each ``every`` seconds. O(seconds / STEP)."""
    ghost, points, steps = ball.copy(), [], round(every / STEP)
    for _ in range(round(seconds / every)):
        for _ in range(steps):
            ghost.step()
        points.append((ghost.x, ghost.y, ghost.z))
    return points
