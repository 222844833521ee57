"""The hierarchy as a graph: which unit reads another one's results, and its level. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def boxes(units: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Units by level and name: ``level`` (0: reads only raw events), ``above``: the units whose results it reads. O(edges)."""
    makers: dict[str, list[str]] = {}
    for unit in units:
        for name in unit["publishes"]:
            makers.setdefault(name, []).append(unit["name"])
    causes = {unit["name"]: sorted({maker for name in unit["reads"] for maker in makers.get(name, ())}) for unit in units}
    levels: dict[str, int] = {}
    for unit in units:
        _level(unit["name"], causes, levels)
    placed = [unit | {"level": levels[unit["name"]], "above": causes[unit["name"]]} for unit in units]
    return sorted(placed, key=lambda unit: (unit["level"], unit["name"]))


def _level(name: str, causes: dict[str, list[str]], levels: dict[str, int]) -> int:
    """One more than the highest level read. Units that read each other, in a cycle of a flow, count as level 0 for this."""
    if name not in levels:
        levels[name] = 0
        levels[name] = 1 + max((_level(each, causes, levels) for each in causes[name] if each != name), default=-1)
    return levels[name]
