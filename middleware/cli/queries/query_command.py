"""``slackline query``: a sequence query from the command line, over files, a trace, a scenario, or the events of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from detectors.sequence.algorithm import Algorithm
from detectors.sequence.explain_sequence import explain
from detectors.sequence.sequence_operator import SequenceQuery
from detectors.sequence.whynot import why_not
from middleware.cli.meshes.pubsub import described
from middleware.cli.output import (
    STANDARD_OUTPUT,
    ExitCode,
    JsonFile,
    console,
    event_text,
    kept_for_results,
    print_error,
    print_late,
    results,
)
from middleware.cli.queries.inputs import QueryInput, lateness_of, source_of
from middleware.cli.queries.mesh_feed import MeshFeed
from middleware.cli.queries.query_feed import Repeats, UnitFailures, batch_of, needed, only
from middleware.cli.result_files import KINDS, FinalsFile, check_not_read, check_results
from middleware.model.change import Batch, Change, Insert, Revise, Watermark
from middleware.model.errors import RunError, SlacklineError
from middleware.model.event import END, IDENTITY, Event, type_name
from middleware.ordering.records import LateSummary

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.delivery.barrier import Barrier
    from middleware.ordering.hierarchy import Hierarchy

LARGEST_STEP = 4_096
"""At most so many events of a file that grows are taken to arrive at once."""

_SOURCES_SHOWN = 8
"""How many sources a message names."""


def query(
    text: Annotated[str, typer.Argument(metavar="QUERY", help="The query, or @FILE that holds it.")],
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="Files (CSV, JSON lines, Parquet, Arrow); a trace's folder, a scenario, or a node such as tcp://127.0.0.1:5701.",
        ),
    ],
    types_from: Annotated[
        list[str] | None, typer.Option("--types-from", metavar="MODULE", help="Module with event classes (needed for a node).")
    ] = None,
    explained: Annotated[bool, typer.Option("--explain", help="Show the plan, and run nothing.")] = False,
    event: Annotated[
        str | None, typer.Option("--why-not", metavar="SOURCE:ID", help="Show how far matches with this event get.")
    ] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Every change as it comes, not the final results alone.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many lines.")] = None,
    algorithm: Annotated[
        Algorithm | None,
        typer.Option(
            help="For study: this algorithm of the paper, in Python alone, and what it costs; the results are the same."
        ),
    ] = None,
    lateness: Annotated[str, typer.Option(help="For how long results over a node's events may change, at least.")] = "1s",
    batch: Annotated[int, typer.Option(min=1, help="Events of a trace that are taken to arrive at once.")] = 16,
    out: Annotated[Path, typer.Option(help="Folder for traces of scenarios.")] = Path("out"),
    mapping: Annotated[
        Path | None,
        typer.Option(help="TOML file that maps the columns of files; without one, their names and values decide."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is appended to the files, until Ctrl-C.")] = False,
    results_file: Annotated[
        str | None,
        typer.Option("--results", metavar="FILE", help=f"Write the final results: {KINDS}.", callback=kept_for_results),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run a sequence query over events in their order of arrival: results early, corrected, and final.

    A query over a scenario can read the results of its detectors, too. With --json one line of JSON for each change.

    A file's events are called as the file is, unless a mapping names them; several files are several types.

    Examples:

      [bold]slackline query "EVENT SEQ(readings a, readings b) WHERE b.celsius > a.celsius + 5 WITHIN 10 s" readings.csv[/]

      [bold]slackline query @theft.sase shelves.parquet exits.jsonl --mapping shop.toml --results thefts.parquet[/]

      [bold]slackline query "EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE \\[tag] WITHIN 1 hour" bookstore[/]

      [bold]slackline query "EVENT SEQ(Report a, Report b) WHERE \\[device] ... WITHIN 1 s" traces/umts --explain[/]

      [bold]slackline query @theft.sase tcp://127.0.0.1:5701 --types-from scenarios.bookstore.shop --changes[/]

      [bold]slackline query @theft.sase bookstore --why-not gate-1:117[/]
    """
    screen = console(STANDARD_OUTPUT if results_file == STANDARD_OUTPUT else json_file)
    written = _text(text)
    if results_file is not None:
        check_results(results_file)
    check_not_read(
        (results_file, json_file), [*source, *([mapping] if mapping else []), *([text[1:]] if text[:1] == "@" else [])]
    )
    data = source_of(source, types_from or [], mapping)
    for line in data.files.descriptions() if data.files is not None else ():
        screen.print(line, style="dim", markup=False, soft_wrap=True)
    if follow and data.files is None:
        raise SlacklineError("--follow is for files; a node's events come as they are published anyway")
    plan = SequenceQuery(written, data.types, "Query", algorithm)  # before anything starts, so that errors show at once
    if explained:
        screen.print("\n".join(explain(plan.plan)), markup=False)
        return
    if data.scenario is not None:
        from middleware.cli.runs.run import prepared

        data.trace = prepared(data.scenario, out, screen)
    if event is not None:
        _explain_event(plan, data, event, screen)
        return
    lines = _Lines(json_file, screen, changes, count, results_file, follow or bool(data.address))
    hierarchy = _hierarchy(plan, data, lateness_of(lateness), follow)
    failures = UnitFailures(hierarchy.units)
    repeats = Repeats()
    batches = _batches(plan, data, hierarchy, follow, batch, repeats)
    try:
        with screen.status("...") as status:

            def show_count(events: int) -> None:
                status.update(f"{events:,} events ...")

            for change in _results(batches, hierarchy, type_name(plan.result), failures, show_count):
                if not lines.show(*change):
                    break
        lines.ends()
    finally:
        lines.close()
        if late := LateSummary.of({unit.name: unit.late for unit in hierarchy.units}):
            print_late(late)
        if algorithm is not None:
            screen.print(f"algorithm {algorithm}: {plan.work}")
        _print_notes(data, batches, repeats, failures, screen)
    if failures.sentences():
        raise typer.Exit(ExitCode.FAILED)


def _print_notes(data: QueryInput, batches: Iterable[Batch], repeats: Repeats, failures: UnitFailures, screen: Console) -> None:
    """Print the notes on rows that were skipped, and the failures."""
    notes = [*data.files.notes(), *repeats.notes(data.files.read)] if data.files is not None else repeats.notes()
    for note in [*notes, *(batches.notes() if isinstance(batches, MeshFeed) else [])]:
        screen.print(note, style="yellow", markup=False, soft_wrap=True)
    for failure in failures.sentences():
        print_error(RunError(failure))


def _hierarchy(plan: SequenceQuery, data: QueryInput, lateness: int, follow: bool) -> Hierarchy:
    """The units that run the query and derive its input. No recorded event is late, since the lateness is known."""
    from middleware.ordering.hierarchy import Hierarchy
    from middleware.ordering.policies import Policies
    from middleware.ordering.slack.kslack import Lateness

    bound = Lateness(floor=lateness) if follow or data.address else Lateness(1.0, data.lateness() + 1)
    detectors, policies = {**needed(plan.subscribes, data.detectors), plan.name: plan}, Policies(alpha=0.0, lateness=bound)
    return Hierarchy(detectors, policies=policies, resumes=False)


def _text(text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise SlacklineError(f"cannot read the query in {text[1:]}: {error.strerror}") from None


def _batches(
    plan: SequenceQuery, data: QueryInput, hierarchy: Hierarchy, follow: bool, size: int, repeats: Repeats
) -> Iterable[Batch]:
    """The input of the query: the events of a node, of files that grow, or of a recording and then its end."""
    if data.address:
        return MeshFeed(data.address, data.types, [type_name(each) for each in plan.subscribes])
    if follow:
        assert data.files is not None
        return map(batch_of, repeats.without((some for some in data.files.follow() if some), LARGEST_STEP))
    ended = Batch({}, dict.fromkeys(hierarchy.subscriptions, END))
    return chain(map(batch_of, repeats.without(data.arrivals(), size)), [ended])


def _results(
    batches: Iterable[Batch], hierarchy: Hierarchy, name: str, failures: UnitFailures, show_count: Callable[[int], None]
) -> Iterator[tuple[Change | None, Event | None]]:
    """Changes, and finals, of the query, until the batches end or a unit has stopped."""
    from middleware.delivery.barrier import Barrier

    barrier, count = Barrier([name]), 0
    for batch in batches:
        if batch.deltas:
            count += sum(map(len, batch.deltas.values()))
            show_count(count)
        yield from _delivered(hierarchy.process(batch), name, barrier)
        if failures.take():
            return


def _delivered(batches: list[Batch], name: str, barrier: Barrier) -> Iterator[tuple[Change | None, Event | None]]:
    for batch in batches:
        own = only(name, batch)
        for delta in own.deltas.values():
            for change in delta.changes():
                yield change, None
        for event in barrier.take(own):
            yield None, event


class _Lines:
    """Shows changes, or finals, line by line, and sums up."""

    def __init__(
        self,
        json_file: str | None,
        screen: Console,
        changes: bool,
        count: int | None,
        results_file: str | None = None,
        is_endless: bool = False,
    ) -> None:
        self._screen = screen
        self._changes = changes
        self._left = count
        self._totals = {"final": 0, "early": 0, "revised": 0, "withdrawn": 0}
        self._results = FinalsFile(results_file, is_endless) if results_file is not None else None
        self._json = None
        if json_file is not None:
            self._json = results() if json_file == STANDARD_OUTPUT else open(json_file, "w", encoding="utf-8")  # noqa: SIM115

    def show(self, change: Change | None, final: Event | None) -> bool:
        """Show a change or a final; False when enough has been shown."""
        if change is not None:
            assert not isinstance(change, Watermark), "changes of a delta"
            kind = "early" if isinstance(change, Insert) else "revised" if isinstance(change, Revise) else "withdrawn"
            self._totals[kind] += 1
            if not self._changes:
                return True
            sign = {"early": "+", "revised": "~", "withdrawn": "-"}[kind]
            self._write(change, f"{sign} {event_text(change.event)}")
        elif final is not None:
            self._totals["final"] += 1
            if self._results is not None:
                self._results.add(final)
            if self._changes:
                return True
            self._write(Insert(final), event_text(final))
        if self._left is not None:
            self._left -= 1
        return self._left != 0

    def _write(self, change: Change, line: str) -> None:
        if self._json is not None:
            self._json.write(msgspec.json.encode(described(change)).decode() + "\n")
            self._json.flush()
        else:
            self._screen.print(line, markup=False, soft_wrap=True)

    def ends(self) -> None:
        """All results have been shown, or as many as were asked for."""
        if self._results is not None:
            self._results.is_whole = True

    def close(self) -> None:
        """Sum up."""
        for note in self._results.close() if self._results is not None else ():
            self._screen.print(note, style="yellow", markup=False, soft_wrap=True)
        totals = self._totals
        self._screen.print(
            f"{totals['final']:,} final; {totals['early']:,} came early, of which {totals['revised']:,} were revised "
            f"and {totals['withdrawn']:,} withdrawn"
        )
        if self._json is not None and self._json is not results():
            self._json.close()


def _named(events: Iterable[Event]) -> str:
    """Events by source and id, in the form that --why-not takes."""
    ids: dict[str, list[int]] = {}
    for event in events:
        least, most = ids.setdefault(event.source, [event.id, event.id])
        ids[event.source][:] = min(least, event.id), max(most, event.id)
    ranges = [
        f"{source}:{least} to {source}:{most}" if least < most else f"{source}:{least}" for source, (least, most) in ids.items()
    ]
    more = f" and {len(ranges) - _SOURCES_SHOWN:,} more sources" if len(ranges) > _SOURCES_SHOWN else ""
    return (", ".join(sorted(ranges)[:_SOURCES_SHOWN]) or "none") + more


def _explain_event(plan: SequenceQuery, data: QueryInput, named: str, screen: Console) -> None:
    """Why an event of a trace is in no match."""
    if data.address:
        raise SlacklineError("--why-not looks back: it needs files, a trace or a scenario, not a node")
    source, colon, number = named.rpartition(":")
    if not colon or not number.lstrip("-").isdigit():
        of = _named(event for part in data.arrivals() for event in part if event.__class__ in plan.subscribes)
        raise SlacklineError(f"{named!r} names no event: write SOURCE:ID; the query reads {of}")
    from middleware.runtime.engine import run

    recorded = [event for part in data.arrivals() for event in part]
    deriving = needed(plan.subscribes, data.detectors)
    derived = run(recorded, deriving).finals if deriving else {}
    read = [e for e in (*recorded, *(e for some in derived.values() for e in some)) if e.__class__ in plan.subscribes]
    there = {IDENTITY(e): e for e in reversed(read)}  # of those with one identity the first counts
    event = there.get((source, int(number)))
    if event is None:
        raise SlacklineError(
            f"there is no event {named} among the {len(there):,} that the query reads: {_named(there.values())}"
        )
    screen.print(event_text(event), markup=False)
    for line in why_not(plan.plan, there.values(), event):
        screen.print(f"  {line}", markup=False, soft_wrap=True)
