"""Counts event types as the DEBS'13 paper does: per player, team and ball where they differ."""

from __future__ import annotations

from detectors.soccer.events import Save
from detectors.soccer.setup import Setting, Setup, setup_of
from detectors.soccer.soccer_hierarchy import soccer
from middleware.model.event import EventType, type_name

_BY_KEEPER = frozenset({Save})
"""Types of which only goalkeepers can be the player."""


def event_kinds(setup: Setting = "generated") -> list[str]:
    """Every derived event type with whom it is about, such as ``soccer.Pass player 7``; sorted, each once.

    A type that names a player counts once for each player (whatever else it names); else one that names a team, once for
    each team; else one that names a ball, once for each ball; else once. Raw positions do not count.
    """
    known = setup_of(setup)
    types = {event_type for detector in soccer(known).values() for event_type in detector.publishes}
    return sorted(f"{type_name(one)} {about}".rstrip() for one in types for about in _about(one, known))


def event_types(setup: Setting = "generated") -> int:
    """How many event types the hierarchy derives for a setup, counted so."""
    return len(event_kinds(setup))


def _about(event_type: EventType, setup: Setup) -> list[str]:
    """Whom events of a type can be about."""
    fields = event_type.__struct_fields__
    if "player" in fields:
        keepers = event_type in _BY_KEEPER
        return [f"player {player.player}" for player in setup.players if player.keeper or not keepers]
    if "team" in fields:
        return [f"team {goal.team}" for goal in setup.goals]
    return [f"ball {ball}" for ball in setup.balls] if "ball" in fields else [""]
