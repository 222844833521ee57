"""The event types of soccer. Lengths in m, speeds in m/s, accelerations in m/s2, times in ns; axes as in the setup.

``player`` is a player's number and ``ball`` a ball's sensor number, as the setup has them; ``team`` is a team's name.
Number 0 and team "" stand for nobody.
"""

from __future__ import annotations

from typing import ClassVar

from middleware.model.event import Event


class SoccerEvent(Event):
    """Base of all event types here."""

    namespace: ClassVar[str] = "soccer"


class PlayerEvent(SoccerEvent):
    """Base of what is about a player, and of which team he is."""

    player: int
    team: str


class PlayerBallEvent(PlayerEvent):
    """Base of what is about a player and a ball."""

    ball: int


class TeamBallEvent(SoccerEvent):
    """Base of what is about a team and a ball."""

    team: str
    ball: int


class BallAtEvent(SoccerEvent):
    """Base of what is about a ball at a place."""

    ball: int
    x: float
    y: float


class Position(SoccerEvent):
    """Raw: where a transmitter is, how fast it moves, and how its motion changes."""

    sensor: int
    x: float
    y: float
    z: float
    vx: float
    vy: float
    vz: float
    ax: float
    ay: float
    az: float


# Motion


class LimbMotion(SoccerEvent):
    """Smoothed motion of one transmitter of a player."""

    sensor: int
    player: int
    team: str
    x: float
    y: float
    z: float
    vx: float
    vy: float
    vz: float


class BallMotion(BallAtEvent):
    """Smoothed motion of a ball."""

    z: float
    vx: float
    vy: float
    vz: float


class PlayerMotion(PlayerEvent):
    """Smoothed motion of a player: the middle of his limbs, on the ground."""

    x: float
    y: float
    vx: float
    vy: float


# The ball


class BallHit(SoccerEvent):
    """Something struck a ball: its acceleration rose above the threshold. The rest is the ball's at that moment."""

    ball: int
    acceleration: float
    x: float
    y: float
    z: float
    ax: float
    ay: float
    az: float


class BallInPlay(BallAtEvent):
    """A ball is on the pitch, and it is the one that counts."""


class BallOutOfPlay(BallAtEvent):
    """The whole of the ball that counted has crossed a line of the pitch; position and velocity when that was seen."""

    z: float
    vx: float
    vy: float
    vz: float


class BallInGoal(SoccerEvent):
    """The ball crossed the goal line between the posts and under the bar of the goal that ``team`` defends."""

    ball: int
    team: str
    x: float
    y: float
    z: float


class BallOverGoalLine(SoccerEvent):
    """The ball crossed the goal line outside the goal that ``team`` defends."""

    ball: int
    team: str
    x: float
    y: float


class BallOverTouchLine(BallAtEvent):
    """The ball crossed one of the long sides."""


# Players and the ball


class Near(PlayerBallEvent):
    """A player has come near the ball in play."""

    distance: float


class NotNear(PlayerBallEvent):
    """A player who was near the ball no longer is."""


class Nearest(PlayerBallEvent):
    """This player is now the nearest of those near the ball."""

    distance: float


class PlayerHitsBall(PlayerBallEvent):
    """A player touched the ball."""

    acceleration: float
    x: float
    y: float


class Kick(PlayerBallEvent):
    """A player's touch together with what came of it: velocity and place of the ball 60 ms afterwards, in tenths."""

    speed: float
    x: float
    y: float
    z: float
    vx: float
    vy: float
    vz: float


class Possession(PlayerBallEvent):
    """Another player has the ball now; ``previous`` had it before (0: nobody, the ball was dead)."""

    previous: int


class TeamPossession(SoccerEvent):
    """The other team has the ball now, by this player; ``lasted`` is how long the opponents had it."""

    team: str
    player: int
    ball: int
    lasted: int


# Passing


class Pass(SoccerEvent):
    """The ball went from a player to a team-mate; the occurrence time is the receiver's first touch.

    ``kicked`` is the time of the kick, ``distance`` that between kick and first touch.
    """

    player: int
    receiver: int
    team: str
    ball: int
    distance: float
    kicked: int


class FailedPass(PlayerEvent):
    """A kick that was no shot ended with an opponent (``receiver``), or out of play (receiver 0)."""

    receiver: int
    receiver_team: str
    ball: int
    distance: float
    kicked: int


class Interception(PlayerEvent):
    """A player took the ball from an opponent's pass, and his team kept it for another touch at least."""

    passer: int
    ball: int


class DoublePass(SoccerEvent):
    """One player passed to another and had the ball back at once."""

    player: int
    partner: int
    team: str
    ball: int


class PassSequence(SoccerEvent):
    """A team has played this many passes in a row (from three on, at each further one)."""

    team: str
    passes: int
    ball: int
    began: int


# Shooting


class ShotOnGoal(PlayerBallEvent):
    """A hard kick that will reach the opponents' goal line at the goal or close by it.

    ``offset`` is how far from the middle of the goal, ``height`` how high, the ball is expected there; ``on_target``
    whether that lies within the goal; ``distance`` that from the goal at the kick.
    """

    speed: float
    distance: float
    offset: float
    height: float
    on_target: bool


class BlockedShot(PlayerEvent):
    """An opponent in the field got in the way of a shot."""

    shooter: int
    ball: int


class Save(PlayerEvent):
    """The keeper stopped a shot."""

    shooter: int
    ball: int


class MissedShot(PlayerBallEvent):
    """A shot went out of play beside or above the goal."""


class Goal(SoccerEvent):
    """``team`` scored; ``player`` touched the ball last (one of the other team, if it is an own goal)."""

    team: str
    player: int
    ball: int
    own_goal: bool


# Dead ball


class DeadBall(SoccerEvent):
    """Play stopped. ``restart``: throw-in, goal kick, corner kick, free kick or kick-off, of ``team``; the ball was at x, y."""

    restart: str
    team: str
    ball: int
    x: float
    y: float


class Restart(SoccerEvent):
    """Play resumes: the first touch after a dead ball. ``stopped`` is how long it had stood still."""

    restart: str
    team: str
    player: int
    ball: int
    stopped: int
