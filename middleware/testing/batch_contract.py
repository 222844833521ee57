"""The further contract of detectors on columns: the same results and state for all cuts of batches, and keys that do not meet.

Each function tries to prove a detector wrong on a sequence of events, as those in ``contract`` do.
"""

from __future__ import annotations

import random
from itertools import pairwise

from middleware.model.detector import Detector, batch_results
from middleware.model.event import IDENTITY, Event
from middleware.model.identity import Derivation
from middleware.model.values.state import same_state
from middleware.ordering.lanes.batch_lane import EventBatch
from middleware.testing.trial import EventOutcome, Trial, difference, step

_WAYS = 4
"""How many ways of cutting a sequence are tried."""


def any_cuts(trial: Trial, events: list[Event]) -> str:
    """Batches of any size lead to the results and states that batches of one lead to."""
    derivation = trial.derivation()
    detector = trial.make()
    alone: list[EventOutcome] = []
    states = [detector.snapshot()]
    for event in events:
        alone.append(step(detector, derivation, event))
        states.append(detector.snapshot())
    for seed in range(_WAYS):
        if found := _cut(trial.make(), derivation, events, _cuts(len(events), seed), alone, states):
            return found
    return ""


def _cuts(length: int, seed: int) -> list[int]:
    """Where to cut: nowhere first, then at random."""
    rng = random.Random(seed)
    most = seed and max(1, length // (2 * seed))
    cuts = [0]
    while cuts[-1] < length:
        cuts.append(min(length, cuts[-1] + (rng.randint(1, most) if most else length)))
    return cuts


def _cut(
    detector: Detector,
    derivation: Derivation,
    events: list[Event],
    cuts: list[int],
    alone: list[EventOutcome],
    states: list[object],
) -> str:
    """The differences between batches that end at ``cuts`` and batches of one, in words. Events that raise alone stay out of
    batches."""
    for start, stop in pairwise(cuts):
        sound_events = [at for at in range(start, stop) if not (alone[at].raised or alone[at].malformed)]
        if not sound_events:
            continue
        part, what = [events[at] for at in sound_events], f"a batch of {len(sound_events)} events, behind {start} others,"
        outcomes = [EventOutcome() for _ in part]
        try:
            for row, result in batch_results(detector, EventBatch(part[0].__class__, part)):
                before = outcomes[row].events
                outcomes[row] = EventOutcome((*before, result))
            outcomes = [EventOutcome(tuple(derivation(event, each.events))) for event, each in zip(part, outcomes, strict=True)]
        except Exception as error:
            return f"{what} raises {type(error).__name__}: {error}; each of them alone does not"
        if found := difference(part, outcomes, [alone[at] for at in sound_events]):
            return f"{what} gives other results than batches of one\n{found}"
        if not same_state(detector.snapshot(), states[stop]):
            return f"{what} leaves another state than batches of one: {detector.snapshot()} instead of {states[stop]}"
    return ""


def keys_apart(trial: Trial, events: list[Event]) -> str:
    """The results of a key are those of its events alone."""
    together = {IDENTITY(event): outcome for event, outcome in zip(events, trial.run(events), strict=True)}
    for lane in trial.lanes(events):
        if found := difference(lane, [together[IDENTITY(event)] for event in lane], trial.run(lane)):
            return f"events of other keys change the results of a key\n{found}"
    return ""
