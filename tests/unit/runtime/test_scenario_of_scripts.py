"""Scenarios whose detectors are a CQL script, or a flow, as it stands in a module; and without a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from middleware.model.errors import ScenarioError
from middleware.runtime.scenario import load_scenario
from middleware.spark.prepare.prepared import prepared_trace

NODES = """
name = "market"
detectors = "{module}:{name}"
[[nodes]]
name = "here"
detectors = ["*"]
"""

CODE = """
from detectors.cql import compile_cql
from detectors.flow import Flow
from middleware.model.event import Event

class Tick(Event):
    price: float

class Count(Event):
    n: int

script = compile_cql("CREATE STREAM Trade (price Double); SELECT price FROM Trade WHERE price > 3 INTO Dear;")
flow = Flow("counts")
flow.source(Tick).group(lambda tick: 0, window=2).map(len, gives=int).sink(Count, lambda n: (n,))
made = {"Mine": script.operators[0]}
"""


TWO_NODES = """
name = "market"
detectors = "market_of_sources:made"
[[nodes]]
name = "here"
detectors = ["Count"]
[[nodes]]
name = "there"
detectors = ["*"]
"""

SOURCES = '''
from detectors.cql import compile_cql

TRADE = "CREATE STREAM Trade (price Double) SOURCE FILE ('{file}', ',');"
script = compile_cql(TRADE.format(file="trades.csv") + """
    CREATE STREAM Unread (a Int) SOURCE FILE ('unread.csv', ',');
    SELECT price FROM Trade WHERE price > 3 INTO Dear; SELECT count(*) AS n FROM Trade [SIZE 3] INTO Count;
""")

def made():
    return script.operators

def clash():
    other = compile_cql(TRADE.format(file="others.csv") + "SELECT price FROM Trade INTO Other")
    return [*script.operators, *other.operators]
'''


def test_the_first_node_with_a_query_over_a_stream_reads_its_source(tmp_path: Path) -> None:
    (tmp_path / "market_of_sources.py").write_text(SOURCES)
    (tmp_path / "nodes.toml").write_text(TWO_NODES)
    scenario = load_scenario(str(tmp_path))
    assert {node: [each.source for each in sources] for node, sources in scenario.sources.items()} == {
        "here": ["Trade:trades.csv"],
        "there": [],
    }
    (tmp_path / "nodes.toml").write_text(NODES.format(module="market_of_sources", name="clash"))
    with pytest.raises(ScenarioError, match="two event types are named 'Trade'"):
        load_scenario(str(tmp_path))


@pytest.mark.parametrize(("name", "expected"), [("script", "Dear"), ("flow", "counts"), ("made", "Mine")])
def test_a_scenario_may_name_a_script_or_a_flow(tmp_path: Path, name: str, expected: str) -> None:
    module = f"market_{name}"
    (tmp_path / f"{module}.py").write_text(CODE)
    (tmp_path / "nodes.toml").write_text(NODES.format(module=module, name=name))
    scenario = load_scenario(str(tmp_path))
    assert scenario.detectors and all(each.startswith(expected) for each in scenario.detectors)
    assert scenario.placement == {"here": set(scenario.detectors)}
    assert not scenario.is_recorded
    with pytest.raises(ScenarioError, match=r"nothing to run.*slackline pub"):
        prepared_trace(scenario, tmp_path / "out")
