"""Figures and report: all there, self-contained, and saying where and with what they were made."""

import re
import struct

import pytest
from evaluation_samples import Alarm, Peak, Rise, event, replay, scenario, unit
from msgspec import structs

from middleware.evaluation.evaluation_report import aims, headline, write_report
from middleware.evaluation.evaluation_runs import CountedRun
from middleware.evaluation.measuring.accuracy import Accuracy
from middleware.evaluation.measuring.corrections import affected
from middleware.evaluation.measuring.measures import Results, builtins_of, measure, ratios
from middleware.evaluation.modes import BUFFERING, FAST_DYNAMIC, FAST_SPECULATION, FULL, MODES, QUICK, UNKEYED
from middleware.evaluation.setting import line, setting

pytest.importorskip("matplotlib")

from middleware.evaluation.figures import Figures, back_offs, look_of

FINALS = [event(kind, f"{kind.__name__}s", 200 * number, number) for number in range(1, 9) for kind in (Rise, Peak, Alarm)]
ALARMS = [one for one in FINALS if isinstance(one, Alarm)]


def measured(modes):
    runs = {}
    for number, mode in enumerate(modes, 1):
        finals = ALARMS if mode.results_only else FINALS
        runs[mode.name] = measure(replay(mode, finals, 10.0 * number), scenario(), FINALS)
    return runs


def touched(modes):
    units = [unit("Rises", 50, 5, 5), unit("Peaks", 10, 1, 2)]
    return [affected(CountedRun(mode, 0.0, 30.0, 12.0, 60, 13, units), scenario()) for mode in modes]


def results(runs):
    return Results(
        scenario="sample <1>",
        seconds=2.0,
        seed=3,
        detectors=3,
        levels=3,
        event_types=4,
        latency_of="Peaks",
        corrections_of="Peaks",
        latency_ratio=ratios(runs),
        retraction_ratio=0.08,
        retraction_ratios={"detector": 0.1, "cascade": 0.08, "all": None},
        real_time_factor=5.0,
        real_time_factors={},
        oracle_equal=True,
        cpu_in_zone=True,
        f1={"tracab_pass": None, "generated_pass": 0.97},
        accuracy={"tracab_pass": None, "generated_pass": Accuracy.of(30, 32, 30)},
        setting=setting(3, 2.0, "slackline evaluate --seed 3"),
        modes=[builtins_of(one) for one in runs.values()],
        retraction=[],
        left_out={"scores": "no <data>"},
    )


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize("modes", [MODES, QUICK], ids=["all", "quick"])
def test_figures_and_report(tmp_path, modes):
    runs = measured(modes)
    counted = touched([mode for mode in (*modes, UNKEYED) if mode in (BUFFERING, FULL, UNKEYED)])
    figures = Figures(tmp_path, line(setting(3, 2.0, "slackline evaluate")), scenario().plan.evaluation)
    drawn = figures.draw(runs, counted, (FULL,))
    assert len(drawn) == (11 if modes is MODES else 8)
    for file in drawn.values():
        width, height = size(file.read_bytes())
        assert width > 1000
        assert height > 300
    write_report(tmp_path / "report.html", results(runs), runs, counted, drawn)
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(drawn)
    assert not re.search(r"""(src|href)=['"]?(http|//|file)""", page)
    assert "sample &lt;1&gt;" in page and "sample <1>" not in page
    assert "no &lt;data&gt;" in page
    for mode in modes:
        assert mode.title in page
    assert "slackline evaluate --seed 3" in page
    assert "0.97" in page and "1.00 (0.89 to 1.00)" in page
    assert "level 1" in page


def test_the_headline_says_in_three_sentences_what_was_found():
    runs = measured(MODES)
    right, early, cost = headline(results(runs), runs)
    assert right == "All 14 modes end with exactly the results of the in-order oracle, 24 with dynamic alpha."
    assert early == "With dynamic alpha what people wait for is known after 20 ms on average; with pure buffering after 10 ms."
    assert "are corrected later" in cost and "of the time instead of" in cost
    runs[FULL.name].oracle_equal = False
    assert headline(results(runs), runs)[0] == f"The finals of {FULL.title} are not those of the in-order oracle."


def test_aims_that_are_missed_or_were_not_measured_are_marked(tmp_path):
    runs = measured(QUICK)
    text = structs.replace(
        results(runs), oracle_equal=False, retraction_ratio=None, latency_ratio={**ratios(runs), "pass": 0.5}
    )
    assert [aim.met for aim in aims(text) if aim.aim] == [False, False, True, True, None]
    write_report(tmp_path / "report.html", text, runs, [], {})
    page = (tmp_path / "report.html").read_text()
    assert (page.count("✗ missed"), page.count("✓ met"), page.count(">not measured<")) == (2, 2, 1)
    assert 'class="headline wrong"' in page
    assert list(re.findall(r'data-name="(\w+)"', page)) == ["alarms", "peaks", "rises"]


def test_a_detector_that_never_spoke_leaves_its_figure_standing(tmp_path):
    rises = [one for one in FINALS if isinstance(one, Rise)]
    runs = {mode.name: measure(replay(mode, rises, 5.0), scenario(), rises) for mode in QUICK}
    drawn = Figures(tmp_path, "", scenario().plan.evaluation).draw(runs, [], ())
    assert size(drawn["Detection latency over time"].read_bytes())[0] > 1000
    assert "Events affected by retraction" not in drawn


def test_modes_look_different_and_the_same_everywhere():
    usual = [look_of(mode) for mode in (*MODES, UNKEYED) if mode.speed == 1]
    assert len(set(usual)) == len(usual)
    assert look_of(FAST_DYNAMIC) != look_of(FAST_SPECULATION)


def test_every_figure_says_where_it_comes_from():
    text = line(setting(7, 65.0, "slackline evaluate --out " + "long/" * 60))
    assert "not installed" not in text.partition(", msgspec")[0]
    for part in ("seed 7", "snippet 65 s", "machine ", "Python ", "slackline ", "command slackline evaluate"):
        assert part in text
    assert max(map(len, text.split("\n"))) <= 170


def test_a_back_off_is_where_alpha_returns_to_1():
    run = measured((BUFFERING,))[BUFFERING.name]
    alphas = [1.0, 0.5, 0.25, 1.0, 1.0, 0.5, 1.0]
    intervals = [structs.replace(run.intervals[0], at=at, alpha=alpha) for at, alpha in enumerate(alphas)]
    assert back_offs(intervals) == [(3, 0.25), (6, 0.5)]
