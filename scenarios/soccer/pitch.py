"""Soccer's own view on the live page: the pitch with players and ball, and where things were found."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detectors.soccer.events import BallInPlay, BallMotion, PlayerMotion
from detectors.soccer.setup import setup_of
from middleware.model.event import Event, type_name
from middleware.model.time import MILLISECOND, SECOND

_SHOWN_FOR = 3 * SECOND
"""How long a result stays on the pitch, in time of the match."""

_OLD = 2 * SECOND
"""How long somebody without events stays on the pitch."""


class PitchScene:
    """See ``middleware.observe.view.scene``. Lengths in metres, cut to centimetres; ``t`` in seconds of the recording."""

    title = "Pitch"
    script = Path(__file__).with_name("pitch.js")
    samples = tuple(type_name(each) for each in (PlayerMotion, BallMotion, BallInPlay))

    def __init__(self, setup: str = "generated") -> None:
        plan = setup_of(setup)
        pitch = plan.pitch
        goals = [{"along": goal.along, "line": goal.line, "low": goal.low, "high": goal.high} for goal in plan.goals]
        self.fixed: dict[str, Any] = {
            "pitch": [pitch.x_min, pitch.y_min, pitch.x_max, pitch.y_max],
            "goals": goals,
            "teams": sorted({player.team for player in plan.players}),
        }
        self._players: dict[int, PlayerMotion] = {}
        self._balls: dict[int, BallMotion] = {}
        self._in_play = 0
        self._found: deque[tuple[int, str, float, float]] = deque(maxlen=12)
        self._now = 0

    def sampled(self, events: Sequence[Event]) -> None:
        """Where everybody is."""
        for event in events:
            if isinstance(event, PlayerMotion):
                _keep_newer(self._players, event.player, event)
            elif isinstance(event, BallMotion):
                _keep_newer(self._balls, event.ball, event)
            elif isinstance(event, BallInPlay):
                self._in_play = event.ball
            self._now = max(self._now, event.ts)

    def found(self, events: Sequence[Event]) -> None:
        """Results stand where the ball, or the player they are about, was at last."""
        for event in events:
            player = getattr(event, "player", None) or getattr(event, "receiver", None)
            body = self._players.get(player or 0) or self._balls.get(self._in_play)
            x, y = getattr(event, "x", body.x if body else None), getattr(event, "y", body.y if body else None)
            if x is not None and y is not None:
                self._found.append((event.ts, event.__class__.__name__, x, y))

    def frame(self) -> dict[str, Any] | None:
        """Everybody with a recent event, the ball in play, and what was found in the last seconds."""
        if not self._now:
            return None
        since = self._now - _OLD
        ball = self._balls.get(self._in_play) or max(self._balls.values(), key=lambda one: one.ts, default=None)
        return {
            "t": round(self._now / MILLISECOND) / 1000,
            "players": [
                [one.player, one.team, round(one.x, 2), round(one.y, 2)] for one in self._players.values() if one.ts >= since
            ],
            "ball": [round(ball.x, 2), round(ball.y, 2), round(ball.z, 2)] if ball is not None else None,
            "found": [
                [name, round(x, 2), round(y, 2), round((self._now - ts) / SECOND, 2)]
                for ts, name, x, y in self._found
                if self._now - ts < _SHOWN_FOR
            ],
        }


def _keep_newer(known: dict[int, Any], number: int, event: PlayerMotion | BallMotion) -> None:
    if number not in known or known[number].ts < event.ts:
        known[number] = event


def pitch() -> PitchScene:
    """The scene of the generated match."""
    return PitchScene()
