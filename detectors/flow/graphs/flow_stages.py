"""From the logical graph to stages: which operations run together, and where items leave them (Kuralenok et al. 2018, II.D).

A grouping, with the cycle through it, is a stage: it is partitioned by key, and each item goes to the part that has its key.
Maps have no state, so they run where their input is, in the stage of the source or the grouping that it comes from; a map after
several stages runs in each. Unions and cycles are only wiring: they are resolved here and do not run.
"""

from __future__ import annotations

from typing import NamedTuple

from detectors.flow.graphs.flow_graph import FlowNode, FlowNodeKind, Graph


class Outlet(NamedTuple):
    """A place where items leave a stage: from ``node``, which gives their values, to the grouping or the sink ``to``."""

    node: FlowNode
    to: FlowNode


class Stage(NamedTuple):
    """Operations that run as one program.

    ``entry``
        the source or the grouping at its head.
    ``maps``
        the maps after it, each after all that feed it; those on the cycle through ``entry`` are in ``looped``.
    ``targets``
        by operation, the receivers of its items: operations of the stage, or outlets.
    ``outlets``
        all outlets, each once.
    """

    name: str
    entry: FlowNode
    maps: list[FlowNode]
    looped: frozenset[FlowNode]
    targets: dict[FlowNode, list[FlowNode | Outlet]]
    outlets: list[Outlet]


def receivers(node: FlowNode) -> list[FlowNode]:
    """The receivers of an operation's items, through unions and cycles, in order; one that is joined twice is listed twice."""
    found: list[FlowNode] = []
    for after in node.outputs:
        if after.kind in (FlowNodeKind.UNION, FlowNodeKind.CYCLE):
            found += receivers(after)
        else:
            found.append(after)
    return found


def stages(flow: Graph, fuse: bool = True) -> list[Stage]:
    """The stages of a sound flow; ``fuse``: stateful transformations run as one, not as grouping, map and cycle."""
    return [_stage(node, fuse) for node in flow.nodes if node.kind in (FlowNodeKind.SOURCE, FlowNodeKind.GROUP)]


def _stage(entry: FlowNode, fuse: bool) -> Stage:
    targets: dict[FlowNode, list[FlowNode | Outlet]] = {}
    outlets: list[Outlet] = []
    fused = entry.fused if fuse else None
    waiting = [entry]
    while waiting:
        node = waiting.pop()
        if node in targets:
            continue
        last = fused.outputs if fused is not None and node is entry else node  # the operation whose outputs leave
        found: list[FlowNode | Outlet] = []
        for after in receivers(last):
            if after.kind is FlowNodeKind.MAP or after is entry:
                found.append(after)
                waiting.append(after)
            else:
                found.append(Outlet(last, after))
        targets[node] = found
        outlets += dict.fromkeys(each for each in found if isinstance(each, Outlet))
    order = _ordered(entry, targets)
    looped = frozenset(node for node in order if entry in _reach(node, targets))
    maps = [node for node in order if node is not entry]
    return Stage(entry.name, entry, maps, looped, targets, outlets)


def _reach(node: FlowNode, targets: dict[FlowNode, list[FlowNode | Outlet]]) -> set[FlowNode]:
    """The operations of the stage that the items of ``node`` reach."""
    found: set[FlowNode] = set()
    waiting = [node]
    while waiting:
        for after in targets[waiting.pop()]:
            if isinstance(after, FlowNode) and after not in found:
                found.add(after)
                waiting.append(after)
    return found


def _ordered(entry: FlowNode, targets: dict[FlowNode, list[FlowNode | Outlet]]) -> list[FlowNode]:
    """The operations of a stage, each after all that feed it (except the cycle back to ``entry``)."""
    order: list[FlowNode] = []
    done: set[FlowNode] = set()

    def visit(node: FlowNode) -> None:
        done.add(node)
        for after in reversed(targets[node]):
            if isinstance(after, FlowNode) and after not in done:
                visit(after)
        order.append(node)

    visit(entry)
    return order[::-1]
