"""Net effects: of single changes, of deltas that came one after another, and of deltas with nothing in common."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from middleware.model.change import Change, Delta, Insert, Retract, Revise, combined, composed, consolidate
from middleware.model.event import Event


class Level(Event):
    value: Any = 0


class Peak(Event):
    value: Any = 0


VALUES = st.sampled_from([0, 1, True, 0.0, -0.0, 2.5, (1,), None])
STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([Level, Peak]), VALUES, st.sampled_from("ird"), st.booleans()))


def content(event: Event | None) -> object:
    """All there is to an event, so that 0.0 and -0.0, 1 and True differ."""
    return repr(event)


def history(steps: list[tuple[int, type[Level] | type[Peak], Any, str, bool]]) -> tuple[list[Delta], dict[int, Event]]:
    """Deltas that a producer may send one after another, and what stands in the end."""
    there: dict[int, Event] = {}
    deltas, touched = [Delta(early=[])], set[int]()
    for number, kind, value, what, is_new_delta in steps:
        if is_new_delta or number in touched:
            deltas.append(Delta(early=[] if len(deltas) % 2 else None))
            touched = set()
        delta, before = deltas[-1], there.get(number)
        now = kind(value, ts=number, id=number, source="s")
        if before is None and what == "i":
            delta.inserts.append(now)
            if delta.k_plus is not None:
                delta.k_plus.append(number)
            there[number] = now
        elif before is not None and what == "r" and type(before) is kind:
            delta.revises.append((before, now))
            there[number] = now
        elif before is not None and what == "d":
            delta.retracts.append(there.pop(number))
        else:
            continue
        touched.add(number)
    return deltas, there


def taken(changes: list[Change]) -> dict[int, str]:
    """What a consumer stands by that takes all changes in order, and refuses those that do not fit."""
    there: dict[int, Any] = {}
    for change in changes:
        match change:
            case Insert(event):
                assert event.id not in there
                there[event.id] = content(event)
            case Revise(event, old):
                assert there[event.id] == content(old)
                there[event.id] = content(event)
            case Retract(event):
                assert there.pop(event.id) == content(event)
    return there


@given(STEPS)
def test_whoever_takes_the_net_effect_stands_where_all_changes_lead(steps: Any) -> None:
    deltas, there = history(steps)
    net = composed(deltas)
    assert taken(list(net.changes())) == {number: content(event) for number, event in there.items()}
    one_by_one = consolidate(change for delta in deltas for change in delta.changes())
    assert sorted(map(content, net.inserts)) == sorted(map(content, one_by_one.inserts))
    assert net.revises == net.retracts == []
    early = dict(zip([event.id for event in net.inserts], net.k_plus or [0] * len(net.inserts), strict=True))
    expected = zip(one_by_one.inserts, one_by_one.k_plus or [0] * len(one_by_one.inserts), strict=True)
    assert early == {event.id: k_plus for event, k_plus in expected}


@given(STEPS, st.integers(0, 30))
@example([(0, Level, 0, "i", False), (0, Level, 0, "r", False)], 1)
def test_behind_any_beginning_it_leads_to_the_same_end(steps: Any, cut: int) -> None:
    deltas, there = history(steps)
    before, rest = deltas[:cut], deltas[cut:]
    changes = [change for delta in before for change in delta.changes()]
    net = composed(rest) if rest else Delta()
    assert taken([*changes, *net.changes()]) == {number: content(event) for number, event in there.items()}
    if len(rest) == 1:
        assert net == rest[0], "a delta by itself is its own net effect, with revisions that change nothing"
        return
    for old, new in net.revises:
        assert content(old) != content(new), "a revision that changes nothing"


def test_a_change_of_sign_or_type_is_one() -> None:
    zero, less = (Level(value, ts=1, id=1) for value in (0.0, -0.0))
    ((old, new),) = composed([Delta(revises=[(zero, less)]), Delta(retracts=[Level(ts=2, id=2)])]).revises
    assert math.copysign(1, old.value) == 1 and math.copysign(1, new.value) == -1
    (pair,) = consolidate([Revise(Level(True, ts=1, id=1), Level(1, ts=1, id=1))]).revises
    assert pair[1].value is True
    assert not consolidate([Revise(less, zero), Revise(zero, less)])


def test_what_stands_by_itself_is_strung_together() -> None:
    one, two, three = (Level(ts=ts, id=ts) for ts in (1, 2, 3))
    whole = combined([Delta([one]), Delta([two], [(three, three)], early=[5]), Delta(retracts=[three])])
    assert whole == Delta([one, two], [(three, three)], [three], early=[0, 5])
