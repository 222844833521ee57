"""The contract of a detector, point by point: each function tries to prove a detector wrong on a sequence of events.

Each returns what is wrong, in words, or an empty text. ``checks`` runs them, and reduces the failing input.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest

import cloudpickle
import msgspec

from middleware.model.detector import Detector, check_declaration, check_state, detector_name, fresh, key_function
from middleware.model.errors import ENDING, DetectorError
from middleware.model.event import IDENTITY, MAX_TS, Event, type_name
from middleware.model.identity import canonical, levels
from middleware.model.values.constants import differing, picture
from middleware.model.values.state import same_state
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.hidden import hidden_calls, shared_state
from middleware.testing.oracle import oracle
from middleware.testing.trial import EventOutcome, Trial, difference, run_in_fresh_processes, step

CUTS = 6
HASH_SEEDS = (1, 2)
ALL_IN_TIME = Lateness(floor=MAX_TS)
ARRIVALS = (
    (Policies(alpha=0.0, lateness=ALL_IN_TIME), 1, 3),
    (Policies(alpha=0.0, lateness=ALL_IN_TIME, spacing=4), 4, 100),
    (Policies(alpha=0.0, lateness=ALL_IN_TIME, retraction=Retraction.FULL), 3, 10),
    (Policies(alpha=0.5), 3, 6),
    (Policies(alpha=1.0), 8, 100),
)
"""The trials of arrival order: policies, events per batch, and by how many positions an event may be late."""


def declaration(trial: Trial) -> str:
    """The class can be made, and what it declares makes sense."""
    name = trial.detector_class.__name__
    try:
        detector = trial.make()
    except ENDING:
        raise
    except BaseException as error:
        return f"{name} cannot be made: {type(error).__name__}: {error}"
    if not isinstance(detector, Detector):
        return f"{name} is no subclass of slackline.Detector"
    try:
        check_declaration(detector)
        check_state(detector, name)
        levels({detector_name(detector): detector})  # it must not read what it publishes
    except DetectorError as error:
        return str(error)
    return ""


def keys(trial: Trial, events: list[Event]) -> str:
    key = key_function(trial.make())
    for event in events if key else ():
        try:
            if key is not None:
                canonical(key(event))
        except ENDING:
            raise
        except BaseException as error:
            return f"key of {event!r}: {type(error).__name__}: {error}"
    return ""


def takes_its_input(trial: Trial, events: list[Event]) -> str:
    for event, outcome in zip(events, trial.run(events), strict=True):
        if outcome.raised:
            return f"on_event raised {outcome.raised}\nat {event!r}"
    return ""


def results(trial: Trial, events: list[Event]) -> str:
    """Results and fields have the declared types, stamps within backdate, unique identities, and can be encoded."""
    known: set[int] = set()
    for event, outcome in zip(events, trial.run(events), strict=True):
        problem = outcome.malformed or next(filter(None, map(_unfit_for_the_wire, outcome.events)), "")
        if again := [result for result in outcome.events if result.id in known]:
            problem = f'{again[0]!r} is not the first with its time stamp, but identity = "time" is declared'
        if problem:
            return f"{problem}\nat {event!r}"
        known.update(result.id for result in outcome.events)
    return ""


def _unfit_for_the_wire(event: Event) -> str:
    try:
        data = msgspec.msgpack.encode(event)
        there = msgspec.msgpack.decode(data, type=type(event))
        is_same = there == event or data == msgspec.msgpack.encode(there)  # sets come in any order; NaN is unlike itself
    except (TypeError, ValueError) as error:
        return f"{type_name(type(event))} cannot be sent: {error}"
    return "" if is_same else f"{event!r} is not the same after it was sent"


def purity(trial: Trial, events: list[Event]) -> str:
    return difference(events, trial.run(events), trial.run(events))


def fresh_process(trial: Trial, events: list[Event]) -> str:
    here = trial.run(events)
    for (there,) in run_in_fresh_processes(trial, [events], HASH_SEEDS):
        if found := difference(events, there, here):
            return found
    return ""


def hidden_inputs(trial: Trial, events: list[Event]) -> str:
    trial.run(events)  # imports the modules that the detector imports as it runs
    detector = trial.make()
    calls: dict[str, None] = {}
    for event in events:
        calls.update(dict.fromkeys(hidden_calls(partial(_call, detector, event))))
    return "on_event calls " + ", ".join(calls) if calls else ""


def _call(detector: Detector, event: Event) -> None:
    try:
        result = detector.on_event(event)
        if isinstance(result, Iterable):
            list(result)
    except ENDING:
        raise
    except BaseException:
        return  # another check looks for this


def instances(trial: Trial, events: list[Event]) -> str:
    """Shared state never changes, and two instances in turn, or two keys of one detector, do what each does alone."""
    before = shared_state(trial.detector_class)
    alone = trial.run(events)
    if names := differing(before, shared_state(trial.detector_class)):
        return f"a run changes what all instances share: {', '.join(names)}"
    detector = trial.make()
    pairs = {"two instances": (trial.make(), trial.make()), "two keys of one detector": (fresh(detector), fresh(detector))}
    for who, (one, other) in pairs.items():
        if found := difference(events, _in_turns(trial, one, other, events), alone):
            return f"{who} share something\n{found}"
    return ""


def _in_turns(trial: Trial, one: Detector, other: Detector, events: list[Event]) -> list[EventOutcome]:
    """The outcomes of the first of two instances, while the other gets some of the events, too."""
    derivation = trial.derivation()
    first: list[EventOutcome] = []
    for number, event in enumerate(events):
        first.append(step(one, derivation, event))
        step(other, derivation, events[number // 2])
    return first


def events_stay(trial: Trial, events: list[Event]) -> str:
    """No event is changed: other detectors get the same object, and a replay gets it again."""
    for event in events:
        before = picture(event)
        trial.run([event])
        if picture(event) != before:
            return f"on_event changes the event it is given, which is now {event!r}"
    return ""


def _cuts(events: list[Event]) -> list[int]:
    return sorted({len(events) * part // CUTS for part in range(CUTS + 1)})


def round_trip(trial: Trial, events: list[Event]) -> str:
    """An instance restored from a snapshot, or from its pickle, continues like the one it was taken from."""
    whole = trial.run(events)
    for cut in _cuts(events):
        detector = trial.make()
        trial.run(events[:cut], detector)
        for how, kept in _KEPT.items():
            other = trial.make()
            other.restore(kept(detector.snapshot()))
            if found := difference(events[cut:], trial.run(events[cut:], other), whole[cut:]):
                return f"a snapshot after {cut} events, {how}, continues differently\n{found}"
    return ""


def _same(state: object) -> object:
    return state


def _pickled(state: object) -> object:
    return pickle.loads(cloudpickle.dumps(state))


_KEPT: dict[str, Callable[[object], object]] = {"restored": _same, "pickled and restored": _pickled}


def independence(trial: Trial, events: list[Event]) -> str:
    """A snapshot does not change while the detectors that gave it, or were restored from it, continue."""
    whole = trial.run(events)
    for cut in _cuts(events):
        detector = trial.make()
        trial.run(events[:cut], detector)
        state = detector.snapshot()
        trial.run(events[cut:], detector)
        for time in ("first", "second"):
            detector.restore(state)
            if found := difference(events[cut:], trial.run(events[cut:], detector), whole[cut:]):
                return f"a snapshot after {cut} events was changed by the events after it ({time} restore)\n{found}"
    return ""


def equal_states(trial: Trial, events: list[Event]) -> str:
    for cut in _cuts(events):
        one, other = trial.make(), trial.make()
        trial.run(events[:cut], one)
        trial.run(events[:cut], other)
        if not same_state(one.snapshot(), other.snapshot()):
            return (
                f"after the same {cut} events two instances give snapshots that differ: {one.snapshot()} and {other.snapshot()}"
            )
    return ""


def replay(trial: Trial, events: list[Event]) -> str:
    """Events in shuffled order, for which one instance rolls back and replays at each late one, as an ordering unit does."""
    order = random.Random(len(events)).sample(range(len(events)), len(events))
    detector, derivation = trial.make(), trial.derivation()
    seen: list[int] = []
    states: list[object] = []
    outcomes: list[EventOutcome] = []
    for position in order:
        index = sum(other < position for other in seen)
        late = index < len(seen)
        if late:
            detector.restore(states[index])
        seen.insert(index, position)
        del states[index + late :], outcomes[index:]  # the restored state is used again
        for again in seen[index:]:
            if len(states) == len(outcomes):
                states.append(detector.snapshot())
            outcomes.append(step(detector, derivation, events[again]))
    return difference(events, outcomes, trial.run(events))


def arrival_order(trial: Trial, events: list[Event]) -> str:
    """The engine's results on out-of-order events equal the oracle's, for any disorder, batches and alpha."""
    name = detector_name(trial.make())
    for number, (policies, batch, reach) in enumerate(ARRIVALS):
        generator = random.Random(number)
        shifted = {IDENTITY(event): index + generator.uniform(0, reach) for index, event in enumerate(events)}
        arrived = sorted(events, key=lambda event: shifted[IDENTITY(event)])
        ran = run(arrived, [trial.make()], policies=policies, batch=batch, failing="skip")
        expected = oracle(events, [trial.make()], ran.late_identities())[name]
        if found := _parting(ran.finals[name], expected):
            return f"out of order, alpha = {policies.alpha}, {policies.retraction} retraction, batches of {batch}: {found}"
    return ""


def _parting(results: Sequence[Event], expected: Sequence[Event]) -> str:
    """Where two streams of results differ, in words; empty if they do not."""
    singles = ([EventOutcome((event,)) for event in stream] for stream in (results, expected))
    for mine, yours in zip_longest(*singles, fillvalue=EventOutcome()):
        if mine.fingerprint() != yours.fingerprint():
            return f"{mine}\ninstead of: {yours}"
    return ""


def differing_elsewhere(trial: Trial, lanes: list[list[Event]]) -> list[list[Event]]:
    """The lanes with other outcomes in fresh processes: processes are expensive, so all lanes go through the same ones."""
    here = [trial.run(lane) for lane in lanes]
    try:
        everywhere = run_in_fresh_processes(trial, lanes, HASH_SEEDS)
    except DetectorError:
        return lanes[:1]
    return [
        lane for number, lane in enumerate(lanes) if any(difference(lane, there[number], here[number]) for there in everywhere)
    ]
