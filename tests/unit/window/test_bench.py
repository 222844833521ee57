"""The benchmarks run, in small, and report what they say they do."""

import gc
import importlib.util

import pytest
from slackline_benchmarks import papers, window, window_by_key, window_figures


@pytest.fixture(autouse=True)
def nothing_else_to_collect():
    """Each measurement collects garbage before it, and need not walk through what other tests have left behind."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_bench_window_names_what_it_measures(monkeypatch):
    monkeypatch.setattr(window, "N", 1 << 13)
    monkeypatch.setattr(window, "ROUNDS", 400)
    monkeypatch.setattr(window, "PLAIN_ROUNDS", 20)
    monkeypatch.setattr(window, "SIZES", (512,))
    monkeypatch.setattr(window, "baselines", list)
    monkeypatch.setattr(window, "keyed_entries", lambda rounds: window_by_key.keyed_entries(rounds, 2_000))
    entries = {entry["name"]: entry for entry in window.bench_window(1)}
    assert {"window.batch.d0", "window.batch.d256", "window.call.d0", "window.call.d256", "window.keyed"} <= entries.keys()
    assert all(entry["value"] > 0 and entry["baseline"] > 0 and entry["ratio"] > 0 for entry in entries.values())


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the extra `evaluate` is not installed")
def test_the_report_has_the_four_figures(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(window_figures, "N", 1 << 10)
    monkeypatch.setattr(window_figures, "IN_ORDER_SIZES", (16, 64))
    monkeypatch.setattr(window_figures, "ROUNDS", 40)
    monkeypatch.setattr(window_figures, "LATENCIES", 40)
    names = {entry["name"] for entry in window_figures.bench_figures(1)}
    assert {"Figure 13 sum, daba-lite 16", "Figure 13 bloom, b-tree 64", "Figure 12 geomean, d = 0 50"} <= names
    page = window_figures.REPORT.read_text()
    assert [page.count(f"Figure {number}:") for number in (11, 12, 13, 14)] == [2, 2, 2, 2]
    assert page.count("data:image/png;base64,") == 4


def test_what_is_told_of_an_evaluation():
    """Each mode's latency against the first, which buffers; a mode that detected nothing has none."""
    modes = [("buffering", 100.0), ("speculation", 60.0), ("nothing", None)]
    results = {"modes": [{"mode": {"title": title}, "latency": {"mean": mean}} for title, mean in modes]}
    found = [(entry["name"], entry["ratio"]) for entry in papers.evaluation_entries(results)]
    assert found == [("latency buffering", 1.0), ("latency speculation", 0.6)]


def test_what_is_told_of_retraction():
    """Results affected against full retraction, memory against pure buffering."""
    modes = [
        {"mode": {"title": title, "changes": changes}, "corrections": {"corrected_at_all": count}, "memory": {"held": kept}}
        for title, changes, count, kept in (("buffering", {}, 0, 4_000), ("full", {"retraction": "full"}, 50, 8_000))
    ]
    found = [(entry["name"], entry["ratio"]) for entry in papers.retraction_entries({"modes": modes})]
    assert found == [("affected buffering", 0.0), ("affected full", 1.0), ("memory buffering", 1.0), ("memory full", 2.0)]
