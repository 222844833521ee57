"""``slackline sub`` and ``slackline pub``: look at the events of a running mesh, and put some in by hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext, suppress
from pathlib import Path
from typing import IO, Annotated
from uuid import uuid4

import msgspec
import typer

from middleware.broker.ingress.receipts import REPORTED
from middleware.cli.command_options import AllowList, KeyFile, NodeName
from middleware.cli.meshes.awaited import report_missing_publishers
from middleware.cli.output import STANDARD_OUTPUT, ExitCode, JsonFile, console, event_text, write_json
from middleware.installation import install
from middleware.link.codec import OnSlow, Sample, name_of
from middleware.link.frames import misnamed
from middleware.model.block.arrays import sound
from middleware.model.change import Change, Insert, Watermark
from middleware.model.errors import EventError, NetworkError, SlacklineError, TraceError
from middleware.model.event import END, Event, EventTypes
from middleware.model.quantities import local_time
from middleware.model.words import meant, shown
from middleware.runtime.clients import Consistency, Publisher, Receipt, Subscriber
from middleware.runtime.json_records import Record, as_record, event_of, own_fields, sendable
from middleware.runtime.sinks.sink import Sink, deliver, open_sink
from middleware.runtime.transport.keys import Keys
from middleware.runtime.usercode import import_user_module

_BATCH = 512
_BAD_LINES_SHOWN = 5

Address = Annotated[str, typer.Argument(help="Where the node is, such as tcp://127.0.0.1:5701.")]
TypesFrom = Annotated[
    list[str], typer.Option("--types-from", metavar="MODULE", help="Module with the event classes; may be given several times.")
]


def event_types(modules: list[str]) -> EventTypes:
    """All event classes that the modules have. Raises ScenarioError if one cannot be imported, EventError if it has none."""
    sys.path.insert(0, os.getcwd())
    types = EventTypes()
    for name in modules:
        module = import_user_module(name)
        found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Event)]
        if not any(each is not Event for each in found):
            raise EventError(f"module {name} has no event classes (class Name(Event): ...)")
        for each in found:
            if each is not Event:
                types.add(each)
    return types


def sub(
    address: Address,
    types: Annotated[list[str], typer.Argument(help="Event types, or patterns such as 'soccer.*'.")],
    types_from: TypesFrom,
    consistency: Annotated[
        str | None,
        typer.Option(help="early: every change at once; final: each event once, in order. Default: early; with --to final."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SINK",
            help="Keep each final event once: FILE.jsonl, FILE.sqlite, FILE.db, http(s)://, postgresql://, kafka://, ...",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Go on where the last subscription of this name ended, at a node with a log."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many changes.")] = None,
    slow: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="If this reader does not keep up: [bold]disconnect[/] holds nobody up (a node with a log serves it from "
            "there, any other lets it go); [bold]block[/] makes the sources wait for it.",
        ),
    ] = "disconnect",
    json_file: JsonFile = None,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeName = None,
) -> None:
    """Subscribe to events and print them, until their streams end. With --json one line of JSON for each change: with --resume
    added to those that the file has.

    With --to they are not printed but kept, each final event once. Started again with the same --resume, after Ctrl-C or a
    crash, it resumes behind the last event that the file or table has; an HTTP endpoint may get the last events again, and
    knows them by (source, id). Without --resume, what comes while nobody listens is not delivered; what comes from then on is
    added to what the file or table has. Ends with 1 if events are missing: after a gap that the node has reported, or because
    the node has let it go, as it read too slowly.

    Examples:

      [bold]slackline sub tcp://127.0.0.1:5701 soccer.Pass --types-from detectors.soccer.events[/]

      [bold]slackline sub tcp://127.0.0.1:5701 'soccer.*' --types-from detectors.soccer.events --consistency final --json -[/]

      [bold]slackline sub tcp://127.0.0.1:5701 Alarm --types-from my.events --to alarms.jsonl --resume alarms[/]

      [bold]slackline sub tcp://127.0.0.1:5701 Alarm --types-from my.events --to https://host/alarms --resume desk[/]
    """
    if resume is not None and (wrong := misnamed(resume)):
        raise typer.BadParameter(wrong, param_hint="--resume")
    own, chosen, on_slow = Keys.given(keys, allow_list), _consistency(consistency, to), _on_slow(slow)
    with ExitStack() as stack:
        known = event_types(types_from)
        check_known(types, known, types_from)
        sink = stack.enter_context(closing(open_sink(to, resume or "finals"))) if to is not None else None
        subscriber = stack.enter_context(
            Subscriber(
                address,
                types,
                event_types=known,
                consistency=chosen,
                on_slow=on_slow,
                resume=resume,
                after=sink.position if sink is not None and resume is not None else None,
                keys=own,
                node=node,
            )
        )
        stack.enter_context(report_missing_publishers(subscriber, types, own, node))
        if sink is None:
            _print(subscriber, count, json_file, resumes=resume is not None)
        else:
            _keep(subscriber, sink, count, json_file)


def _consistency(given: str | None, to: str | None) -> Consistency:
    if given not in ("early", "final", None):
        raise typer.BadParameter("must be early or final", param_hint="--consistency")
    if to is not None and given == "early":
        raise typer.BadParameter("a sink takes final events only", param_hint="--consistency")
    return "final" if given == "final" or to is not None else "early"


def _on_slow(given: str) -> OnSlow:
    if given not in ("disconnect", "block"):
        raise typer.BadParameter("must be disconnect or block", param_hint="--slow")
    return "block" if given == "block" else "disconnect"


def check_known(types: list[str], known: EventTypes, modules: list[str]) -> None:
    """Refuse names whose events could not be shown. Raises EventError."""
    for name in types:
        if "*" not in name and name not in known:
            near = meant(name, known)
            raise EventError(
                f"{', '.join(modules)} has no event type {name!r}"
                + (f"; did you mean {near!r}?" if near else "")
                + " (--types-from: the module that has its class; that of a query's results is query.result)"
            )


def _print(subscriber: Subscriber, count: int | None, json_file: str | None, resumes: bool) -> None:
    out, aside = console(json_file), console(STANDARD_OUTPUT)
    gaps, last = 0, "the beginning"
    stopped_at: Change | None = None
    try:
        with _writer(json_file, "a" if resumes else "w") if json_file is not None else nullcontext() as lines:
            for number, change in enumerate(subscriber, 1):
                if not isinstance(change, Watermark):
                    at = local_time(change.event.ts)
                    if subscriber.gaps != gaps:
                        gaps = subscriber.gaps
                        aside.print(f"gap: changes are missing between {last} and {at}", markup=False)
                    last = at
                if lines is not None:
                    lines.write(msgspec.json.encode(described(change)).decode() + "\n")
                    lines.flush()
                else:
                    out.print(_line(change), markup=False)
                if number == count:
                    stopped_at = change
                    break
        _commit(subscriber, stopped_at)
    except NetworkError as error:
        error.add_note(f"what followed {last} is missing here")
        raise
    missing = _missing(subscriber)
    if subscriber.node_has_left and not subscriber.has_ended:
        aside.print("the node has left before the streams have ended")
        not_final = subscriber.statistics().held_back if stopped_at is None else 0  # what was not asked for is not missing
        if not_final:
            missing["event that was not final when the node left"] = not_final
    for reason, dropped in missing.items():
        aside.print(f"not shown: {dropped} x {reason}")
    if missing:
        raise typer.Exit(ExitCode.FAILED)


def _commit(subscriber: Subscriber, stopped_at: Change | None) -> None:
    """Printed events do not come again under this name; early changes that came together do so all or none."""
    with suppress(NetworkError):  # the node has left: changes that it saw no commit of come again
        if isinstance(stopped_at, Insert) and subscriber.consistency == "final":
            subscriber.commit_upto(stopped_at.event)
        else:
            subscriber.commit()


def _keep(subscriber: Subscriber, sink: Sink, count: int | None, json_file: str | None) -> None:
    out = console(json_file)
    with out.status("waiting for final events ...") as status:
        kept = deliver(subscriber, sink, count=count, on_delivery=lambda number: status.update(f"{number:,} events kept ..."))
    missing = _missing(subscriber)
    out.print(f"kept {kept} events")
    for reason, dropped in missing.items():
        out.print(f"not kept: {dropped} x {reason}")
    if json_file is not None:
        write_json({"events": kept, "missing": missing}, json_file)
    if missing:
        raise typer.Exit(ExitCode.FAILED)


def _missing(subscriber: Subscriber) -> dict[str, int]:
    counts = subscriber.statistics()
    return counts.drops | counts.violations


def described(change: Change) -> Record:
    """A change as values of JSON: kind, type, and the event's fields (see ``as_record``); ``pub`` reads the same."""
    kind = {"change": type(change).__name__.lower()}
    return kind | {"ts": change.ts} if isinstance(change, Watermark) else as_record(change.event, kind)


def _line(change: Change) -> str:
    if isinstance(change, Watermark):
        return "= the end" if change.ts == END else f"= final up to {local_time(change.ts)}"
    sign = "+" if isinstance(change, Insert) else "~" if type(change).__name__ == "Revise" else "-"
    return f"{sign} {event_text(change.event)}"


def _writer(file: str, mode: str) -> IO[str]:
    """``mode``: "a" where what the file has does not come again."""
    return open(os.dup(sys.stdout.fileno()), "w") if file == STANDARD_OUTPUT else Path(file).open(mode)


def pub(
    address: Address,
    file: Annotated[str, typer.Argument(help="JSON lines or Parquet (NAME.parquet); - is standard input.")],
    types_from: TypesFrom,
    type_: Annotated[str | None, typer.Option("--type", help="Event type of records that do not name theirs.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Source of records that name none; their ids are their line numbers. By default another one for each run; "
            "with a name, what is published again under it counts once.",
        ),
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="Nothing more comes of these types from here.")] = False,
    json_file: JsonFile = None,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeName = None,
) -> None:
    """Publish events read from a file or standard input: fields by name, and 'type'. Broken records are counted and skipped.

    Each (source, id) is taken once. Records that name no source are of one that is new with each run; with --source NAME the
    same file may be published again, after a crash, say, and counts once. Rejected events are shown, with the reason.
    Ends with 1 if any event was rejected (save repeats of events that the node has), or if there is nothing but broken records.

    Examples:

      [bold]slackline pub tcp://127.0.0.1:5701 readings.jsonl --types-from my.events --type Reading --end[/]

      [bold]tail -f sensor.jsonl | slackline pub tcp://127.0.0.1:5701 - --types-from my.events[/]
    """
    known = event_types(types_from)
    source = source or f"pub-{uuid4().hex[:12]}"
    broken: list[str] = []
    published: set[str] = set()
    count = 0
    with Publisher(address, keys=Keys.given(keys, allow_list), node=node) as publisher:
        at_once = _BATCH if file != STANDARD_OUTPUT and Path(file).is_file() else 1  # whoever writes a pipe may write slowly
        for batch in _batches(read_events(file, known, type_, source, broken), at_once):
            publisher.publish(batch)
            count += len(batch)
            published.update(map(name_of, batch))
        if not published and not broken and type_ is not None and type_ in known:
            published.add(type_)  # an empty file ends its type, too
        if end and published:
            publisher.advance(published, END)
        receipt = publisher.flush()
    out = console(json_file)
    if end and not published:
        out.print("nothing has ended: no event was published, so give a file with good records, or an empty one and its --type")
    of = "" if receipt.is_whole else f"{receipt.taken + receipt.repeats} of "
    out.print(f"published {of}{count} events; {len(broken)} broken records skipped")
    for line in describe_receipt(receipt):
        out.print(f"  {line}", markup=False, soft_wrap=True)
    for complaint in broken[:_BAD_LINES_SHOWN]:
        out.print(f"  {complaint}", markup=False)
    if json_file is not None:
        outcome = {"events": count, "source": source, **msgspec.structs.asdict(receipt)}
        write_json(outcome | {"broken": len(broken), "complaints": broken[:100]}, json_file)
    if (broken and not count) or not receipt.is_whole:
        raise typer.Exit(ExitCode.FAILED)


def describe_receipt(receipt: Receipt) -> list[str]:
    """The events that a node has not taken, and why, line by line."""
    lines = []
    if receipt.repeats:
        lines.append(f"{receipt.repeats:,} of them it had before: repeats, nothing is lost")
    for reason, number in receipt.rejected.items():
        lines.append(f"{number:,} rejected: {reason}")
        lines += [f"  {_described(sample)}" for sample in receipt.samples if sample.reason == reason]
    if receipt.rejected.keys() & REPORTED:
        lines.append("'slackline late list' shows them at the node's state folder")
    if receipt.unknown:
        lines.append(f"{receipt.unknown:,} of which the node cannot say what became of them: publish them again")
    return lines


def _described(sample: Sample) -> str:
    which = "" if sample.id is None else f" ({sample.source!r}, {sample.id})"
    when = "" if sample.ts is None else f" at {local_time(sample.ts)}"
    return f"{sample.type}{which}{when}" + (f": {sample.details}" if sample.details else "")


def _batches(events: Iterator[Event], size: int) -> Iterator[list[Event]]:
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def read_events(file: str, known: EventTypes, default: str | None, source: str, broken: list[str]) -> Iterator[Event]:
    for number, record in _records(file):
        try:
            if isinstance(record, str | bytes):
                record = msgspec.json.decode(record)
            if not isinstance(record, dict):
                raise EventError("not an object with fields by name")
            if (change := record.get("change", "insert")) == "watermark":
                continue
            if change != "insert":
                raise EventError(
                    f"its 'change' is {shown(change)}: only new events are published, as 'sub --consistency final' gives them; "
                    "a field of the event that is called so is given as 'change_'"
                )
            name = record.get("type", default)
            if not isinstance(name, str):
                raise EventError("it names no type: give it a field 'type', or use --type")
            fields = own_fields(record, known[name])
            yield sendable(event_of(known[name], {"source": source, "id": number} | fields | {"level": 0}))
        except (SlacklineError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            broken.append(f"{file}:{number}: {error}")


def _records(file: str) -> Iterator[tuple[int, object]]:
    """Records with their line (or row) numbers."""
    if file == STANDARD_OUTPUT:
        yield from ((number, line) for number, line in enumerate(sys.stdin.buffer, 1) if line.strip())
        return
    try:
        if file.endswith(".parquet"):
            yield from _rows(file)
        else:
            with open(file, "rb") as lines:
                yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    except OSError as error:
        raise TraceError(f"cannot read {file}: {error.strerror or error}") from None


def _rows(file: str) -> Iterator[tuple[int, object]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise TraceError(f"Parquet needs pyarrow; {install('spark')}") from None
    try:
        number = 0
        for batch in map(sound, pq.ParquetFile(file).iter_batches()):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TraceError(f"{file} is no Parquet file: {error}") from None
