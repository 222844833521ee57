"""The index on real nodes with disks, killed while they work: no result twice, none missing, in any sink."""

from pathlib import Path

import pytest

from scenarios.search.outage import outage

pytestmark = pytest.mark.system


def test_every_node_is_killed_and_three_sinks_have_each_result_once(tmp_path: Path) -> None:
    outputs: list[str] = []
    delivered = outage(tmp_path, seconds=3.0, say=outputs.append)
    assert sum("kill -9" in line for line in outputs) == 3
    assert [each.sink for each in delivered] == ["file", "sqlite", "http"]
    for each in delivered:
        assert each.results > 5_000
        assert (each.twice, each.missing, each.stray) == (0, 0, 0)
