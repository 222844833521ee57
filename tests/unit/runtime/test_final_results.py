"""The final results of a run: each detector's own barrier, which need not know of each watermark as it rises."""

from slackline import Delta, Event

from middleware.model.change import Batch
from middleware.model.event import END
from middleware.runtime.local.final_results import FinalResults


class Hit(Event):
    ball: int


class Pass(Event):
    player: int


def test_a_change_to_what_is_final_is_noticed_where_nothing_was_held() -> None:
    results = FinalResults({"Hits": ["Hit"], "Passes": ["Pass"]})
    results.take(Batch({}, {"Hit": 10, "Pass": 10}))
    results.take(Batch({"Pass": Delta([Pass(1, ts=12, id=12, source="x")])}, {"Pass": 11}))
    results.take(Batch({"Hit": Delta([Hit(1, ts=10, id=10, source="x")])}, {}))
    assert results.violations == 1
    results.take(Batch({}, {"Hit": END, "Pass": END}))
    assert list(results.of("Hits")) == [] and [each.ts for each in results.of("Passes")] == [12]


def test_what_is_held_is_released_by_the_watermarks_of_all_types_of_its_detector() -> None:
    results = FinalResults({"Both": ["Hit", "Pass"], "Idle": ["Other"]})
    results.take(Batch({}, {"Other": 5, "Hit": 20}))
    results.take(
        Batch({"Hit": Delta([Hit(1, ts=30, id=30, source="x")]), "Pass": Delta([Pass(2, ts=25, id=25, source="x")])}, {})
    )
    results.take(Batch({}, {"Pass": 27}))
    results.take(Batch({"Pass": Delta([Pass(3, ts=28, id=28, source="x")])}, {"Hit": END, "Pass": END}))
    assert [each.ts for each in results.of("Both")] == [25, 28, 30] and results.violations == 0
