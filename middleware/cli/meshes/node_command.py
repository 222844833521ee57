"""``slackline node``: one node of a scenario in this process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.command_options import pairs
from middleware.model.errors import NetworkError, ScenarioError

if TYPE_CHECKING:
    from middleware.runtime.node import Node
    from middleware.runtime.plan import MetricsPlan
    from middleware.runtime.report import Reporter
    from middleware.runtime.scenario import Scenario
    from middleware.runtime.transport.keys import Keys


def node(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name or folder of the scenario.")],
    name: Annotated[str, typer.Argument(metavar="NODE", help="Which of its nodes to be.")],
    *,
    address: Annotated[
        list[str] | None, typer.Option(metavar="NODE=ADDRESS", help="Where a node is reached, instead of what the file says.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Fix alpha: 1 is pure buffering, 0 full speculation.")] = None,
    keys: Annotated[Path | None, typer.Option(help="This node's key file; needed beyond this machine.")] = None,
    allow_list: Annotated[Path | None, typer.Option("--allow-list", help="The list of keys that may attach.")] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of this node alone for what must outlast the process: its log, and the late ledger."),
    ] = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Take the whole log again, with detectors that have changed."),
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz there, instead of where the file says."),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Push metrics to this OpenTelemetry collector, instead of the file's: http://HOST:4318."
        ),
    ] = None,
    sources: Annotated[
        bool, typer.Option(help="Read the lines that queries name (SOURCE FILE, SOURCE HOST); or leave that to others.")
    ] = True,
    report: Annotated[Path | None, typer.Option(help="File that gets the node's report when it ends.")] = None,
    plan: Annotated[Path | None, typer.Option(hidden=True, help="The plan as JSON, instead of what the file says.")] = None,
    tethered: Annotated[
        bool, typer.Option("--tethered", hidden=True, help="End when standard input does: when whoever holds it is gone.")
    ] = False,
) -> None:
    """Run one node of a scenario until a signal ends it (Ctrl-C, SIGTERM); then finish what has arrived.

    A node with durability = "disk" resumes where its last life ended, even if that was killed; delete its state folder to
    have it begin anew.

    Examples:

      [bold]slackline node soccer field[/]

      [bold]slackline node ./plant press --keys press.key --allow-list allowed.txt[/]
    """
    from middleware.cli.output import log_as_json
    from middleware.link.columnar import load_arrow
    from middleware.observe.exposition import Exposition
    from middleware.runtime.loop.garbage import short_collections
    from middleware.runtime.plan import MetricsPlan
    from middleware.runtime.report import write_report
    from middleware.runtime.scenario import changed_plan, load_scenario
    from middleware.runtime.transport.keys import Keys

    chosen = load_scenario(scenario) if plan is None else changed_plan(scenario, plan)
    if name not in chosen.placement:
        raise ScenarioError(f"{scenario} has no node {name!r}; it has {', '.join(chosen.placement)}")
    if chosen.plan.log.format == "json":
        log_as_json()
    given = pairs("--address", address or [], "NODE=ADDRESS, such as field=tcp://127.0.0.1:7001")
    addresses = _addresses(chosen, name, given)
    if alpha is not None and not 0 <= alpha <= 1:
        raise typer.BadParameter(f"--alpha {alpha:g}: it lies between 0 (full speculation) and 1 (pure buffering)")
    own, reporter = Keys.given(keys, allow_list), _detectors(chosen, name, alpha)
    pushing = _pusher(MetricsPlan(otlp=otlp) if otlp is not None else chosen.plan.metrics)
    serving = metrics if metrics is not None else chosen.metrics_address(name)
    with Exposition(serving) if serving is not None else nullcontext() as exposition:  # it answers while the node recovers, too
        bind = next((each.bind for each in chosen.plan.nodes if each.name == name and name not in given), None)
        running = _begun(chosen, name, bind or addresses[name], addresses, reporter, own, state, rebuild)
        loading = threading.Thread(target=load_arrow)
        loading.start()
        if tethered:
            threading.Thread(target=_end_with_input, args=[running.stop], daemon=True).start()
        if exposition is not None:
            exposition.watch(running)
        with pushing(running), short_collections(), _fed(chosen, name, running, own, state, sources) as has_ended:
            running.run(has_ended)
        loading.join()  # what is loaded as Python ends cannot be
    if report is not None:
        write_report(reporter.report(name, running.statistics()), report)


def _addresses(chosen: Scenario, name: str, given: dict[str, str]) -> dict[str, str]:
    """Where each node is reached. Raises ScenarioError where the others could not reach this one."""
    from middleware.runtime.scenario import check_addresses, takes_any_port

    addresses = {each.name: each.address for each in chosen.plan.nodes} | given
    if takes_any_port(addresses[name]) and len(addresses) > 1:
        raise ScenarioError(f"nodes.{name}: its peers must know its port: give an address with one (--address {name}=...)")
    check_addresses(addresses)
    return addresses


def _detectors(chosen: Scenario, name: str, alpha: float | None) -> Reporter:
    """The node's detectors, and what writes its report."""
    from middleware.ordering.hierarchy import Adaptation, Hierarchy
    from middleware.runtime.report import Reporter

    adaptation = chosen.adaptation if alpha is None else Adaptation.NONE
    placed, policies = chosen.placement[name], chosen.policies(alpha)
    timer, settings = time.perf_counter_ns, chosen.settings
    return Reporter(Hierarchy(chosen.detectors, placed, policies, adaptation, timer, settings=settings))


def _begun(
    chosen: Scenario,
    name: str,
    bind: str,
    addresses: dict[str, str],
    reporter: Reporter,
    keys: Keys | None,
    state: Path | None,
    rebuild: bool,
) -> Node:
    """The node, recovered, on its state folder. Raises ScenarioError if what it was given will not do."""
    from middleware.runtime.node import Node
    from middleware.runtime.storage.late_ledger import FILE, Ledger
    from middleware.runtime.storage.store import Store

    durable, folder = chosen.is_durable(name), _state(chosen, name, state)
    was_there = folder is not None and (folder / FILE).exists()
    ledger, sources = Ledger(name, folder), chosen.plan.sources.policy()
    store = Store(folder, name) if durable and folder is not None else None
    is_new = store.is_new if store is not None else not was_there
    try:
        node = Node(
            name,
            bind,
            addresses,
            reporter,
            chosen.types,
            keys=keys,
            sources=sources,
            ledger=ledger,
            store=store,
            rebuild=rebuild,
        )
    except NetworkError as error:
        raise ScenarioError(f"node {name} cannot start: {error}") from None
    if folder is not None:
        _log_folder(folder, name, is_new)
    return node


@contextmanager
def _fed(
    chosen: Scenario, name: str, running: Node, keys: Keys | None, state: Path | None, serves_sources: bool
) -> Iterator[Callable[[], bool]]:
    """Read what the node's queries read, in a thread; gives what says whether that has ended, and asks it to.

    If it cannot continue, the node ends, too. Raises what it met.
    """
    if not serves_sources or not chosen.sources[name]:
        yield lambda: True
        return
    from middleware.connect.connectors import Connectors

    folder = _state(chosen, name, state)
    local = running.address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    connections = Connectors(
        chosen,
        {name: local},
        folder / "sources" if folder is not None else None,
        keys=keys.of_itself() if keys is not None else None,
        sources=chosen.sources[name],
    )
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            connections.run()
        except BaseException as error:
            failures.append(error)
            running.stop()

    def has_ended() -> bool:
        connections.end()
        return not thread.is_alive()

    thread = threading.Thread(target=serve, name="sources", daemon=True)
    thread.start()
    yield has_ended
    if failures:
        raise failures[0]


def _state(chosen: Scenario, name: str, state: Path | None) -> Path | None:
    """The folder for what outlasts the process; None: nothing does."""
    from middleware.runtime.scenario import state_folder

    return state if state is not None or not chosen.is_durable(name) else state_folder(chosen) / name


def _pusher(metrics: MetricsPlan) -> Callable[[Node], AbstractContextManager[object]]:
    """The pusher of a node's metrics while it runs. That it lacks its extra shows here, before the node recovers."""
    collector = metrics.collector()
    if collector is None:
        return nullcontext
    from middleware.observe.otlp import Pusher

    return partial(Pusher, collector)


def _log_folder(folder: Path, name: str, is_new: bool) -> None:
    import structlog

    begins = "anew" if is_new else "where it ended"
    structlog.get_logger().info("state folder", node=name, folder=str(folder.resolve()), begins=begins)


def _end_with_input(stop: Callable[[], None]) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    stop()
