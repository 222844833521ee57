"""``slackline bench sequence``: sequence queries over disorder against a plain Python loop, and what disorder costs."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from slackline_benchmarks import by_hand
from slackline_benchmarks.core_baselines import matcher_in_order
from slackline_benchmarks.workload import DELAY, A, B, C, D, E, F, Found, batches, delayed, measured, tagged, timed, ways

from detectors.sequence.planning.sequence_plan import SequencePlan
from detectors.sequence.sequence_operator import SequenceQuery
from detectors.sequence.strategies.native_plan import specification
from middleware import native
from middleware.model.event import NEVER, Event

TYPES = (A, B, C, D, E, F, Found)
RETURN = "WITHIN 2 s RETURN Found(a.tag AS tag, a.ts AS first, c.ts AS last)"
NEGATION = f"EVENT SEQ(A a, !(B b), C c) WHERE a.tag = b.tag AND b.tag = c.tag {RETURN}"
PLAIN = f"EVENT SEQ(A a, B b, C c) WHERE a.tag = b.tag AND b.tag = c.tag {RETURN}"


def bench_sequence(rounds: int) -> list[dict[str, Any]]:
    """Events per second of both queries in a unit, results early or through the barrier; baseline: the loop by hand.

    ``sequence.overhead`` is processor time per event (ns) of input in order, with all that disorder asks for against the
    same stacks without it (append semantics, construction for the last step alone).
    """
    ordered = tagged()
    arrivals = delayed(ordered)
    ours = sequence_cases(arrivals)
    pairs: list[tuple[float, float]] = []
    plan = SequenceQuery(PLAIN, TYPES, "Bench").plan
    steps: list[Event] = [event for event in ordered if isinstance(event, (A, B, C))]
    for _ in range(3 * rounds):  # short runs, small difference
        pairs.append((timed(core_run(plan, steps, False)), timed(core_run(plan, steps, True))))
    value, baseline = (median(side) / len(steps) * 1e9 for side in zip(*pairs, strict=True))
    ratio = median(ours / bare for ours, bare in pairs)
    overhead = {"name": "sequence.overhead", "value": value, "unit": "ns/event", "baseline": baseline, "ratio": ratio}
    return [*measured(ours, rounds), overhead]


def sequence_cases(arrivals: list[Event]) -> list[Any]:
    """Both queries over what arrives, each beside its loop."""
    return [
        *ways("sequence.negation", lambda: SequenceQuery(NEGATION, TYPES, "Bench"), arrivals, by_hand.negation),
        *ways("sequence.plain", lambda: SequenceQuery(PLAIN, TYPES, "Bench"), arrivals, by_hand.plain),
    ]


def core_run(plan: SequencePlan, ordered: list[Event], in_order: bool) -> Callable[[], None]:
    """The native core alone, over input in order; with ``in_order`` without all that disorder asks for."""
    given = batches(ordered, 256)

    def run() -> None:
        make = matcher_in_order if in_order else native.SequenceMatcher
        core = make(specification(plan, "Bench", 1), lambda event, reason: None)
        for batch in given:
            newest = batch[-1].ts
            core.apply(batch, [], newest, newest if in_order else max(NEVER, newest - DELAY))

    return run
