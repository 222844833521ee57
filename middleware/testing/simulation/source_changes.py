"""What publishers say (their changes) in a simulated world, and the events that stand where some of it was refused."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from middleware.link.codec import encode
from middleware.model.change import Insert, Retract, Revise
from middleware.model.event import IDENTITY, Event, Identity

Said = Insert | Revise | Retract

Claim = tuple[str, str, int, bytes]
"""A change as ledgers list it: insert, revise or retract; source; id; the event (for a revision, the new one) as bytes."""


def claim(change: str, event: Event) -> Claim:
    """A change as it is listed."""
    return change, event.source, event.id, encode(event)


def claim_of(said: Said) -> Claim:
    """The same for a change that a publisher says."""
    return claim("insert" if type(said) is Insert else "revise" if type(said) is Revise else "retract", said.event)


def low(said: Said) -> int:
    """The time at or below which nothing may be promised before this is said."""
    return min(said.event.ts, said.old.ts) if type(said) is Revise else said.event.ts


def contested(said: Iterable[Said]) -> set[Identity]:
    """The identities that several different events share."""
    firsts: dict[Identity, Event] = {}
    return {IDENTITY(each.event) for each in said if _is_rival(each, firsts)}


def _is_rival(said: Said, firsts: dict[Identity, Event]) -> bool:
    return type(said) is Insert and firsts.setdefault(IDENTITY(said.event), said.event) != said.event


def standing(
    said: Iterable[Said], refused: Collection[Claim], came_first: Mapping[Identity, Event | None] | None = None
) -> list[Event]:
    """The raw events as they stand in the end where the ``refused`` changes were listed instead of taken.

    Each event has at most one revision, and one withdrawal after it; repeats change nothing.
    Changes that came together are refused together: then the listed withdrawal is that of the first content.
    Of several events with one identity, the first stands, or is refused: the first that is said, or the one that ``came_first``
    (None: the first one was rejected).
    """
    said = list(said)
    firsts: dict[Identity, Any] = dict(came_first or {})
    rivals = {claim_of(each) for each in said if _is_rival(each, firsts)}
    never = {each[1:3] for each in refused if each[0] == "insert" and each not in rivals}
    stands: dict[Identity, Event | None] = {}
    again: set[Claim] = set()
    for each in said:
        identity = IDENTITY(each.event)
        if type(each) is Insert:
            if claim_of(each) not in rivals:
                stands.setdefault(identity, each.event)
            continue
        if claim_of(each) in again:
            continue
        again.add(claim_of(each))
        if type(each) is Revise:
            if stands[identity] == each.old and claim_of(each) not in refused:
                stands[identity] = each.event
        elif claim("retract", firsts[identity]) in refused:
            stands[identity] = firsts[identity]
        elif claim_of(each) not in refused:
            stands[identity] = None
    return [event for identity, event in stands.items() if event is not None and identity not in never]


def sound(said: Iterable[Said]) -> list[Said]:
    """The changes without those to events that are not there."""
    kept: list[Said] = []
    versions: dict[Identity, list[Event]] = {}
    for each in said:
        before = versions.setdefault(IDENTITY(each.event), [])
        if type(each) is Insert or (each.old if type(each) is Revise else each.event) in before:
            kept.append(each)
            before.append(each.event)
    return kept


def with_changes(rng: random.Random, arrived: Sequence[Event], share: float, repeats: int) -> list[Said]:
    """Events as they arrive, a share of them later revised, withdrawn, or both; and some changes said again."""
    rows: list[tuple[float, Said]] = [(place, Insert(event)) for place, event in enumerate(arrived)]
    for place, event in enumerate(arrived):
        if rng.random() >= share:
            continue
        at = place + rng.choice([0, 0, 3, 20, 60]) * rng.random() + 0.5
        if rng.random() < 0.7:
            moved = rng.choice([0, 0, 0, 1, -2, 9])
            new = replace(event, value=(event.value + rng.randint(1, 9)) % 10, ts=max(event.ts + moved, 0))  # type: ignore[attr-defined]
            rows.append((at, Revise(new, event)))
            if rng.random() < 0.3:
                rows.append((at + rng.choice([0.1, 5, 30]), Retract(new)))
        else:
            rows.append((at, Retract(event)))
    said = [each for _, each in sorted(rows, key=lambda row: row[0])]
    for place in sorted(rng.sample(range(len(said)), min(repeats, len(said))), reverse=True):
        said.insert(rng.randrange(place + 1, min(len(said), place + 40) + 1), said[place])
    return said
