"""The plans that are explored: the shortest ones in which each rule of the promises between nodes decides something."""

from __future__ import annotations

from msgspec.structs import replace

from middleware.testing.exploration.exploration_plan import ExplorationPlan, PublisherPlan, SubscriberPlan, acts

_TWO, _THREE = ("a", "b"), ("a", "b", "c")

_BASE = (
    ExplorationPlan(
        "start",
        _TWO,
        ("a",),
        (
            PublisherPlan("p", "a", acts("promise 0, flush, event 10, end")),
            PublisherPlan("q", "b", acts("promise 0, flush, event 5, end")),
        ),
    ),
    ExplorationPlan(
        "successor",
        _TWO,
        ("a",),
        (
            PublisherPlan("p", "a", acts("promise 5, event 1000, promise 1000, end")),
            PublisherPlan("q", "b", acts("event 10, end, leave")),
            PublisherPlan("r", "b", acts("promise 100, flush, event 500, end"), after="q"),
        ),
    ),
    ExplorationPlan(
        "resumed",
        _TWO,
        ("a",),
        (
            PublisherPlan("o", "b", acts("event 10, end, leave")),
            PublisherPlan("p", "a", acts("event 100, promise 100, end"), after="o"),
            PublisherPlan("q", "b", acts("promise 100, flush, event 200, end"), after="o"),
        ),
    ),
    ExplorationPlan(
        "readers",
        _TWO,
        _TWO,
        (
            PublisherPlan("p", "a", acts("promise 5, event 20, end, leave")),
            PublisherPlan("q", "b", acts("promise 5, event 10, end, leave")),
            PublisherPlan("r", "b", acts("promise 7, event 30, end"), after="q"),
        ),
    ),
    ExplorationPlan(
        "visitor",
        _TWO,
        (),
        (PublisherPlan("p", "b", acts("event 5, retract 5, event 10, retract 10")),),
        subscribers=(SubscriberPlan("s", "a"),),
    ),
    ExplorationPlan(
        "three",
        _THREE,
        ("a",),
        (
            PublisherPlan("p", "c", acts("promise 5, event 20, end")),
            PublisherPlan("q", "b", acts("promise 5, event 10, end")),
        ),
    ),
    ExplorationPlan(
        "meet",
        _TWO,
        ("a",),
        (PublisherPlan("p", "a", acts("promise 5, event 20, end")), PublisherPlan("q", "b", acts("promise 5, event 10, end"))),
        linked=False,
    ),
)


def _variants(plan: ExplorationPlan) -> list[ExplorationPlan]:
    """A plan, and the same with a broken link, with logs and a crash of either node."""
    name, durable = plan.name, plan.nodes
    return [
        plan,
        replace(plan, name=f"{name}, a link breaks", cuts=1),
        replace(plan, name=f"{name}, node a crashes", durable=durable, mortal=("a",), restarts=1),
        replace(plan, name=f"{name}, node b crashes", durable=durable, mortal=("b",), restarts=1),
    ]


PLANS = {each.name: each for plan in _BASE for each in _variants(plan)}
"""All plans by name."""
