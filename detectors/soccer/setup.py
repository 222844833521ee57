"""Who wears which transmitter, and where the pitch and its goals lie: all that differs between recordings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from middleware.model.errors import ScenarioError

BALL_RADIUS = 0.11
"""Metres."""

GOAL_HEIGHT = 2.44
"""Metres from the ground to the crossbar."""


class Player(msgspec.Struct, frozen=True):
    """A player with the transmitters at his limbs. ``keeper``: whether he guards his team's goal."""

    player: int
    team: str
    sensors: tuple[int, ...]
    keeper: bool = False


class Pitch(msgspec.Struct, frozen=True):
    """The rectangle within the outer edges of the lines, in metres."""

    x_min: float
    x_max: float
    y_min: float
    y_max: float


class GoalMouth(msgspec.Struct, frozen=True):
    """A goal on one of the four lines, between two posts. ``team`` defends it; ``along`` is the axis it stretches along.

    ``line`` is the coordinate of its line on the other axis, ``low`` and ``high`` those of the posts on its own (metres).
    """

    team: str
    along: str
    line: float
    low: float
    high: float


class Setup(msgspec.Struct, frozen=True):
    """The setup of a recording that detectors need. ``balls`` are sensor numbers; sensors named nowhere are ignored."""

    name: str
    pitch: Pitch
    goals: tuple[GoalMouth, ...]
    players: tuple[Player, ...]
    balls: tuple[int, ...]
    officials: tuple[int, ...] = ()


Setting = str | Mapping[str, object] | Setup
"""How a detector gets its setup: the name of one below, the path of a TOML file, a table from one, or the record."""


def setup_of(setting: Setting) -> Setup:
    """The setup that ``setting`` stands for. Raises ScenarioError where there is none, or where it does not hold water."""
    if isinstance(setting, Setup):
        return setting
    if isinstance(setting, str):
        if setting in SETUPS:
            return SETUPS[setting]
        if not setting.endswith(".toml"):
            raise ScenarioError(f"no soccer setup {setting!r}: use {', '.join(sorted(SETUPS))}, or the path of a .toml file")
        return _checked(setting, _table(setting))
    return _checked("setup", setting)


def _table(path: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"cannot read the soccer setup {path}: {error}") from None


def _checked(where: str, table: Mapping[str, object]) -> Setup:
    try:
        setup = msgspec.convert(table, Setup, strict=False)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"soccer setup {where}: {error}") from None
    worn = [sensor for player in setup.players for sensor in player.sensors] + [*setup.balls, *setup.officials]
    if twice := sorted({sensor for sensor in worn if worn.count(sensor) > 1}):
        raise ScenarioError(f"soccer setup {where}: sensors {twice} are given to two wearers; each sensor has one")
    if len({goal.team for goal in setup.goals}) != 2 or len(setup.goals) != 2:
        raise ScenarioError(f"soccer setup {where}: goals must be two, each with the other team to defend it")
    if stray := [goal.along for goal in setup.goals if goal.along not in ("x", "y")]:
        raise ScenarioError(f"soccer setup {where}: goals.along is {stray[0]!r}; it must be 'x' or 'y'")
    return setup


def _generated() -> Setup:
    """The generated match: 88 limbs, 3 officials, 10 substitutes and a fixed transmitter that play no part, 3 balls."""

    def player(number: int) -> Player:
        limbs = tuple(range(4 * number - 3, 4 * number + 1))
        return Player(number, "A" if number <= 11 else "B", limbs, keeper=number in (1, 12))

    return Setup(
        name="generated",
        pitch=Pitch(-52.5, 52.5, -34.0, 34.0),
        goals=(GoalMouth("A", "y", -52.5, -3.66, 3.66), GoalMouth("B", "y", 52.5, -3.66, 3.66)),
        players=tuple(map(player, range(1, 23))),
        balls=(142, 143, 144),
        officials=tuple(range(89, 101)),
    )


def _light() -> Setup:
    """The generated match with one transmitter for each player, which has his number, and one ball."""
    full = _generated()
    players = tuple(Player(each.player, each.team, (each.player,), each.keeper) for each in full.players)
    return msgspec.structs.replace(full, name="light", players=players, balls=(142,), officials=())


_DEBS_A = ((13, 14, 97, 98), (47, 16), (49, 88), (19, 52), (53, 54), (23, 24), (57, 58), (59, 28))
_DEBS_B = ((61, 62, 99, 100), (63, 64), (65, 66), (67, 68), (69, 38), (71, 40), (73, 74), (75, 44))


def _debs2013(name: str, first: str, second: str) -> Setup:
    """The DEBS 2013 Grand Challenge: eight a side on half a pitch; team ``first`` defends the goal at negative y."""
    return Setup(
        name=name,
        pitch=Pitch(0.0, 52.483, -33.96, 33.965),
        goals=(GoalMouth(first, "x", -33.968, 22.578, 29.898), GoalMouth(second, "x", 33.941, 22.56, 29.88)),
        players=tuple(
            Player(number, "A" if number <= 8 else "B", sensors, keeper=number in (1, 9))
            for number, sensors in enumerate(_DEBS_A + _DEBS_B, 1)
        ),
        balls=(4, 8, 10, 12),
        officials=(105, 106),
    )


TRACAB_AWAY = 100
"""Added to the numbers of the away team's players, so that all differ."""

TRACAB_BALL = 200
"""The number that stands for the ball in optical tracking."""


def _tracab() -> Setup:
    """Optical tracking of a real match: one point a player (``home_7`` is player 7, ``away_7`` player 107), one ball."""
    numbers = range(1, 22)
    teams = (("home", 0), ("away", TRACAB_AWAY))
    return Setup(
        name="tracab",
        pitch=Pitch(-52.45, 52.45, -33.9, 33.9),
        goals=(GoalMouth("home", "y", -52.45, -3.66, 3.66), GoalMouth("away", "y", 52.45, -3.66, 3.66)),
        players=tuple(Player(add + n, team, (add + n,), keeper=n == 1) for team, add in teams for n in numbers),
        balls=(TRACAB_BALL,),
    )


SETUPS = {
    setup.name: setup
    for setup in (
        _generated(),
        _light(),
        _debs2013("debs2013", "A", "B"),
        _debs2013("debs2013-second-half", "B", "A"),
        _tracab(),
    )
}
"""Setups by name."""
