"""An operator that stops in a replay, sooner than in the life before: what was final for it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lives import Life
from test_upgrade import TYPES, Sum, Sums, Tick

from middleware.link.encoding import encode_delta
from middleware.model.change import Delta
from middleware.model.operator import Operation, Operator
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness


class Fragile(Operator):
    """A sum for each tick, and an error at those of price 9."""

    name, subscribes, publishes = "Fragile", (Tick,), (Sum,)

    def start(self, name: str, level: int) -> Operation:
        return Breaking(name)


class Breaking(Operation):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        assert all(event.price != 9 for event in delta.inserts if isinstance(event, Tick))
        return Delta([Sum(event.id, ts=event.ts, id=event.id, source=self._name, level=1) for event in delta.inserts])

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None: ...


def life_in(folder: Path, alpha: float) -> Life:
    policies = {
        "Fragile": Policies(alpha=alpha, slack=lambda: FixedSlack(3), lateness=Lateness(1, 3)),
        "Sums": Policies(lateness=Lateness(1, 1_000)),
    }
    detectors = {"Fragile": Fragile(), "Sums": Sums()}
    return Life(folder, TYPES, detectors, wants=["Sum"], raw=["Tick"], policies=policies)


def test_a_result_that_was_final_for_a_unit_stands_though_it_stops_sooner_in_a_replay(tmp_path: Path) -> None:
    """World 20261560554: in life the operator got the tick of 10 alone; in the replay with one at which it stops."""
    ticks = Delta([Tick(1, ts=10, id=1, source="market"), Tick(9, ts=20, id=2, source="market")])
    first = life_in(tmp_path, alpha=1.0)
    first.feed_block(*encode_delta("Tick", ticks, raw=True)[0], 20)
    assert first.hierarchy is not None and not first.hierarchy.halted
    assert first.hierarchy.finals()["Fragile"] == 17 and first.hierarchy.promised["Sum"] < 0, "the other unit is behind"
    first.kill()

    second = life_in(tmp_path, alpha=0.0)
    assert second.hierarchy is not None and second.hierarchy.halted.keys() == {"Fragile"}
    assert second.runner.recovered.withheld == 1 and second.runner.recovered.corrected == 0
    second.kill()
