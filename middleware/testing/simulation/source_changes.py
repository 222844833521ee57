"""The changes of publishers in a simulated world, and the events that are left where some of these were refused."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from middleware.link.codec import encode
from middleware.model.change import Insert, Retract, Revise
from middleware.model.event import IDENTITY, Event, Identity

SourceChange = Insert | Revise | Retract

Claim = tuple[str, str, int, bytes]
"""A change as ledgers list it: insert, revise or retract; source; id; the event (for a revision, the new one) as bytes."""


def claim(change: str, event: Event) -> Claim:
    """A change as it is listed."""
    return change, event.source, event.id, encode(event)


def claim_of(change: SourceChange) -> Claim:
    """A change of a publisher as it is listed."""
    return claim("insert" if type(change) is Insert else "revise" if type(change) is Revise else "retract", change.event)


def earliest_time(change: SourceChange) -> int:
    """The time at or below which nothing may be promised before this change is sent."""
    return min(change.event.ts, change.old.ts) if type(change) is Revise else change.event.ts


def contested(changes: Iterable[SourceChange]) -> set[Identity]:
    """The identities that several different events share."""
    firsts: dict[Identity, Event] = {}
    return {IDENTITY(each.event) for each in changes if _is_rival(each, firsts)}


def _is_rival(change: SourceChange, firsts: dict[Identity, Event]) -> bool:
    return type(change) is Insert and firsts.setdefault(IDENTITY(change.event), change.event) != change.event


def accepted_events(
    changes: Iterable[SourceChange], refused: Collection[Claim], came_first: Mapping[Identity, Event | None] | None = None
) -> list[Event]:
    """The raw events as they stand in the end where the ``refused`` changes were listed instead of taken.

    Each event has at most one revision, and one withdrawal after it; repeats change nothing.
    Changes that came together are refused together: then the listed withdrawal is that of the first content.
    The first of several events with one identity is kept, or refused: the first that is sent, or the one that ``came_first``
    (None: the first one was rejected).
    """
    changes = list(changes)
    firsts: dict[Identity, Any] = dict(came_first or {})
    rivals = {claim_of(each) for each in changes if _is_rival(each, firsts)}
    never = {each[1:3] for each in refused if each[0] == "insert" and each not in rivals}
    stands: dict[Identity, Event | None] = {}
    again: set[Claim] = set()
    for each in changes:
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


def consistent(changes: Iterable[SourceChange]) -> list[SourceChange]:
    """The changes without those to events that are not there."""
    kept: list[SourceChange] = []
    versions: dict[Identity, list[Event]] = {}
    for each in changes:
        before = versions.setdefault(IDENTITY(each.event), [])
        if type(each) is Insert or (each.old if type(each) is Revise else each.event) in before:
            kept.append(each)
            before.append(each.event)
    return kept


def with_changes(rng: random.Random, arrived: Sequence[Event], share: float, repeats: int) -> list[SourceChange]:
    """Events as they arrive, a share of them later revised, withdrawn, or both; and some changes sent again."""
    rows: list[tuple[float, SourceChange]] = [(index, Insert(event)) for index, event in enumerate(arrived)]
    for index, event in enumerate(arrived):
        if rng.random() >= share:
            continue
        at = index + rng.choice([0, 0, 3, 20, 60]) * rng.random() + 0.5
        if rng.random() < 0.7:
            moved = rng.choice([0, 0, 0, 1, -2, 9])
            new = replace(event, value=(event.value + rng.randint(1, 9)) % 10, ts=max(event.ts + moved, 0))  # type: ignore[attr-defined]
            rows.append((at, Revise(new, event)))
            if rng.random() < 0.3:
                rows.append((at + rng.choice([0.1, 5, 30]), Retract(new)))
        else:
            rows.append((at, Retract(event)))
    changes = [each for _, each in sorted(rows, key=lambda row: row[0])]
    for index in sorted(rng.sample(range(len(changes)), min(repeats, len(changes))), reverse=True):
        changes.insert(rng.randrange(index + 1, min(len(changes), index + 40) + 1), changes[index])
    return changes
