"""Checks that a flow is sound before it runs: types, keys, cycles and loose ends."""

from __future__ import annotations

from detectors.flow.graphs.flow_graph import FlowError, FlowNode, FlowNodeKind, Graph
from detectors.flow.graphs.flow_stages import receivers
from detectors.flow.graphs.hints import fits
from middleware.model.event import field_names


def check(flow: Graph) -> None:
    """Raise FlowError for the first thing that is wrong with the graph. O(operations * edges)."""
    if not any(node.kind is FlowNodeKind.SINK for node in flow.nodes):
        raise FlowError(f"flow {flow.name!r} has no sink: nothing would come out of it (add .sink(EventType))")
    for node in flow.nodes:
        _ends(node)
    for node in flow.nodes:
        _rounds(node)
    for node in flow.nodes:
        _types(node)


def _ends(node: FlowNode) -> None:
    if node.kind is not FlowNodeKind.SOURCE and not node.inputs:
        raise FlowError(f"{node!r} was never closed: say what it feeds back with .close(stream)")
    if node.kind is not FlowNodeKind.SINK and not node.outputs:
        raise FlowError(f"{node!r} leads nowhere: give it a sink, or leave it out")
    if node.kind is FlowNodeKind.SINK:
        assert node.event_type is not None
        if not set(field_names(node.event_type)) - {"cause"}:
            raise FlowError(f"{node!r} has no fields of its own to be filled in")


def _rounds(node: FlowNode) -> None:
    """Check a cycle: it goes through one grouping that looks back and at least one map, which can tell state from items."""
    on_cycle = _cycle(node)
    if not on_cycle:
        return
    shown = ", ".join(sorted(each.name for each in on_cycle))
    groups = [each for each in on_cycle if each.kind is FlowNodeKind.GROUP]
    if len(groups) != 1:
        found = f"{len(groups)} groupings" if groups else "no grouping"
        raise FlowError(f"the cycle through {shown} has {found}: it feeds state back to exactly one, which keeps it")
    if groups[0].window < 2:
        raise FlowError(f"the cycle through {groups[0]!r} has window=1: a state meets the next item only with 2 or more")
    if not any(each.kind is FlowNodeKind.MAP for each in on_cycle):
        raise FlowError(f"the cycle through {groups[0]!r} has no map that makes state of a group: it would feed back groups")
    _told_apart(groups[0], on_cycle)


def _told_apart(group: FlowNode, on_cycle: set[FlowNode]) -> None:
    """Check that the values fed back and those coming in have different types, so that state can be recognised."""
    back: list[FlowNode] = []
    fresh: list[FlowNode] = []
    waiting, done = [group], set[FlowNode]()
    while waiting:
        for before in waiting.pop().inputs:
            if before.kind in (FlowNodeKind.UNION, FlowNodeKind.CYCLE):
                if before not in done:
                    done.add(before)
                    waiting.append(before)
            else:
                (back if before in on_cycle else fresh).append(before)
    for one in back:
        for other in fresh:
            if isinstance(one.gives, type) and one.gives == other.gives:
                raise FlowError(
                    f"the cycle through {group!r} feeds back {one.gives.__name__}, as {other!r} gives: "
                    "a cycle feeds back state only, of a type of its own"
                )


def _cycle(node: FlowNode) -> set[FlowNode]:
    """The operations on the same cycle as this one; none if there is none."""
    ahead, behind = _spread(node, "outputs"), _spread(node, "inputs")
    return ahead & behind if node in ahead else set()


def _spread(node: FlowNode, edges: str) -> set[FlowNode]:
    found: set[FlowNode] = set()
    waiting = [node]
    while waiting:
        for after in getattr(waiting.pop(), edges):
            if after not in found:
                found.add(after)
                waiting.append(after)
    return found


def _types(node: FlowNode) -> None:
    if node.kind in (FlowNodeKind.UNION, FlowNodeKind.CYCLE):
        return
    for after in receivers(node):
        if not fits(node.gives, after.accepts):
            raise FlowError(
                f"{node!r} gives {node.gives.__name__}, but {after!r} takes {after.accepts.__name__}: "
                "change the one or the annotation of the other"
            )
        if after.kind is FlowNodeKind.GROUP and node.gives is None and after not in _cycle(node):
            raise FlowError(
                f"{after!r} may run on another node than {node!r}, and nothing declares what that gives: "
                "annotate what the function returns, such as '-> Iterable[Word]', or pass gives=Word"
            )
