"""``slackline view``: a page that shows live what a mesh is doing."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from middleware.cli.command_options import AllowList, KeyFile
from middleware.cli.output import console
from middleware.installation import ROOT
from middleware.model.errors import NetworkError, ScenarioError

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.observe.view.mesh_watch import MeshWatch
    from middleware.observe.view.server import Page
    from middleware.runtime.cluster import Cluster
    from middleware.runtime.scenario import Scenario
    from middleware.runtime.transport.keys import Keys

BIND = "127.0.0.1:8780"
_LAST = 3.0
"""Seconds that the page may take to hear the last of a run."""

Bind = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the page is served; port 0 is any free one.")]


def view(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ADDRESS...", help="The nodes (default: those of --scenario). Results are read from the last one."
        ),
    ] = None,
    *,
    scenario: Annotated[
        str | None, typer.Option(help="Name or folder of the scenario that they run: its results and its own view are shown.")
    ] = None,
    bind: Bind = BIND,
    token: Annotated[
        str | None,
        typer.Option(help="What a visitor must know; needed where --bind is not this machine alone.", envvar="SLACKLINE_TOKEN"),
    ] = None,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", help="Name of a node in the allow-list; one for each address, in order."),
    ] = None,
) -> None:
    """Serve a page that shows what the nodes are doing: detectors with their rates, results as they come, are corrected and
    become final, what came too late, and what the scenario itself has to show. Until Ctrl-C.

    The page only reads. It is a subscriber that may be let go, so it slows nobody down, however many look at it. It is
    served on this machine alone, unless --bind says otherwise; then visitors need the token that is printed with its address.

    Examples:

      [bold]slackline view --scenario soccer[/]

      [bold]slackline view tcp://127.0.0.1:5701 tcp://127.0.0.1:5702 --scenario ./plant[/]

      [bold]slackline view tcp://10.0.0.5:5701 --keys me.key --allow-list allowed.txt --bind 0.0.0.0:8780[/]
    """
    from middleware.runtime.scenario import load_scenario
    from middleware.runtime.transport.keys import Keys

    plan = load_scenario(scenario) if scenario is not None else None
    if not addresses and plan is None:
        raise typer.BadParameter("give the addresses of the nodes, or --scenario with fixed ones")
    at = addresses or fixed_addresses(plan)
    own = Keys.given(keys, allow_list)
    if own is not None and token is None:
        token = secrets.token_urlsafe(16)
    screen = console(None)
    title = plan.plan.name if plan is not None else "mesh"
    with closing(opened_page(screen, bind, token)) as page, watching(page, at, plan, title, own, node or ()):
        until_interrupted()


def fixed_addresses(plan: Scenario | None) -> list[str]:
    """Where the nodes of a scenario are, the one that has most detectors last. Raises ScenarioError if only they know."""
    from middleware.runtime.scenario import takes_any_port

    assert plan is not None
    nodes = sorted(plan.plan.nodes, key=lambda each: len(plan.placement[each.name]))
    if free := [each.name for each in nodes if takes_any_port(each.address)]:
        raise ScenarioError(
            f"the addresses of {', '.join(free)} are not fixed in {plan.file}: give them, as the nodes have logged them"
        )
    return [each.address for each in nodes]


def opened_page(screen: Console, bind: str | None = None, token: str | None = None) -> Page:
    """The page, being served until it is closed or the command ends; without ``bind`` at its usual port, or any free one."""
    from middleware.observe.view.server import Page

    try:
        page = Page(bind or BIND, token)
    except NetworkError:
        if bind is not None:
            raise
        page = Page("127.0.0.1:0", token)
    page.start()
    screen.print(f"see it live: {page.url}", markup=False, soft_wrap=True)
    return page


def stays(page: Page, screen: Console) -> None:
    """The last state stays on the page until Ctrl-C, if somebody sits at the terminal; then the page ends."""
    if screen.is_terminal:
        screen.print(f"the page stays until Ctrl-C: {page.url}", markup=False, soft_wrap=True)
        with suppress(KeyboardInterrupt):
            until_interrupted()
    page.close()


@contextmanager
def watching(
    page: Page, addresses: Sequence[str], plan: Scenario | None, title: str, keys: Keys | None = None, names: Sequence[str] = ()
) -> Iterator[MeshWatch]:
    """Show these nodes on the page until the block is left; their last state stays."""
    from middleware.model.event import EventTypes
    from middleware.observe.view.board import Board
    from middleware.observe.view.mesh_watch import MeshWatch
    from middleware.runtime.usercode import load_object

    results = (plan.plan.results or tuple(plan.derived)) if plan is not None else ()
    scene = load_object(plan.plan.view, plan.folder)() if plan is not None and plan.plan.view is not None else None
    board = Board(title, results, _named(plan) if plan is not None else "")
    if plan is None:
        board.note("give --scenario to see results, too")
    watch = MeshWatch(addresses, board, plan.types if plan is not None else EventTypes(), scene=scene, keys=keys, names=names)
    watch.start()
    page.show(watch)
    try:
        yield watch
    finally:
        watch.close()


@contextmanager
def following(page: Page | None, cluster: Cluster, mode: str) -> Iterator[None]:
    """As ``watching``, for the nodes of a run, until all is final; nothing if there is no page."""
    if page is None:
        yield
        return
    plan = cluster.scenario
    nodes = sorted(plan.placement, key=lambda name: len(plan.placement[name]))
    with watching(page, [cluster.addresses[name] for name in nodes], plan, f"{plan.plan.name}, {mode}") as watch:
        yield
        watch.await_end(_LAST)


def _named(plan: Scenario) -> str:
    """How a command names a scenario: by its name if it came with Slackline, else by its folder."""
    return plan.plan.name if plan.folder.is_relative_to((ROOT / "scenarios").resolve()) else str(plan.folder)


def until_interrupted() -> None:
    """Wait for Ctrl-C, or SIGTERM, which end the command."""
    threading.Event().wait()
