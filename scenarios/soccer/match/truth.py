"""What really happened in a generated match: what detectors are scored against."""

from __future__ import annotations

from math import hypot
from typing import NamedTuple

import msgspec

from scenarios.soccer.match.physics import STEP, Ball
from scenarios.soccer.match.tactics import keeps, team

_NS = round(STEP * 1e9)
_TACKLED = 3.0
"""A pass that an opponent stops within so many metres was lost in a tackle."""


class Happening(msgspec.Struct, frozen=True):
    """One thing that happened. Players are numbered 1 to 22 as in the setup; 0 is nobody.

    ``kind``
        touch (any contact of a player with the ball); pass, failed pass (kick to first touch or line; ``other`` is who
        got it); interception, tackle (``player`` took the ball from ``other``); shot (``on_target``: it would have
        gone in, had nobody touched it); block, save (``player`` stopped the shot of ``other``), miss, goal; out; restart; with
        variety also foul (of ``player`` at ``other``) and woodwork.
    ``ts``, ``end``
        beginning and end (ns since the start of the match): kick and arrival of a pass; the same moment otherwise.
    """

    kind: str
    ts: int
    end: int
    player: int
    other: int = 0
    on_target: bool = False


class Touch(NamedTuple):
    """A player's last touch of the ball: who (from 0), in what intention, at which step, and where."""

    player: int
    kind: str
    step: int
    x: float
    y: float


class Story:
    """Writes down what happens. Players are given as the match numbers them, from 0; -1 is nobody."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def tell(self, kind: str, step: int, player: int, other: int = -1, since: int | None = None) -> None:
        """Something happened at ``step``, or lasted from ``since`` until then."""
        begin = step if since is None else since
        self.happenings.append(Happening(kind, begin * _NS, step * _NS, player + 1, other + 1))

    def tell_shot(self, step: int, player: int, on_target: bool) -> None:
        self.happenings.append(Happening("shot", step * _NS, step * _NS, player + 1, on_target=on_target))

    def got(self, last: Touch, step: int, player: int, ball: Ball) -> None:
        """What the last touch has turned out to be, now that ``player`` gets the ball."""
        if player == last.player:
            return
        mate = team(player) == team(last.player)
        far = hypot(ball.x - last.x, ball.y - last.y) >= _TACKLED
        if last.kind == "pass" and mate:
            self.tell("pass", step, last.player, player, last.step)
        elif last.kind == "pass" and far:
            self.tell("failed pass", step, last.player, player, last.step)
            self.tell("interception", step, player, last.player)
        elif last.kind == "shot" and not mate:
            self.tell("save" if keeps(player) else "block", step, player, last.player)
        elif last.kind in ("dribble", "pass") and not mate:
            self.tell("tackle", step, player, last.player)

    def went_out(self, last: Touch, step: int, goal: bool) -> None:
        """The ball has crossed a line."""
        self.tell("out", step, last.player)
        if last.kind == "pass":
            self.tell("failed pass", step, last.player, since=last.step)
        if goal:
            self.tell("goal", step, last.player)
        elif last.kind == "shot":
            self.tell("miss", step, last.player)
