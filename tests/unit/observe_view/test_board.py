"""The content of the page, from what arrives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from middleware.broker.watermarks.waiting import NodeStatus, UnitStatus
from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.observe.view.board import MOST_CORRECTIONS, MOST_SHOWN, Board, boxes
from middleware.observe.view.mesh_watch import MeshWatch
from middleware.observe.view.scene import MOST_FRAMES, Film
from middleware.ordering.hierarchy import unit_for


class Rise(Event):
    by: float
    note: str = ""


class Counting(Detector):
    subscribes, publishes = (Rise,), (Rise,)


NOW = 1_700_000_000 * SECOND


def rise(by: float, ts: int = 5 * SECOND, number: int = 1) -> Rise:
    return Rise(by, ts=ts, id=number, source="Rises")


def shown(board: Board) -> dict[str, Any]:
    section = board.section("results", 0)
    assert section is not None
    return msgspec.json.decode(section[1])


def test_a_result_is_early_then_revised_then_final() -> None:
    board = Board("x", ["Rise"])
    board.take(Batch({"Rise": Delta([rise(1.0)])}), NOW)
    board.take(Batch({"Rise": Delta(revises=[(rise(1.0), rise(2.0))])}), NOW + SECOND)
    (one,) = shown(board)["shown"]
    assert (one["state"], one["what"]["by"], one["before"], one["final"]) == ("revised", 2.0, [{"by": 1.0, "note": ""}], None)
    board.take(Batch({}, {"Rise": 6 * SECOND}), NOW + 3 * SECOND)
    (one,) = shown(board)["shown"]
    assert (one["state"], one["final"] - one["early"], one["corrections"]) == ("final", 3_000.0, 1)
    assert shown(board)["counts"]["Rise"] == {"found": 1, "revised": 1, "withdrawn": 0, "final": 1}


def test_a_withdrawn_result_stays_withdrawn_when_its_stream_resumes() -> None:
    board = Board("x", ["Rise"])
    board.take(Batch({"Rise": Delta([rise(1.0)])}), NOW)
    board.take(Batch({"Rise": Delta(retracts=[rise(1.0)])}, {"Rise": END}), NOW)
    assert [one["state"] for one in shown(board)["shown"]] == ["withdrawn"]
    assert board.has_ended


def test_a_result_is_final_by_its_own_stream_not_by_the_slowest() -> None:
    board = Board("x", ["Rise", "Fall"])
    board.take(Batch({"Rise": Delta([rise(1.0)])}, {"Rise": 5 * SECOND}), NOW)
    assert [one["state"] for one in shown(board)["shown"]] == ["final"]


def test_what_is_kept_is_bounded() -> None:
    board = Board("x", ["Rise"])
    for number in range(30 * MOST_SHOWN):
        board.take(Batch({"Rise": Delta([rise(0.0, 5 * SECOND + number, number)])}), NOW)
    last = rise(0.0, 5 * SECOND + number, number)
    for by in range(1, 9):
        before, last = last, rise(float(by), last.ts, number)
        board.take(Batch({"Rise": Delta(revises=[(before, last)])}), NOW)
    view = shown(board)
    assert len(view["shown"]) == MOST_SHOWN
    assert view["counts"]["Rise"]["found"] == 30 * MOST_SHOWN
    assert [what["by"] for what in view["shown"][-1]["before"]] == [3.0, 4.0, 5.0, 6.0, 7.0][-MOST_CORRECTIONS:]
    assert len(board._open) <= 10 * MOST_SHOWN


def test_values_that_json_or_eyes_cannot_take_are_made_short() -> None:
    board = Board("x", ["Rise"])
    board.take(Batch({"Rise": Delta([Rise(float("nan"), "y" * 500, ts=5, id=-(2**63), source="Rises")])}), NOW)
    (one,) = shown(board)["shown"]
    assert one["id"] == str(-(2**63))
    assert one["what"]["by"] is None
    assert len(one["what"]["note"]) == 80


def test_a_section_is_made_once_a_version_and_not_sent_twice() -> None:
    board = Board("x", ["Rise"])
    first = board.section("results", 0)
    assert first is not None
    assert board.section("results", first[0]) is None
    assert board.section("results", 0) is first
    board.take(Batch({}, {"Rise": 1}), NOW)
    assert board.section("results", first[0]) is not None


def unit(name: str, reads: str, publishes: str, **changed: Any) -> UnitStatus:
    counts = unit_for(name, Counting()).statistics()
    counts = msgspec.structs.replace(counts, **{key: changed.pop(key) for key in ("received", "inserted") if key in changed})
    inputs = {"watermark": NEVER, "final": NEVER, "clk": NEVER, "k": 0, "alpha": 0.5, "lateness": 0, "waiting": 0} | changed
    return UnitStatus(name, {reads: None}, [publishes], **inputs, counts=counts)


def mesh(board: Board) -> dict[str, Any]:
    section = board.section("mesh", 0)
    assert section is not None
    return msgspec.json.decode(section[1])


def test_rates_and_lag_of_a_unit() -> None:
    board = Board("x", [])
    board.take_status("tcp://a", NodeStatus("a", 9 * SECOND, {}, [unit("Low", "Raw", "Mid", received=100)], busy=0.5), NOW)
    later = unit("Low", "Raw", "Mid", received=300, inserted=10, final=8 * SECOND)
    board.take_status("tcp://a", NodeStatus("a", 9 * SECOND, {}, [later]), NOW + 2 * SECOND)
    (box,) = mesh(board)["units"]
    assert (box["rate_in"], box["rate_out"], box["lag"], box["level"], box["up"]) == (100.0, 5.0, 1_000.0, 0, True)


def test_a_node_that_does_not_answer_is_down_with_all_its_units_and_comes_back() -> None:
    board = Board("x", [])
    status = NodeStatus("a", None, {}, [unit("Low", "Raw", "Mid")])
    board.take_status("tcp://a", status, NOW)
    for later in (1, 2):
        board.take_status("tcp://a", None, NOW + later * SECOND)
    view = mesh(board)
    assert [(node["name"], node["up"], node["since"]) for node in view["nodes"]] == [("a", False, (NOW + SECOND) / MILLISECOND)]
    assert [box["up"] for box in view["units"]] == [False]
    board.take_status("tcp://a", status, NOW + 3 * SECOND)
    assert [box["up"] for box in mesh(board)["units"]] == [True]


def test_levels_follow_who_reads_whom_and_a_cycle_ends() -> None:
    def box(name: str, reads: list[str], publishes: list[str]) -> dict[str, Any]:
        return {"name": name, "reads": reads, "publishes": publishes}

    placed = boxes([box("C", ["B"], ["C"]), box("B", ["A", "raw"], ["B"]), box("A", ["raw"], ["A"])])
    assert [(each["name"], each["level"], each["above"]) for each in placed] == [("A", 0, []), ("B", 1, ["A"]), ("C", 2, ["B"])]
    around = boxes([box("A", ["B"], ["A"]), box("B", ["A"], ["B"])])
    assert {each["name"] for each in around} == {"A", "B"}


class Torn:
    """A scenario's view that raises."""

    script, title, fixed, samples = Path(__file__), "torn", dict[str, Any](), ()

    def sampled(self, events: Sequence[Event]) -> None:
        raise NotImplementedError

    def found(self, events: Sequence[Event]) -> None:
        raise NotImplementedError

    def frame(self) -> dict[str, Any] | None:
        raise KeyError("ball")


def test_a_view_of_a_scenario_that_raises_is_reported_and_stops() -> None:
    board = Board("x", [])
    watch = MeshWatch(["tcp://127.0.0.1:9"], board, EventTypes(), scene=Torn())
    for _ in range(3):
        watch.expose()
    assert mesh(board)["notices"] == ["the scenario's own view has failed, and stands still: KeyError: 'ball'"]


class Moving(Torn):
    """A clock that moves on at every second look."""

    def __init__(self) -> None:
        self.looks = 0

    def frame(self) -> dict[str, Any] | None:
        self.looks += 1
        return {"t": self.looks // 2}


def test_a_film_keeps_a_frame_for_each_moment_and_no_more_than_fit() -> None:
    film = Film(Moving())
    for _ in range(2 * MOST_FRAMES + 100):
        film.expose()
    frames = msgspec.json.decode(film.all())
    assert len(frames) == MOST_FRAMES
    assert frames[-1] == {"t": MOST_FRAMES + 50} and frames[0] == {"t": 51}
