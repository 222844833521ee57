"""What nodes promise each other, in every order of a few acts and faults: see ``middleware/testing/exploration``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from middleware.broker.peers.interests import InterestWindow
from middleware.broker.peers.peers import Peer
from middleware.broker.watermarks.covering import Covering
from middleware.cli.main import application
from middleware.link.link import Link
from middleware.testing.exploration import digest
from middleware.testing.exploration.exploration_plan import ExplorationPlan, PublisherPlan, acts
from middleware.testing.exploration.plans import PLANS
from middleware.testing.exploration.promise_script import describe, script
from middleware.testing.exploration.search import explore, replay

STATES = 250
"""For each plan; ``slackline explore`` visits more."""


@pytest.mark.parametrize("name", PLANS)
def test_no_order_of_acts_and_faults_breaks_a_promise(name: str) -> None:
    found = explore(PLANS[name], STATES, seed=1)
    assert not found.broken, "\n".join(describe(found))
    assert found.states == STATES or found.is_whole
    assert found.ends, "the exploration comes to the end of some way"


def test_a_small_plan_is_explored_to_its_end() -> None:
    plan = ExplorationPlan("small", ("a", "b"), ("a",), (PublisherPlan("q", "b", acts("event 5, end")),))
    found = explore(plan)
    assert found.is_whole
    assert found.transitions > found.states > found.ends > 0
    assert not found.broken


def test_what_states_leave_out_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    met: dict[str, set[str]] = {}
    attributes = digest.attributes

    def noted(value: Any) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        names = [*getattr(value, "__dict__", ()), *(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))]
        met.setdefault(kind.__name__, set()).update(name.lstrip("_") for name in names)
        return attributes(value)

    monkeypatch.setattr(digest, "attributes", noted)
    for plan in PLANS.values():
        explore(plan, 12, seed=1)
    gone = {kind: names - met.get(kind, set()) for kind, names in digest.IRRELEVANT.items()}
    assert not any(gone.values()), gone


def _never_withholds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Link, "withhold", lambda link: None)


def _never_shuts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Covering, "is_shut", lambda covering, peer: False)


def _believes_that_what_was_sent_has_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "has_watermarks", lambda peer, version: True)


def _takes_what_was_sent_by_a_former_interest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InterestWindow, "comes_whole", lambda window, name: True)


@pytest.mark.parametrize(
    ("bug", "name"),
    [
        (_never_withholds, "start"),
        (_believes_that_what_was_sent_has_come, "start"),
        (_never_shuts, "successor"),
        (_takes_what_was_sent_by_a_former_interest, "visitor"),
    ],
)
def test_the_exploration_finds_what_breaks_a_promise(
    bug: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    found = explore(PLANS[name], 5_000)
    assert found.broken
    assert replay(found.plan, found.steps) == (found.steps, found.broken), "the short way breaks it, too"
    names: dict[str, object] = {}
    lines = script(found).partition("taken, broken")[0]  # without its last lines, which end the process
    exec(lines, names)
    assert (names["PLAN"], names["STEPS"]) == (found.plan, found.steps)


def test_the_command_tells_what_it_has_explored() -> None:
    describe = CliRunner().invoke(application(), ["explore", "start", "--states", "50"])
    assert describe.exit_code == 0, describe.output
    assert "start: the first 50 states" in describe.output
    assert "start, node b crashes: the first 50 states" in describe.output
    assert CliRunner().invoke(application(), ["explore", "nothing"]).exit_code == 2
    listed = CliRunner().invoke(application(), ["explore", "--list"])
    assert listed.output.split("\n")[:-1] == list(PLANS)
