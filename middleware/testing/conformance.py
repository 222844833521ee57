"""The conformance suite: checks that a detector keeps its contract.

Each check tries to prove a detector wrong on drawn input (``examples``), and shows the smallest input that did.
Passing is no proof, but a detector that fails here would sooner or later give wrong results on out-of-order input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from middleware.model.detector import Detector, takes_batches
from middleware.model.event import Event
from middleware.provenance.smallest import smallest
from middleware.testing import batch_contract, contract
from middleware.testing.examples import sequences
from middleware.testing.trial import Trial

State = Literal["pass", "fail", "skip", "warn"]
Sequences = list[list[Event]]


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of one check. ``warn``: nothing is wrong, but little was tried.

    ``example``: the smallest failing input found, event by event, as text.
    """

    check: str
    state: State
    problem: str = ""
    example: list[str] = []
    advice: str = ""


class Check(NamedTuple):
    """One point of the contract.

    ``find``
        returns what is wrong with a detector on a sequence of events, or an empty text.
    ``whole``
        whether it takes whole sequences; else it takes the events of one key, which are all that one instance may see.
    ``sift``
        picks the sequences worth trying, if ``find`` is expensive.
    ``attempts``
        the most attempts to find a smaller example.
    """

    name: str
    find: Callable[[Trial, list[Event]], str]
    advice: str
    whole: bool = False
    sift: Callable[[Trial, Sequences], Sequences] | None = None
    attempts: int = 300


CHECKS = [
    Check(
        "keys",
        contract.keys,
        "the key of an event is a simple value (int, str, tuple of these), made of its fields alone",
        whole=True,
    ),
    Check(
        "takes its input",
        contract.takes_its_input,
        "mend it; or, if such events cannot occur, say so in the type (Annotated[int, Meta(ge=0)]) or give examples()",
    ),
    Check(
        "results well formed",
        contract.results,
        "return events of the types in publishes; declare backdate if results predate causes, identity as it is",
    ),
    Check(
        "no hidden inputs",
        contract.hidden_inputs,
        "use event.ts for the time; keep a random.Random(seed) of its own; leave input and output to other programs",
    ),
    Check(
        "events stay as they are",
        contract.events_stay,
        "events are shared: take a copy of a list or dict of an event before changing it",
    ),
    Check("pure: same in, same out", contract.purity, "results may depend on the events and the instance's attributes alone"),
    Check(
        "pure: fresh processes",
        contract.fresh_process,
        "do not iterate over sets, use hash() or id(), or rely on anything that another process has otherwise: sort first",
        sift=contract.differing_elsewhere,
        attempts=12,
    ),
    Check(
        "instances share nothing",
        contract.instances,
        "make lists, dicts and counters in __init__, not in the class, module or defaults",
    ),
    Check(
        "snapshot: round trip",
        contract.round_trip,
        "snapshot() must hold all that on_event reads and changes; restore() must put it back",
    ),
    Check(
        "snapshot: independent",
        contract.independence,
        "snapshot() and restore() must copy: no list or dict of the detector's own",
    ),
    Check(
        "snapshot: equal if the state is",
        contract.equal_states,
        "give simple values (numbers, text, list, dict, tuple) that compare by value",
    ),
    Check(
        "replay stable",
        contract.replay,
        "all that on_event changes must be part of the snapshot, and nothing else may remember events",
    ),
    Check(
        "any order of arrival",
        contract.arrival_order,
        "mend what fails above; if this alone fails, the fault is Slackline's: please report it with the example",
        whole=True,
    ),
]

ON_COLUMNS = [
    Check(
        "batches: any cuts",
        batch_contract.any_cuts,
        "results and state may hang on the events and their order alone: carry over what a batch leaves open in attributes",
        whole=True,
    ),
    Check(
        "batches: keys apart",
        batch_contract.keys_apart,
        "a batch has the events of all keys: keep what belongs to a key by key, in arrays with an element a key, or a dict",
        whole=True,
    ),
]
"""For detectors that define ``on_batch``."""


def check_detector(
    detector_class: type[Detector], settings: dict[str, Any] | None = None, *, count: int = 30, length: int = 60, seed: int = 0
) -> list[Verdict]:
    """Run the whole suite on a detector class, which is made with ``settings`` as arguments.

    The input is ``count`` drawn sequences of up to ``length`` events, or the detector's own ``examples()``. A seed always draws
    the same input. Raises EventError if no input can be drawn. O(count * length^2) events are processed.
    """
    trial = Trial(detector_class, settings or {})
    problem = contract.declaration(trial)
    if problem:
        advice = "mend this first: the other checks need it"
        return [Verdict("declaration", "fail", problem, advice=advice), *(Verdict(check.name, "skip") for check in CHECKS)]
    checks = CHECKS + (ON_COLUMNS if takes_batches(detector_class) else [])
    inputs = sequences(trial.make(), count, length, seed)
    verdicts = [Verdict("declaration", "pass"), verdict(checks[0], trial, inputs)]
    if verdicts[-1].state == "fail":
        return [*verdicts, *(Verdict(check.name, "skip") for check in checks[1:])]
    lanes = [lane for events in inputs for lane in trial.lanes(events)[:2]]
    verdicts += [verdict(check, trial, inputs if check.whole else lanes) for check in checks[1:]]
    return [*verdicts, exercised(trial, lanes)]


def verdict(check: Check, trial: Trial, inputs: list[list[Event]]) -> Verdict:
    """Try one check on all inputs, and make the first failing input as small as possible."""
    for events in check.sift(trial, inputs) if check.sift else inputs:
        problem = _problem(check, trial, events)
        if problem:
            example = smallest(events, lambda part: bool(part and _problem(check, trial, part)), check.attempts)
            return Verdict(
                check.name, "fail", _problem(check, trial, example) or problem, list(map(repr, example)), check.advice
            )
    return Verdict(check.name, "pass")


def exercised(trial: Trial, lanes: Sequences) -> Verdict:
    """Whether the input led to any results: on input that a detector ignores, every check passes."""
    found = sum(len(outcome.events) for lane in lanes for outcome in trial.run(lane))
    if found or not trial.detector_class.publishes:
        return Verdict("exercised", "pass")
    problem = f"none of the {sum(map(len, lanes))} events led to a result, so that the checks above say little"
    return Verdict(
        "exercised", "warn", problem, advice="give the detector a class method examples() whose events lead to results"
    )


def _problem(check: Check, trial: Trial, events: list[Event]) -> str:
    try:
        return check.find(trial, events)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
