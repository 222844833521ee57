"""Modules import each other without circles, and middleware knows nothing of what stands above it, not even by name."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = ("middleware", "detectors", "scenarios", "slackline_benchmarks", "slackline_torture")
FACE = "slackline"
"""What people import: it names what it imports when that is first used."""

NAMED = re.compile(
    r"""["'](?:detectors|scenarios)\.[a-z][\w.]*(?::\w+)?["']|^\s*(?:from|import) (?:detectors|scenarios)\b""", re.M
)


def test_there_are_no_circles_among_modules():
    graph = grimp.build_graph(*PACKAGES)
    imports = {module: graph.find_modules_directly_imported_by(module) - {FACE} for module in graph.modules - {FACE}}
    assert len(imports) > 300
    TopologicalSorter(imports).prepare()  # raises CycleError, which names a circle


def test_all_below_what_users_reach_names_nothing_that_stands_above_it():
    above = {ROOT / "middleware" / "cli", ROOT / "middleware" / "public"}
    files = [file for file in ROOT.glob("middleware/**/*.py") if above.isdisjoint(file.parents)]
    text = {str(file.relative_to(ROOT)): NAMED.findall(file.read_text(encoding="utf-8")) for file in files}
    assert {file: found for file, found in text.items() if found} == {}
