"""Flows drawn: as text, and as SVG."""

from __future__ import annotations

from html import escape

from detectors.flow.graphs.flow_graph import FlowNode, FlowNodeKind, Graph
from detectors.flow.graphs.flow_stages import stages

_ROW, _COLUMN, _WIDTH, _HEIGHT = 64, 190, 150, 34
_COLOURS = {
    FlowNodeKind.SOURCE: "#cfe3f5",
    FlowNodeKind.MAP: "#f3f3f3",
    FlowNodeKind.GROUP: "#ffe3b0",
    FlowNodeKind.UNION: "#ffffff",
    FlowNodeKind.CYCLE: "#ffffff",
    FlowNodeKind.SINK: "#d5efd2",
}


def as_text(flow: Graph) -> str:
    """One line per operation, in the order of construction: what it is, and which operations get its items.

    >>> from detectors.flow import Flow
    >>> from slackline import Event
    >>> class Number(Event):
    ...     value: int
    >>> class Pair(Event):
    ...     values: tuple[int, ...]
    >>> flow = Flow("pairs")
    >>> pairs = flow.source(Number).group(lambda number: number.value % 2, window=2, name="parity")
    >>> pairs.sink(Pair, lambda group: [[number.value for number in group]])
    >>> print(flow.text())
    flow pairs
      source Number            -> parity
      group  parity (window 2) -> Pair
      sink   Pair
    """
    rows = [(f"{node.kind:<6} {_label(node)}", ", ".join(_arrow(after) for after in node.outputs)) for node in flow.nodes]
    width = max((len(what) for what, to in rows if to), default=0)
    lines = [f"  {what:<{width}} -> {to}" if to else f"  {what}" for what, to in rows]
    return "\n".join([f"flow {flow.name}", *lines])


def as_svg(flow: Graph, parts: int | None = None) -> str:
    """The graph from left to right; cycles go back below. ``parts``: show for each stage in how many parts it runs.

    O(operations * edges).
    """
    column = _columns(flow)
    place: dict[FlowNode, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in flow.nodes:
        row = filled.get(column[node], 0)
        filled[column[node]] = row + 1
        place[node] = (20 + column[node] * _COLUMN, 40 + row * _ROW)
    width = 20 + (max(column.values(), default=0) + 1) * _COLUMN
    height = 40 + max(filled.values(), default=0) * _ROW + 10 + 6 * sum(node.kind is FlowNodeKind.CYCLE for node in flow.nodes)
    shapes, low = [], height - 10
    for node in flow.nodes:
        for after in node.outputs:
            back = column[after] <= column[node]
            shapes.append(_edge(place[node], place[after], low if back else None))
            low -= 6 if back else 0  # each cycle on a line of its own
    shapes += [_box(node, *place[node], _parts_of(flow, node, parts)) for node in flow.nodes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>'
        f'<text x="20" y="22" font-weight="bold">{escape(flow.name)}</text>{"".join(shapes)}</svg>\n'
    )


def _columns(flow: Graph) -> dict[FlowNode, int]:
    """The distance of each operation from the sources; edges into a cycle's end do not count."""
    column = dict.fromkeys(flow.nodes, 0)
    for _ in flow.nodes:
        moved = False
        for node in flow.nodes:
            for after in node.outputs:
                if after.kind is not FlowNodeKind.CYCLE and column[after] <= column[node]:
                    column[after], moved = column[node] + 1, True
        if not moved:
            break
    for node in flow.nodes:
        if node.kind is FlowNodeKind.CYCLE and node.outputs:
            column[node] = max(0, min(column[after] for after in node.outputs) - 1)
    return column


def _parts_of(flow: Graph, node: FlowNode, parts: int | None) -> str:
    if parts is None or node.kind not in (FlowNodeKind.SOURCE, FlowNodeKind.GROUP):
        return ""
    if node.kind is FlowNodeKind.GROUP:
        return f" ×{parts}"
    spread = any(stage.entry is node and stage.maps for stage in stages(flow))
    return f", spread over {parts}" if spread and parts > 1 else ""


def _label(node: FlowNode) -> str:
    return f"{node.name} (window {node.window})" if node.kind is FlowNodeKind.GROUP else node.name


def _arrow(after: FlowNode) -> str:
    return f"{after.name} (back)" if after.kind is FlowNodeKind.CYCLE else after.name


def _box(node: FlowNode, x: int, y: int, note: str) -> str:
    dashed = ' stroke-dasharray="4 3"' if node.kind in (FlowNodeKind.UNION, FlowNodeKind.CYCLE) else ""
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{_COLOURS[node.kind]}" stroke="#555"{dashed}/>'
        f'<text x="{x + _WIDTH / 2}" y="{y + 14}" text-anchor="middle">{escape(node.name)}</text>'
        f'<text x="{x + _WIDTH / 2}" y="{y + 28}" text-anchor="middle" fill="#666" font-size="10">'
        f"{node.kind}{f', window {node.window}' if node.window else ''}{escape(note)}</text>"
    )


def _edge(start: tuple[int, int], end: tuple[int, int], low: int | None) -> str:
    """A straight line; with ``low``, a line that goes back at that height."""
    (x, y), (to_x, to_y) = start, end
    middle, to_middle, aside = y + _HEIGHT / 2, to_y + _HEIGHT / 2, (_COLUMN - _WIDTH) // 3
    path = f"M{x + _WIDTH},{middle} "
    if low is not None:
        path += f"h{aside} V{low} H{to_x - aside} V{to_middle} "
    path += f"L{to_x},{to_middle}"
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>'
