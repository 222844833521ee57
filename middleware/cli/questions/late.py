"""``slackline late``: what a node did not take into account, why, and how to feed it in again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from middleware.cli.command_options import AllowList, KeyFile, NodeName
from middleware.cli.meshes.pubsub import describe_receipt
from middleware.cli.output import ExitCode, JsonFile, console, write_json
from middleware.link.codec import BLOCK_TARGET, BlockHead, array_of, packed
from middleware.model.errors import LedgerError, last_line
from middleware.model.quantities import local_time, spoken_duration, spoken_time
from middleware.runtime.storage.late_ledger import LedgerEntry, Query, deleted_from, read_entry, read_ledger, summary

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    help="The late ledger: events that were not taken into account, with the reason.",
)

_BATCH = 1_024

Where = Annotated[Path, typer.Argument(metavar="LEDGER", help="A node's state folder, or the file late.sqlite in it.")]
DetectorName = Annotated[str | None, typer.Option(help="Only what this detector reported; '' for what no detector got.")]
_REASONS = ("late", "ahead", "clash", "derived", "source", "right", "failed", "unread")
_UNTIMED = ("clash", "derived", "source", "right", "failed", "unread")
"""Reasons that have nothing to do with time."""

Reason = Annotated[str | None, typer.Option(help=f"Only this reason: {', '.join(_REASONS)}.")]
TypeName = Annotated[str | None, typer.Option("--type", help="Only events of this type.")]
Source = Annotated[str | None, typer.Option(help="Only events of this source.")]


@app.command("list")
def list_(
    ledger: Where,
    detector: DetectorName = None,
    reason: Reason = None,
    type_: TypeName = None,
    source: Source = None,
    last: Annotated[int, typer.Option(min=0, help="How many of the last entries to show.")] = 20,
    json: JsonFile = None,
) -> None:
    """How many events came too late or too far ahead, clashed with another one of the same source and id, or made which
    detectors raise, and the last of them.

    Examples:

      [bold]slackline late list state/field[/]

      [bold]slackline late list state/field --detector Passes --last 100 --json late.json[/]
    """
    from rich.markup import escape
    from rich.table import Table

    query = _query(detector, reason, type_, source)
    counts, entries, gone = summary(ledger, query), read_ledger(ledger, query, last), deleted_from(ledger)
    screen = console(json)
    if not counts:
        everything = query == Query()
        screen.print(
            "nothing is reported" + (": everything was taken into account" if everything else " that fits these options")
        )
    table = Table("detector", "reason", "type", "events", "at most", title=escape(f"late ledger {ledger}"))
    for name, why, kind, count, worst in counts:
        table.add_row(
            escape(name) or "(all of the node)", why, kind, f"{count:,}", "" if why in _UNTIMED else spoken_duration(worst)
        )
    if counts:
        screen.print(table)
    if entries:
        columns = ("number", "listed", "detector", "reason", "change", "type", "source", "id", "by")
        rows = Table(*columns, title=f"the last {len(entries)}")
        for entry in entries:
            by = last_line(entry.details) if entry.reason in _UNTIMED else spoken_duration(entry.lateness)
            about = entry.reason, entry.change, entry.type, entry.source, str(entry.id), by
            rows.add_row(str(entry.number), spoken_time(entry.at), *map(escape, (entry.detector, *about)))
        screen.print(rows)
    if total := sum(gone.values()):
        most = [f"{count:,} of {escape(source)}" for source, count in gone.items() if source is not None][:3]
        of = f", {', '.join(most)}," if most else ""
        screen.print(
            f"{total:,} older entries{of} are not kept: a ledger has room for a million, and its node's memory for fewer"
        )
    if json:
        keys = ("detector", "reason", "type", "events", "worst_ns")
        write_json(
            {
                "counts": [dict(zip(keys, count, strict=True)) for count in counts],
                "entries": [_as_values(each) for each in entries],
                "gone": total,
                "gone_by_source": {source: count for source, count in gone.items() if source is not None},
            },
            json,
        )


@app.command()
def show(
    ledger: Where,
    number: Annotated[int, typer.Argument(min=1, help="Number of the entry, as 'late list' shows it.")],
    json: JsonFile = None,
) -> None:
    """One entry in full: the event, and clock, slack and bound of that moment.

    Example:

      [bold]slackline late show state/field 17[/]
    """
    entry = read_entry(ledger, number)
    screen = console(json)
    who = f"detector {entry.detector}" if entry.detector else "the node, where it came in"
    screen.print(f"entry {entry.number}, reported {spoken_time(entry.at)} by {who} of node {entry.node}", markup=False)
    screen.print(
        f"  {entry.change} of {entry.type} ({entry.source!r}, {entry.id}), ts {local_time(entry.ts)}",
        markup=False,
    )
    screen.print(f"  {entry.reason}: {_why(entry)}", markup=False)
    if entry.clk is not None and entry.k is not None:
        lateness = entry.clk - entry.bound
        clocks = (
            f"clk {local_time(entry.clk)}, K {spoken_duration(entry.k)}, final up to {local_time(entry.bound)} "
            f"({spoken_duration(lateness)} behind clk)"
        )
        screen.print(f"  {clocks}", markup=False)
    screen.print(f"  fields: {_fields(entry)}", markup=False)
    if json:
        write_json(_as_values(entry), json)


@app.command()
def replay(
    ledger: Where,
    address: Annotated[str, typer.Argument(help="The node that is to get them, such as tcp://127.0.0.1:5701.")],
    detector: DetectorName = None,
    reason: Reason = None,
    type_: TypeName = None,
    source: Source = None,
    keys: KeyFile = None,
    allow_list: AllowList = None,
    node: NodeName = None,
    json: JsonFile = None,
) -> None:
    """Publish what came late or ahead to a node, in order of time, each event once, under its own identity.

    To one that has not seen them they are new; a node that reported an event as late knows it, and drops it as a repeat: its
    finals stand. So replay late events into a second run. An event rejected as too far ahead was never taken: its own
    node takes it once its time has come. Ends with 1 if the node does not take all of them.

    Examples:

      [bold]slackline late replay state/field tcp://127.0.0.1:5801[/]

      [bold]slackline late replay state/field tcp://127.0.0.1:5701 --reason ahead[/]
    """
    from middleware.runtime.clients import Publisher
    from middleware.runtime.transport.keys import Keys

    own = Keys.given(keys, allow_list)
    entries = read_ledger(ledger, _query(detector, reason, type_, source))
    chosen, skipped = _replayable(
        [entry for entry in entries if entry.reason != "unread" and (reason is not None or entry.reason not in _UNTIMED)]
    )
    with Publisher(address, keys=own, node=node, shares=True) as publisher:
        for batch in _batches(chosen):
            publisher.publish_blocks(_blocks(batch))
        receipt = publisher.flush()
    screen = console(json)
    of = "" if receipt.is_whole else f"{receipt.taken + receipt.repeats:,} of "
    screen.print(
        f"published {of}{len(chosen):,} events to {address}; skipped {skipped:,} (derived, revised, or reported twice)"
    )
    for line in describe_receipt(receipt):
        screen.print(line, markup=False)
    if json:
        outcome = {"published": receipt.taken + receipt.repeats, "skipped": skipped, **msgspec.structs.asdict(receipt)}
        write_json(outcome, json)
    if not receipt.is_whole:
        raise typer.Exit(ExitCode.FAILED)


def _blocks(batch: list[LedgerEntry]) -> list[tuple[BlockHead, bytes]]:
    """Events in order, of several types, for one frame: were one type sent first, it would make the others late."""
    positions: dict[str, list[int]] = {}
    for position, entry in enumerate(batch):
        positions.setdefault(entry.type, []).append(position)
    blocks = []
    for name, own in positions.items():
        times = [batch[position].ts for position in own]
        head = BlockHead(name, len(own), raw=True, oldest=min(times), newest=max(times))
        head.arrival_order = packed(own) if len(positions) > 1 else None
        blocks.append((head, array_of([batch[position].record for position in own])))
    return blocks


def _batches(entries: list[LedgerEntry]) -> Iterator[list[LedgerEntry]]:
    """In order, cut where a batch has enough events or bytes; one that is larger alone goes alone."""
    batch: list[LedgerEntry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == _BATCH or size + len(entry.record) > BLOCK_TARGET):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.record)
    if batch:
        yield batch


def _replayable(entries: list[LedgerEntry]) -> tuple[list[LedgerEntry], int]:
    """Raw insertions, each identity once, in total order; and how many entries that skips."""
    once: dict[tuple[str, int], LedgerEntry] = {}
    for entry in entries:
        if entry.change == "insert" and msgspec.msgpack.decode(entry.record)[-1] == 0:
            once.setdefault((entry.source, entry.id), entry)
    chosen = sorted(once.values(), key=lambda entry: (entry.ts, entry.source, entry.id))
    return chosen, len(entries) - len(chosen)


def _query(detector: str | None, reason: str | None, type_: str | None, source: str | None) -> Query:
    if reason is not None and reason not in _REASONS:
        raise typer.BadParameter(f"must be one of {', '.join(_REASONS)}, not {reason!r}", param_hint="--reason")
    return Query(detector, reason, type_, source)


def _why(entry: LedgerEntry) -> str:
    if entry.reason == "failed":
        return f"the detector raised, and did without it\n{entry.details.rstrip()}"
    if entry.reason == "unread":
        return f"the message is no event: {entry.details}"
    if entry.reason == "clash" and entry.change != "insert":
        return f"the change is of another event than the one with this source and id, which stands\n  {entry.details}".rstrip()
    if entry.reason == "clash":
        return f"another event came first with this source and id, and stands\n  {entry.details}"
    if entry.reason in ("source", "right"):
        return entry.details
    if entry.reason == "derived":
        return f"only nodes send this type: {entry.details}"
    by = spoken_duration(entry.lateness)
    if entry.reason == "ahead":
        return f"{by} beyond {local_time(entry.bound)}, which was as far as it could be believed"
    if entry.detector:
        return f"{by} below {local_time(entry.bound)}, up to which its results were final"
    return f"{by} below {local_time(entry.bound)}, up to which the node had promised that nothing more comes"


def _fields(entry: LedgerEntry) -> str:
    try:
        return repr(msgspec.msgpack.decode(entry.record))
    except msgspec.DecodeError as error:
        raise LedgerError(f"entry {entry.number} is damaged: {error}") from None


def _as_values(entry: LedgerEntry) -> dict[str, object]:
    fields = msgspec.structs.asdict(entry)
    return fields | {"record": msgspec.msgpack.decode(entry.record), "lateness": entry.lateness}
