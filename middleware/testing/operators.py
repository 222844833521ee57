"""The conformance suite for incremental operators: any history of the same events must give the same results (design 6.2).

A history is the way to a final set of events: the order and batches in which they arrived, events that came and were
withdrawn, revisions, and the passage of time in between. ``play`` runs one and checks every promise of
``middleware.model.operator.Operation`` on the way; compare what it returns with an oracle, or with another history.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable
from random import Random
from typing import NamedTuple

from middleware.model.change import Delta
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event, Identity
from middleware.model.operator import Operation, Operator


class ApplyCall(NamedTuple):
    """The arguments of one call of an operation: see ``Operation.apply``."""

    delta: Delta
    emitted: int
    final: int


def in_order(events: Iterable[Event]) -> list[ApplyCall]:
    """The simplest history: everything at once, in total order, and the end."""
    return [ApplyCall(Delta(sorted(events, key=ORDER)), END, END)]


def history(
    events: Iterable[Event],
    generator: Random,
    passing: Iterable[Event] = (),
    revised: Iterable[tuple[Event, Event]] = (),
    batch: int = 4,
) -> list[ApplyCall]:
    """A history that ends with exactly ``events`` and the new content of the ``revised`` ones.

    ``passing``
        events that come and are later withdrawn.
    ``revised``
        (old, new) pairs of one identity.
    ``batch``
        the average number of changes that come at once.
    """
    placed: list[tuple[float, list[Event], list[Event]]] = []  # when; withdrawn events; inserted events
    for event in events:
        placed.append((generator.random(), [], [event]))
    for event in passing:
        start, end = sorted((generator.random(), generator.random()))
        placed += [(start, [], [event]), (end, [event], [])]
    for old, new in revised:
        start, end = sorted((generator.random(), generator.random()))
        placed += [(start, [], [old]), (end, [old], [new])]
    placed.sort(key=lambda each: each[0])
    return _timed(_batched([(gone, come) for _, gone, come in placed], generator, batch), generator)


def _batched(actions: list[tuple[list[Event], list[Event]]], generator: Random, batch: int) -> list[Delta]:
    """Consolidated deltas: an event that comes and goes within one delta is not in it."""
    deltas = []
    while actions:
        count = generator.randint(1, 2 * batch - 1)
        there: dict[Identity, Event] = {}
        gone: dict[Identity, Event] = {}
        for withdrawn, inserted in actions[:count]:
            for event in withdrawn:
                if there.pop(IDENTITY(event), None) is None:
                    gone[IDENTITY(event)] = event
            there.update((IDENTITY(event), event) for event in inserted)
        unchanged = [identity for identity, event in there.items() if gone.get(identity) == event]
        for identity in unchanged:
            del there[identity], gone[identity]
        arrived = list(there.values())
        generator.shuffle(arrived)
        deltas.append(Delta(arrived, [], list(gone.values())))
        actions = actions[count:]
    return deltas


def _timed(deltas: list[Delta], generator: Random) -> list[ApplyCall]:
    """Deltas with times that keep a unit's promises: no event at or below ``final``, or above ``emitted``."""
    bounds = []  # the earliest time that is still to come
    earliest = END
    for delta in reversed(deltas):
        bounds.append(earliest)
        earliest = min([earliest, *(event.ts for event in delta.inserts + delta.retracts)])
    emitted = final = NEVER
    moments = []
    for delta, bound in zip(deltas, reversed(bounds), strict=True):
        latest = max(event.ts for event in delta.inserts + delta.retracts) if delta else emitted
        emitted = max(emitted, latest + generator.choice((0, 0, 1, 5)))
        if bound != END and generator.random() < 0.5:
            final = max(final, min(bound - 1 - generator.choice((0, 0, 1, 5)), emitted))
        moments.append(ApplyCall(delta, emitted, final))
    return [*moments, ApplyCall(Delta(), END, END)]


def play(operator: Operator, moments: Iterable[ApplyCall], restarts: Collection[int] = (), level: int = 1) -> list[Event]:
    """Run an operator through a history; returns its results in total order.

    At the moments in ``restarts`` it is replaced by a new one with the restored state, which is encoded only after the old one
    has gone on. Raises AssertionError if a promise is broken: a final result changed, a change that does not name the content
    published last, a missing stamp.
    """
    operation = operator.start("Tested", level)
    published: dict[Identity, Event] = {}
    promised = NEVER
    for number, moment in enumerate(moments):
        if number in restarts:
            operation = _restarted(operator, operation, moment, level)
        given = Delta(list(moment.delta.inserts), [], list(moment.delta.retracts))
        out = operation.apply(given, moment.emitted, moment.final)
        assert given == moment.delta, "the operation changed its input"
        _check(out, promised, operator, level)
        for event in out.retracts:
            assert published.pop(IDENTITY(event), None) == event, f"withdrawn, but not as published last: {event}"
        for old, new in out.revises:
            assert IDENTITY(old) == IDENTITY(new), f"revised into another identity: {old}, {new}"
            assert published.get(IDENTITY(old)) == old, f"revised, but not as published last: {old}"
            is_other = old != new or repr(old) != repr(new)  # 0.0 and -0.0 are equal, but not the same
            assert is_other, f"revised into itself: {new}"
            published[IDENTITY(new)] = new
        for event in out.inserts:
            assert IDENTITY(event) not in published, f"published twice: {event}"
            published[IDENTITY(event)] = event
        promised = moment.final
    return sorted(published.values(), key=ORDER)


def _restarted(operator: Operator, operation: Operation, moment: ApplyCall, level: int) -> Operation:
    snapshot = operation.snapshot()
    operation.apply(Delta(list(moment.delta.inserts), [], list(moment.delta.retracts)), moment.emitted, moment.final)
    state = pickle.loads(pickle.dumps(snapshot))
    fresh = operator.start("Tested", level)
    fresh.restore(state)
    return fresh


def _check(out: Delta, promised: int, operator: Operator, level: int) -> None:
    """Check each change by itself."""
    events = [*out.inserts, *out.retracts, *(event for pair in out.revises for event in pair)]
    for event in events:
        assert event.ts > promised, f"changed after it was final (watermark {promised}): {event}"
        assert event.__class__ in operator.publishes, f"of a type that is not declared: {event}"
        assert (event.source, event.level) == ("Tested", level), f"not stamped: {event}"
    inserted = [IDENTITY(event) for event in out.inserts] + [IDENTITY(new) for _, new in out.revises]
    assert len(set(inserted)) == len(inserted), "two changes of one result at once"
