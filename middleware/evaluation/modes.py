"""The modes that are compared with each other: one scenario, on one node, with other policies."""

from __future__ import annotations

import msgspec

from middleware.model.errors import ScenarioError
from middleware.runtime.plan import NodePlan, PolicyPlan
from middleware.runtime.scenario import Scenario

NODE = "evaluated"
"""The one node that runs everything, so that busy factor and CPU speak of one worker, as in the paper."""


class Mode(msgspec.Struct, frozen=True):
    """A mode: its name, what it is for people, and the keys of ``PolicyPlan`` in which it differs from the scenario.

    ``results_only``
        whether only the scenario's results are subscribed to, and not everything that is derived.
    ``speed``
        how fast the recording is replayed; 1: as it was.
    ``keyed``
        whether detectors keep their keys (counted runs only: without them the ids of results are others).
    """

    name: str
    title: str
    changes: dict[str, object]
    results_only: bool = False
    speed: float = 1.0
    keyed: bool = True


BUFFERING = Mode("buffering", "pure buffering", {"alpha": "buffering", "slack": "max", "lateness": "0s", "failing": "stop"})
"""The paper's baseline: events wait for K, the largest delay so far. Later events are lost; no result is ever corrected."""
DYNAMIC = Mode("dynamic", "dynamic alpha", {"alpha": "gain", "retraction": "on-demand", "spacing": "auto"})
PAPER = Mode("algorithm-3", "alpha by Algorithm 3", {"alpha": "adaptive", "retraction": "on-demand", "spacing": "auto"})
SPECULATION = Mode("speculation", "full speculation", {"alpha": 0.0})
FULL = Mode("full-retraction", "dynamic, full retraction", {"alpha": "gain", "retraction": "full"})
AUTO = Mode("auto-retraction", "dynamic, auto retraction", {"alpha": "gain", "retraction": "auto"})
FEW = Mode("results-only", "Algorithm 3, results only", {"alpha": "adaptive"}, results_only=True)
WEIGHTED = Mode("weighted", "weighted, results only", {"alpha": "weighted"}, results_only=True)
EVERY = Mode("snapshots-1", "snapshot at every event", {"alpha": "gain", "spacing": 1})
SPARSE = Mode("snapshots-128", "snapshot at every 128th", {"alpha": "gain", "spacing": 128})
UNKEYED = Mode("unkeyed", "without keys", {}, keyed=False)
PAPER_FULL = Mode("algorithm-3-full", "Algorithm 3, full retraction", {"alpha": "adaptive", "retraction": "full"})
PAPER_AUTO = Mode("algorithm-3-auto", "Algorithm 3, auto retraction", {"alpha": "adaptive", "retraction": "auto"})
FAST_BUFFERING, FAST_DYNAMIC, FAST_PAPER, FAST_SPECULATION = (
    Mode(f"{mode.name}-fast", f"{mode.title}, twice as fast", mode.changes, speed=2.0)
    for mode in (BUFFERING, DYNAMIC, PAPER, SPECULATION)
)

MODES = (
    BUFFERING,
    DYNAMIC,
    PAPER,
    SPECULATION,
    FULL,
    AUTO,
    EVERY,
    SPARSE,
    FEW,
    WEIGHTED,
    FAST_BUFFERING,
    FAST_DYNAMIC,
    FAST_PAPER,
    FAST_SPECULATION,
)
LONG = (BUFFERING, PAPER, PAPER_FULL, PAPER_AUTO, SPECULATION)
"""The modes that are compared over a long recording, in virtual time."""

QUICK = (BUFFERING, DYNAMIC, PAPER, SPECULATION, AUTO)


def in_mode(scenario: Scenario, mode: Mode) -> Scenario:
    """The scenario with all detectors on one node and the mode's policies. Raises ScenarioError."""
    plan = scenario.plan
    changed = msgspec.structs.replace(
        plan,
        nodes=(NodePlan(name=NODE, detectors=("*",)),),
        recording=msgspec.structs.replace(plan.recording, to=NODE),
        policies=_changed(plan.policies, mode),
        policies_for={name: _changed(each, mode) for name, each in plan.policies_for.items()},
    )
    return Scenario(changed, scenario.file)


def _changed(plan: PolicyPlan, mode: Mode) -> PolicyPlan:
    try:
        return msgspec.convert({**msgspec.to_builtins(plan), **mode.changes}, PolicyPlan)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"mode {mode.name}: {error}") from None
