"""The reference of ``nodes.toml`` names every key that there is, with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from middleware.recordings.files import mapping
from middleware.runtime import endpoints, plan

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
SECTIONS = {
    "At the top": plan.Plan,
    "[recording]": plan.RecordingPlan,
    "[policies], [policies_for.NAME]": plan.PolicyPlan,
    "[sources]": plan.SourcesPlan,
    "[[nodes]]": plan.NodePlan,
    "[[inputs]]": endpoints.InputPlan,
    "[[outputs]]": endpoints.OutputPlan,
    "[metrics]": plan.MetricsPlan,
    "[log]": plan.LogPlan,
    "[evaluation]": plan.EvaluationPlan,
}


def table(file: str, section: str) -> dict[str, str]:
    """The first and the last cell of each row of a section's table."""
    text = (GUIDE / file).read_text(encoding="utf-8")
    part = re.split(rf"^## {re.escape(section)}$", text, flags=re.MULTILINE)[1].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith(("| `", "| `["))]
    return {row[0].strip().strip("`[]"): row[-1].strip() for row in rows}


@pytest.mark.parametrize("section", SECTIONS)
def test_nodes_toml(section: str) -> None:
    documented = table("scenarios.md", section)
    fields = {field.encode_name: field for field in msgspec.structs.fields(SECTIONS[section])}
    assert documented.keys() == fields.keys()
    for name, field in fields.items():
        assert (documented[name] == "needed") == field.required, name
        if isinstance(field.default, str | float) and documented[name].startswith("`"):
            default = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
            assert documented[name] == f"`{default}`", name


def test_mappings() -> None:
    assert table("recordings.md", "What a mapping says").keys() == {
        field.name for field in msgspec.structs.fields(mapping.Mapping)
    }
