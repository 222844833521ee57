"""``slackline why-waiting``: which source, key and buffer hold a stream back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from middleware.broker.watermarks.waiting import UNENDED, NodeStatus, explain, final_by_type
from middleware.cli.command_options import AllowList, KeyFile, NodeNames, candidates, silence_reporter
from middleware.cli.output import JsonFile, console, write_json
from middleware.model.errors import NetworkError
from middleware.model.event import END
from middleware.model.quantities import local_time
from middleware.observe.mesh import Lookout

if TYPE_CHECKING:
    from middleware.runtime.transport.keys import Keys

_TIME = re.compile(r"(?:(?<=up to )|(?<=reaches )|(?<=clk is )|(?<=clk \()|(?<= at ))\d{18,19}\b")
"""Where a line names a moment."""

_ALPHA = re.compile(r"(?<=\+ )[\d.e+-]+(?= \* K \()")
"""Where a line names alpha, which comes down to nothing by halves."""


def why_waiting(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="The nodes to ask: tcp://127.0.0.1:5701 ...")],
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", help="Types to explain (default: all derived ones that have not ended)."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 10.0,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeNames = None,
    json: JsonFile = None,
) -> None:
    """Why results are not final yet: follows each stream down to the source, key or buffer that holds it back.

    Give the addresses of all nodes that take part, so that it can be followed from one to the next. A node that does not
    answer is named, and the others are asked.

    Examples:

      [bold]slackline why-waiting tcp://127.0.0.1:5701 tcp://127.0.0.1:5702[/]

      [bold]slackline why-waiting tcp://127.0.0.1:5702 --type soccer.Pass[/]

      [bold]slackline why-waiting tcp://10.0.0.5:5701 tcp://10.0.0.6:5701 --keys me.key --allow-list allowed.txt[/]
    """
    own, names = candidates(keys, allow_list, node)
    screen = console(json)
    mesh = MeshWaits.asked(addresses, timeout, own, names, silence_reporter(timeout))
    if not mesh.nodes:
        raise NetworkError("; ".join(mesh.silent))
    explained_types = mesh.explained(type_)
    for line in (*mesh.silent, *(line for lines in explained_types.values() for line in lines)):
        screen.print(line, markup=False, soft_wrap=True)
    if not explained_types:
        is_known = any(each.units or each.streams for each in mesh.nodes)
        all_final = "nothing waits: all that is derived is final to the end"
        screen.print(all_final if is_known else "no node that was asked knows any event type: nobody has sent one yet")
    if json:
        write_json({"nodes": mesh.nodes, "silent": mesh.silent, "explained": explained_types}, json)


class MeshWaits(msgspec.Struct):
    """The reports of the nodes of a mesh on what they wait for; ``silent``: a line for each that does not answer."""

    nodes: list[NodeStatus]
    silent: list[str] = []

    @classmethod
    def asked(
        cls,
        addresses: Sequence[str],
        timeout: float,
        keys: Keys | None = None,
        names: Sequence[str] = (),
        report_silent: Callable[[str], None] = lambda address: None,
    ) -> MeshWaits:
        """Ask the nodes at ``addresses``, all at once. Takes no longer than ``timeout`` seconds and a little.

        ``names``: of the nodes in the allow-list of ``keys``; at each address, the first of them to answer counts.
        ``report_silent`` is called with each address that has not answered after a second or two.
        """
        with Lookout(addresses, keys, names, follows=False) as lookout:
            found = lookout.look(timeout, report_silent)
        return cls(list(found.nodes), found.silent)

    def explained(self, types: Iterable[str] | None = None) -> dict[str, list[str]]:
        """By type, why it is final as far as it is and no further; of all derived ones that have not ended, if none are named.

        If there are no derived ones, of all others. Empty if all that is derived has ended.
        """
        derived = final_by_type(self.nodes)
        raw = sorted({name for node in self.nodes for name in node.streams} - derived.keys())
        open_ones = [name for name, at in sorted(derived.items(), key=lambda item: item[1]) if at != END]
        chosen = list(types or ()) or (open_ones if derived else raw)
        return {name: self._explained(name, derived.get(name)) for name in chosen}

    def _explained(self, name: str, final: int | None) -> list[str]:
        clock = max((node.clock for node in self.nodes if node.clock is not None), default=None)
        waiting = any(unit.waiting or unit.halted for node in self.nodes for unit in node.units)
        lines = [_ALPHA.sub(_rounded, _TIME.sub(_as_time, line)) for line in explain(self.nodes, name)]
        if final is not None and final != END and clock is not None and final >= clock and not waiting and not self.silent:
            up_to = _TIME.sub(_as_time, f"all that has come is final, up to {final}")
            if not any(UNENDED in line for line in lines):
                return [f"{name}: nothing waits: {up_to}"]
            lines.insert(0, f"{name}: {up_to}; its end has not come:")
        if self.silent:
            lines = [re.sub(r"ask node (.+) too, by giving its address", r"node \1 has not answered", line) for line in lines]
        return lines


def _as_time(found: re.Match[str]) -> str:
    return local_time(int(found[0]))


def _rounded(found: re.Match[str]) -> str:
    """A number with three decimals at most."""
    return f"{round(float(found[0]), 3):g}"
