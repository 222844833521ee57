"""How a line of ``slackline why-waiting`` reads."""

import pytest

from middleware.broker.watermarks.waiting import NodeStatus, StreamStatus, UnitStatus
from middleware.cli.questions.why_waiting import MeshWaits


@pytest.mark.parametrize(
    ("alpha", "shown"), [(1.25673e-88, "+ 0 * K ("), (0.0, "+ 0 * K ("), (1 / 3, "+ 0.333 * K ("), (1.0, "+ 1 * K (")]
)
def test_alpha_has_three_decimals_at_most(alpha: float, shown: str) -> None:
    unit = UnitStatus("D", {"In": 5}, ["Out"], 5, 5, 9, 3, alpha, 10, 1, (8, "In", "s", ""))
    node = NodeStatus("edge", 9, {"In": StreamStatus(5, []), "Out": StreamStatus(5, [])}, [unit])
    lines = MeshWaits([node]).explained(["Out"])["Out"]
    assert [shown in line for line in lines if " * K " in line] == [True], lines


def test_what_keeps_the_end_from_coming_is_reported_although_all_is_final() -> None:
    unit = UnitStatus("D", {"In": None}, ["Out"], 9, 9, 9, 3, 0.0, 0, 0)
    node = NodeStatus("edge", 9, {"In": StreamStatus(None, []), "Out": StreamStatus(9, [])}, [unit])
    lines = MeshWaits([node]).explained()["Out"]
    assert lines[0] == "Out: all that has come is final, up to 9; its end has not come:"
    assert any("all who sent it have left, not all with an end" in line for line in lines), lines
