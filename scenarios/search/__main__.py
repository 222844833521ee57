"""``python -m scenarios.search``: pages come in, workers index them, and you look things up while they do."""

from __future__ import annotations

import sys
import threading
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from middleware.model.errors import NetworkError, SlacklineError
from middleware.model.event import END
from middleware.runtime.clients import Subscriber
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import Scenario
from scenarios.search.index import Page, Posted, words_of
from scenarios.search.lookup import LiveIndex
from scenarios.search.workers import Mode, Writer, placed

_SHOWN = 10
_HELP = 'words all of which a page has, "phrases in quotes"; :list WORD shows a posting list, :stats counts, :quit ends'


class Live:
    """The index, kept up to date by a thread of its own; ``lock`` for whoever looks into it."""

    def __init__(self, subscriber: Subscriber) -> None:
        self.index = LiveIndex()
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.failure: str | None = None
        self._subscriber = subscriber
        self._thread = threading.Thread(target=self._follow, name="index", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Follow no longer."""
        self.done.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while self.index.watermark < END and not self.done.is_set():
                batch = self._subscriber.receive_batch(0.1)
                with self.lock:
                    self.index.take(batch)
        except NetworkError as error:
            self.failure = str(error)
        self.done.set()


def main(
    *,
    wikipedia: Annotated[bool, typer.Option("--wikipedia", help="Real pages instead of generated ones.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="How many nodes keep the index.")] = 2,
    rate: Annotated[float, typer.Option(min=0.1, help="Pages a second.")] = 10.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long pages come.")] = 20.0,
    query: Annotated[list[str] | None, typer.Option(help="Ask this when all pages are in, and end; may be repeated.")] = None,
) -> None:
    """An inverted index over pages, kept by several nodes; look things up while pages come in.

    Examples:

      python -m scenarios.search

      python -m scenarios.search --wikipedia --query '"social movement"' --query anarchism
    """
    screen = Console(highlight=False)
    try:
        given = _pages(wikipedia, rate, seconds)
        _serve(given, workers, rate, query, screen)
    except SlacklineError as error:
        Console(stderr=True, highlight=False).print(f"error: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _pages(real: bool, rate: float, seconds: float) -> list[Page]:
    if real:
        from scenarios.search.wikipedia import articles

        found = islice(articles(), max(1, round(rate * seconds)))
        return [Page(title, text, ts=number, id=number, source="wikipedia") for number, (title, text) in enumerate(found, 1)]
    from scenarios.search.pages import pages

    return [Page(**row) for row in pages(7, seconds, rate)["search.Page"].to_pylist()]


def _serve(given: list[Page], workers: int, rate: float, queries: list[str] | None, screen: Console) -> None:
    scenario = placed(workers, Mode.OPTIMISTIC)
    with Cluster(scenario) as cluster, _subscribed(cluster, scenario) as subscriber:
        with screen.status(f"starting {len(scenario.placement)} nodes ..."):
            cluster.await_ready(subscriber.wait_ready)
        live = Live(subscriber)
        Writer(cluster.addresses[scenario.entry], list(given), rate, 1).start()
        try:
            if queries:
                with screen.status(f"indexing {len(given)} pages ..."):
                    live.done.wait()
                for each in queries:
                    answer(live, each, screen)
            else:
                prompt(live, len(given), screen)
        finally:
            live.stop()
    if live.failure:
        raise SlacklineError(live.failure)


def _subscribed(cluster: Cluster, scenario: Scenario) -> Subscriber:
    return Subscriber(cluster.addresses[list(scenario.placement)[-1]], [Posted], name="prompt")


def prompt(live: Live, expected: int, screen: Console) -> None:
    """Ask and answer until the end of the input."""
    screen.print(f"{expected} pages are coming in. Look up {_HELP}.")
    while True:
        try:
            line = screen.input("[bold]search>[/] ").strip()
        except EOFError:
            return
        if line in (":quit", ":q"):
            return
        if line:
            answer(live, line, screen)


def answer(live: Live, line: str, screen: Console) -> None:
    """Answer one line."""
    with live.lock:
        index = live.index
        if line == ":stats":
            state = "complete and final" if index.watermark == END else "growing"
            screen.print(f"{index.pages} pages, {index.words} words, {index.changed} postings revised or withdrawn; {state}")
        elif line.startswith(":list "):
            for word in words_of(line.removeprefix(":list ")):
                pages = [f"{posted.rank}. {posted.page}" for posted in index.posting_list(word)]
                screen.print(
                    f"{word}: {', '.join(pages[:_SHOWN]) or 'nowhere'}{' ...' if len(pages) > _SHOWN else ''}", markup=False
                )
        elif line.startswith(":"):
            screen.print(_HELP)
        else:
            hits = index.search(line)
            table = Table(title=f"{len(hits)} of {index.pages} pages: {line}", title_justify="left")
            for heading in ("page", "score", "first at", "state"):
                table.add_column(heading)
            for hit in hits[:_SHOWN]:
                state = "[green]final[/]" if hit.is_final else "[yellow]early[/]"
                table.add_row(hit.page, f"{hit.score:.2f}", ", ".join(map(str, hit.places)), state)
            screen.print(table)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command()(main)
    app(prog_name="python -m scenarios.search")
    sys.exit(0)
