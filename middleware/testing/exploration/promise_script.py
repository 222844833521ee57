"""A broken promise as a script that anyone can run, and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from middleware.testing.exploration.exploration_plan import PublisherPlan
from middleware.testing.exploration.explored_world import Step
from middleware.testing.exploration.search import SearchOutcome

_SCRIPT = '''"""{why}

Found by `slackline explore`, plan "{name}". Exits with 1 while the promise is broken.
"""

import sys

from middleware.testing.exploration.exploration_plan import Act, ExplorationPlan, PublisherPlan, SubscriberPlan
from middleware.testing.exploration.search import replay

PLAN = {plan!r}
STEPS = [
{steps}
]
taken, broken = replay(PLAN, STEPS)
print(broken or "the promise holds")
sys.exit(bool(broken))
'''


def script(found: SearchOutcome) -> str:
    """A Python script that takes the steps of a counter-example."""
    steps = "\n".join(f"    {step!r}," for step in found.steps)
    return _SCRIPT.format(why=found.broken, name=found.plan.name, plan=found.plan, steps=steps)


def describe(found: SearchOutcome) -> Iterator[str]:
    """The steps of a counter-example, a line each."""
    done: dict[str, int] = {}
    for number, step in enumerate(found.steps, 1):
        yield f"{number:3}  {_describe_step(found, step, done)}"
    yield f"     {found.broken}"


def _describe_step(found: SearchOutcome, step: Step, done: dict[str, int]) -> str:
    match step:
        case ("deliver", source, target):
            return f"node {target} takes what node {source} has sent"
        case ("attach", name):
            return f"publisher {name} comes to node {_publisher(found, name).node}"
        case ("act", name):
            index = done.get(name, 0)
            done[name] = index + 1
            return f"publisher {name}: {_publisher(found, name).acts[index]}"
        case ("come", name):
            return f"subscriber {name} comes"
        case ("leave", name):
            return f"subscriber {name} leaves"
        case ("cut", one, other):
            return f"the link between {one} and {other} breaks, and loses what is under way"
        case ("restart", name):
            return f"node {name} crashes and starts again"
    return "time passes"


def _publisher(found: SearchOutcome, name: str) -> PublisherPlan:
    return next(each for each in found.plan.publishers if each.name == name)
