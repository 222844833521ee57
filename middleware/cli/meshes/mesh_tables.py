"""The part that ``status`` and ``top`` share: which nodes are asked, and the tables they print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from middleware.cli.command_options import candidates
from middleware.cli.output import table
from middleware.model.errors import ScenarioError
from middleware.model.quantities import spoken_duration
from middleware.model.time import SECOND
from middleware.observe.glance import (
    DetectorLine,
    NodeLine,
    concerns,
    detector_lines,
    node_lines,
    spoken_bytes,
    spoken_count,
    spoken_lag,
    spoken_share,
)
from middleware.observe.mesh import Lookout, MeshStatus

if TYPE_CHECKING:
    from middleware.runtime.status import Status

Addresses = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ADDRESS...]",
        help="A node (tcp://127.0.0.1:5701; the others are learnt from it), or a scenario (default: the one in this folder).",
    ),
]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")]

_ALL = 99
_SCHEMES = ("tcp://", "ipc://", "inproc://")


def lookout(addresses: Sequence[str] | None, keys: Path | None, allow_list: Path | None, node: Sequence[str] | None) -> Lookout:
    """Who asks the nodes at these addresses, or of these scenarios. Raises ScenarioError."""
    own, names = candidates(keys, allow_list, node)
    return Lookout([at for each in addresses or ["."] for at in _addresses(each)], own, names)


def _addresses(text: str) -> list[str]:
    if text.startswith(_SCHEMES):
        return [text]
    from middleware.runtime.scenario import FILE, load_scenario, takes_any_port

    if text == "." and not Path(FILE).is_file():
        raise ScenarioError(f"give the address of a node, such as tcp://127.0.0.1:5701, or a scenario: there is no {FILE} here")
    nodes = load_scenario(text).plan.nodes
    if unknown := [each.name for each in nodes if takes_any_port(each.address)]:
        raise ScenarioError(f"{text}: node {unknown[0]} takes any free port; give the address that it has logged")
    return [each.address for each in nodes]


def pictured(mesh: MeshStatus, before: Sequence[Status] = (), rows: int | None = None) -> RenderableType:
    """All of it for a screen: nodes, detectors, and what to look at. ``rows``: the busiest detectors alone, and all columns,
    so that one picture can follow another.
    """
    nodes, detectors = node_lines(mesh.nodes, before), detector_lines(mesh.nodes, before)
    per = "/s" if before else ""
    parts: list[RenderableType] = [_nodes_table(nodes, per, rows is not None)] if nodes else []
    if detectors:
        parts.append(_detectors_table(detectors, per, rows))
    parts += [Text(line, "yellow") for line in concerns(mesh.nodes)]
    parts += [Text(line, "bold red") for line in mesh.silent]
    return Group(*parts)


def _nodes_table(lines: Sequence[NodeLine], per: str, whole: bool) -> Table:
    rows: list[list[str | Text]] = [
        [
            line.node,
            Text(line.state, "green" if line.state == "ready" else "yellow"),
            spoken_duration(line.uptime // SECOND * SECOND),
            spoken_count(line.received),
            spoken_count(line.results),
            spoken_share(line.corrected),
            spoken_count(line.late),
            spoken_lag(line.lag),
            spoken_share(line.busy),
            spoken_share(line.cpu),
            spoken_bytes(line.memory),
            str(line.publishers),
            str(line.subscribers),
            spoken_bytes(line.queued),
        ]
        for line in lines
    ]
    headings = ["node", "state", "up", f"in{per}", f"results{per}", "corrected", f"late{per}", "lag", "busy", "CPU", "memory"]
    return table([*headings, "pubs", "subs", "queued"], rows, names=2, kept=_ALL if whole else 0)


def _detectors_table(lines: Sequence[DetectorLine], per: str, most: int | None) -> Table:
    order = {(line.node, line.detector): at for at, line in enumerate(lines)}
    busiest = sorted(lines, key=lambda line: (line.state == "runs", -line.received))[:most]
    rows = [
        [
            line.detector,
            line.node,
            line.state if line.state != "runs" else "",
            spoken_count(line.received),
            spoken_count(line.results),
            spoken_share(line.corrected),
            spoken_count(line.late),
            spoken_lag(line.k),
            f"{line.alpha:.2f}",
            spoken_lag(line.lag),
            spoken_share(line.busy),
        ]
        for line in sorted(busiest, key=lambda line: order[line.node, line.detector])
    ]
    headings = [
        "detector",
        "node",
        "state",
        f"in{per}",
        f"results{per}",
        "corrected",
        f"late{per}",
        "K",
        "alpha",
        "lag",
        "busy",
    ]
    drawn = table(headings, rows, names=2, kept=_ALL if most is not None else 0)
    if rest := len(lines) - len(busiest):
        drawn.caption = f"and {rest} less busy ones"
    return drawn
