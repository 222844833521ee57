"""From the logical graph to stages: what runs as one, and where items change hands (Kuralenok et al. 2018, II.D).

A grouping, and the cycle through it, is a stage: it is parted by key, and its items come to the part that has their key.
Maps have no state, so they run where their input is, behind the source or the grouping that it comes from; a map behind
several stages runs in each. Unions and cycles are mere wiring: they are resolved here and do not run.
"""

from __future__ import annotations

from typing import NamedTuple

from detectors.flow.graph import Graph, Kind, Node


class Outlet(NamedTuple):
    """Where items leave a stage: from ``node``, whose values they are, to the grouping or the sink ``to``."""

    node: Node
    to: Node


class Stage(NamedTuple):
    """What runs as one.

    ``entry``
        the source or the grouping at its head.
    ``maps``
        the maps behind it, each after all that feed it; those on the cycle through ``entry`` are in ``looped``.
    ``targets``
        by operation, who gets its items: operations of the stage, or outlets.
    ``outlets``
        all outlets, each once.
    """

    name: str
    entry: Node
    maps: list[Node]
    looped: frozenset[Node]
    targets: dict[Node, list[Node | Outlet]]
    outlets: list[Outlet]


def receivers(node: Node) -> list[Node]:
    """Who gets the items of an operation, through unions and cycles, in order; one that is joined twice gets them twice."""
    found: list[Node] = []
    for after in node.outputs:
        if after.kind in (Kind.UNION, Kind.CYCLE):
            found += receivers(after)
        else:
            found.append(after)
    return found


def stages(flow: Graph, fuse: bool = True) -> list[Stage]:
    """The stages of a sound flow; ``fuse``: stateful transformations run as one, not as grouping, map and cycle."""
    return [_stage(node, fuse) for node in flow.nodes if node.kind in (Kind.SOURCE, Kind.GROUP)]


def _stage(entry: Node, fuse: bool) -> Stage:
    targets: dict[Node, list[Node | Outlet]] = {}
    outlets: list[Outlet] = []
    fused = entry.fused if fuse else None
    waiting = [entry]
    while waiting:
        node = waiting.pop()
        if node in targets:
            continue
        last = fused.outputs if fused is not None and node is entry else node  # whose outputs leave
        found: list[Node | Outlet] = []
        for after in receivers(last):
            if after.kind is Kind.MAP or after is entry:
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


def _reach(node: Node, targets: dict[Node, list[Node | Outlet]]) -> set[Node]:
    """The operations of the stage that items of ``node`` come to."""
    found: set[Node] = set()
    waiting = [node]
    while waiting:
        for after in targets[waiting.pop()]:
            if isinstance(after, Node) and after not in found:
                found.add(after)
                waiting.append(after)
    return found


def _ordered(entry: Node, targets: dict[Node, list[Node | Outlet]]) -> list[Node]:
    """The operations of a stage, each after all that feed it (but for the cycle back to ``entry``)."""
    order: list[Node] = []
    done: set[Node] = set()

    def visit(node: Node) -> None:
        done.add(node)
        for after in reversed(targets[node]):
            if isinstance(after, Node) and after not in done:
                visit(after)
        order.append(node)

    visit(entry)
    return order[::-1]
