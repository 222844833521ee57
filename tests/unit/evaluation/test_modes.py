"""Modes: everything on one node, with the mode's policies, and nothing else changed."""

import msgspec
import pytest
from evaluation_samples import scenario

from middleware.evaluation.modes import FULL, MODES, NODE, QUICK, SPECULATION, Mode, in_mode
from middleware.model.errors import ScenarioError
from middleware.runtime.scenario import changed_plan, load_scenario


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_every_mode_is_sound(mode):
    changed = in_mode(load_scenario("soccer"), mode)
    assert changed.placement == {NODE: frozenset(changed.detectors)}
    assert changed.entry == NODE
    for name, value in mode.changes.items():
        assert getattr(changed.plan.policies, name) == value


def test_what_a_mode_does_not_name_stays():
    before = scenario(policies={"lateness": "7s"})
    after = in_mode(before, SPECULATION)
    assert after.plan.policies.lateness == "7s"
    assert after.plan.policies.alpha == 0.0
    assert after.plan.policies_for["Peaks"].lateness == "2s"
    assert after.plan.policies_for["Peaks"].alpha == 0.0
    assert after.plan.recording == msgspec.structs.replace(before.plan.recording, to=NODE)
    assert list(before.placement) == ["low", "high"]


def test_names_tell_modes_apart():
    assert len({mode.name for mode in MODES}) == len({mode.title for mode in MODES}) == len(MODES)
    assert all(mode in MODES for mode in QUICK)


def test_a_mode_that_policies_do_not_know_is_an_error():
    with pytest.raises(ScenarioError, match="levitation"):
        in_mode(scenario(), Mode("odd", "odd", {"levitation": 1}))


def test_a_node_process_gets_the_changed_plan(tmp_path):
    file = tmp_path / "plan.json"
    changed = in_mode(load_scenario("soccer"), FULL)
    file.write_bytes(msgspec.json.encode(changed.plan))
    again = changed_plan("soccer", file)
    assert again.plan == changed.plan
    assert again.placement == changed.placement
    file.write_text('{"name": 3}')
    with pytest.raises(ScenarioError, match="is no plan"):
        changed_plan("soccer", file)
