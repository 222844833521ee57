"""Maps, and the edges after operations: how outputs change when an input changes."""

from __future__ import annotations

from detectors.flow.graphs.flow_graph import FlowNode
from detectors.flow.operations.calls import CallFailures
from detectors.flow.operations.items import ABSENT, Change, same


def mapped(node: FlowNode, change: Change, failures: CallFailures) -> list[Change]:
    """How the outputs of a map change when its input changes. The map is called again to learn its former outputs."""
    position, old, new = change
    function = node.function
    assert function is not None
    before = failures.recall(node.name, function, position, old) if old is not ABSENT else ()
    after = failures.call(node.name, function, position, new) if new is not ABSENT else ()
    if not before:
        return [((*position, ordinal), ABSENT, value) for ordinal, value in enumerate(after)]
    out: list[Change] = []
    for ordinal in range(max(len(before), len(after))):
        gone = before[ordinal] if ordinal < len(before) else ABSENT
        come = after[ordinal] if ordinal < len(after) else ABSENT
        if not same(gone, come):
            out.append(((*position, ordinal), gone, come))
    return out


def branched(changes: list[Change], branch: int, branches: int, numbered: bool) -> list[Change]:
    """Changes for one of several targets. ``numbered``: positions end in an ordinal, which takes in the branch."""
    if numbered:
        return [((*position[:-1], position[-1] * branches + branch), old, new) for position, old, new in changes]
    return [((*position, branch), old, new) for position, old, new in changes]
