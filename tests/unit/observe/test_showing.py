"""What a run shows in a notebook: one line, a page, a table, a drawing."""

from __future__ import annotations

import sys
from enum import Enum
from xml.etree import ElementTree

import pytest
from slackline import Detector, Event, SlacklineError, run

from middleware.model.errors import EventError
from middleware.model.event import ORDER
from middleware.model.time import SECOND

AT = 1_700_000_000 * SECOND


class Colour(Enum):
    RED = "red"


class Tick(Event):
    price: float


class Rise(Event):
    by: float
    colour: Colour = Colour.RED


class Fall(Event):
    by: float


class Rises(Detector):
    subscribes, publishes = (Tick,), (Rise, Fall)

    def __init__(self) -> None:
        self.last = None

    def on_event(self, tick: Event) -> Event | None:
        last, self.last = self.last, tick.price
        if last is None or last == tick.price:
            return None
        return (Rise if tick.price > last else Fall)(abs(tick.price - last), ts=tick.ts)


class Nothing(Detector):
    subscribes, publishes = (Tick,), (Fall,)

    def on_event(self, tick: Event) -> None:
        return None


class Odd(Event):
    __module__ = "stocks"


def result(count: int = 100):
    ticks = [Tick(float(n if n % 10 else n - 5), ts=AT + n * SECOND, id=n + 1, source="<x>") for n in range(count)]
    return run(ticks, {"Rises": Rises(), "Zeros & <more>": Nothing()})


def test_one_line_however_many_results() -> None:
    text = repr(result(2_000))
    assert "\n" not in text
    assert len(text) < 200


def test_a_page_names_each_detector_and_is_sound() -> None:
    html = result()._repr_html_()
    page = ElementTree.fromstring(html)
    rows = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]
    assert rows[1][:2] == ["Rises", "99"]
    assert rows[1][3:5] == ["2023-11-14 22:13:21.000Z", "2023-11-14 22:14:59.000Z"]
    assert rows[2][:2] == ["Zeros & <more>", "0"]
    bars = [len(list(svg.iter("rect"))) for svg in page.iter("svg")]
    assert bars == [99, 0], "one for each second in which there was one"
    assert len(result(30_000)._repr_html_()) < 20_000


def test_the_results_of_a_type_in_total_order() -> None:
    found = result()
    rises, falls = found.of(Rise), found.of(Fall)
    assert {type(each) for each in rises} == {Rise} and {type(each) for each in falls} == {Fall}
    assert sorted([*rises, *falls], key=ORDER) == sorted(found.finals["Rises"], key=ORDER)
    assert rises == sorted(rises, key=ORDER) and found.of(Odd) == []
    ticks = [Tick(float(n), ts=n // 2, id=n, source="x") for n in range(40)]
    both = run(ticks, {"B": Rises(), "A": Rises()})
    assert both.of(Rise) == sorted([*both.finals["A"], *both.finals["B"]], key=ORDER) and len(both.of(Rise)) == 78


def test_a_table_of_a_type_in_total_order() -> None:
    pytest.importorskip("pyarrow")
    found = result()
    rises = found.table("Rise")
    assert rises.column_names == ["by", "colour", "ts", "id", "source"]
    assert rises.num_rows + found.table(Fall).num_rows == 99
    assert rises["ts"].to_pylist() == sorted(rises["ts"].to_pylist())
    assert set(rises["source"].to_pylist()) == {"Rises"}
    assert rises["colour"][0].as_py() == "red", "what Arrow has no type for, as JSON has it"
    empty = found.table("Zeros & <more>")
    assert (empty.num_rows, empty.column_names) == (0, ["by", "ts", "id", "source"])
    assert found.table(Odd).num_rows == 0
    with pytest.raises(EventError, match="'Rize' names no type of the results; there are Fall, Rise"):
        found.table("Rize")
    with pytest.raises(EventError, match="Rises gives several types: name one of Fall, Rise"):
        found.table("Rises")


def test_a_drawing_has_a_row_for_each_detector() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = result().plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Rises (99)", "Zeros & <more> (0)"]
    rises, zeros = axes.get_images()
    assert rises.get_array().tolist() == [[1.0] * 99], "a result each second, and bins of a second"
    assert zeros.get_array().sum() == 0
    assert axes.get_xlim() == (0, 98) and axes.get_ylim() == (2, 0)
    assert "seconds after 2023-11-14 22:13:21.000Z" in axes.get_xlabel()
    matplotlib.pyplot.close(axes.figure)


def test_what_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for show in (lambda: result().table("Rise"), result().plot):
        with pytest.raises(SlacklineError, match=r"this needs (pyarrow|matplotlib\.pyplot); .*pip install"):
            show()
