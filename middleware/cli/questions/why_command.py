"""``slackline why``: what a result rests on, and what corrected it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from middleware.cli.output import STANDARD_OUTPUT, JsonFile, console, write_json
from middleware.model.errors import EventError, RunError, ScenarioError
from middleware.model.event import IDENTITY, ORDER, TS, Event, EventType, Identity, type_name
from middleware.model.quantities import UNIX_TIMES, from_local, local_day_time
from middleware.model.time import SECOND

if TYPE_CHECKING:
    from rich.console import Console

    from middleware.provenance.known_past import Past
    from middleware.provenance.why import Cause, Why
    from middleware.runtime.scenario import Scenario

_SHOWN = 5
_HAS_OFFSET = re.compile(r":.*(Z|[+-]\d\d(:?\d\d)?)$", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


def why(
    result: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT",
            help="Its type, then what it is known by: id=..., FIELD=VALUE, after TIME, before TIME, [bold]corrected[/] "
            "(revised or withdrawn). The first that fits is explained.",
        ),
    ],
    *,
    scenario: Annotated[str, typer.Option(help="Name or folder of the scenario that makes such results.")],
    log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="State folder of a node with a log; of several nodes, give each (default: the scenario's)."
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A trace instead of a log: it is run again, out of order as it came.")
    ] = None,
    state: Annotated[
        bool, typer.Option("--state", help="Show the detector's state before and after, too: it is run again up to there.")
    ] = False,
    json: JsonFile = None,
) -> None:
    """Why a result came: what it rests on, down to the raw events, and each correction with the late event that made it.

    Detectors are run again over what the log or the trace has; the nodes run on undisturbed. TIME is seconds of the recording,
    a time of day, or a date with one; local, unless it says otherwise (Z, +02:00).

    Ends with 1 if nothing fits.

    Examples:

      [bold]slackline why Pass player=10 after 7.5 --scenario soccer --trace out/soccer/trace-...[/]

      [bold]slackline why soccer.PlayerHitsBall corrected --scenario soccer --trace out/soccer/trace-...[/]

      [bold]slackline why Stop id=-812365 --scenario ./yard --log state/yard --state[/]
    """
    from middleware.provenance.why import explain
    from middleware.runtime.scenario import load_scenario

    if log and trace is not None:
        raise typer.BadParameter("give --log or --trace, not both")
    plan = load_scenario(scenario)
    asked = ResultFilter(_type(plan, result[0]), result[1:])
    screen, aside = console(json), console(STANDARD_OUTPUT)  # progress is no part of the answer
    past, late, notes = _from_trace(plan, asked, trace, aside) if trace is not None else _from_logs(plan, asked, log, aside)
    fitting = _fitting(past, asked, result[1:])
    answer = explain(fitting[0], past, late)
    answer.notes += notes
    for line in answer.lines(state):
        screen.print(line, markup=False, soft_wrap=True)
    if len(fitting) > 1:
        screen.print(f"{len(fitting) - 1:,} more fit, such as:")
        for event in fitting[1:_SHOWN]:
            screen.print(f"  {_as_line(event)}", markup=False, soft_wrap=True)
    if json:
        write_json(_as_values(answer, state), json)


def _fitting(past: Past, asked: ResultFilter, words: list[str]) -> list[Event]:
    """The results that are as asked for, in total order. Raises RunError if there are none."""
    fitting = sorted((event for event in past.results() if asked.fits(event, past)), key=ORDER)
    if not fitting:
        some = [_as_line(event) for event in sorted(past.results(), key=ORDER)[:_SHOWN]]
        name = type_name(asked.result_type)
        error = RunError(f"no {name} fits {' '.join(words) or 'that'}")
        for line in some or [f"no {name} was ever published there"]:
            error.add_note(line)
        raise error
    return fitting


class ResultFilter:
    """The conditions on a result."""

    def __init__(self, result_type: EventType, words: list[str]) -> None:
        self.result_type = result_type
        self.before: int | None = None
        self._after: int | None = None
        self._corrected = False
        self._fields: dict[str, str] = {}
        rest = iter(words)
        for word in rest:
            name, equals, value = word.partition("=")
            if equals and name in result_type.__struct_fields__:
                self._fields[name] = value
            elif word in ("after", "before"):
                at = moment_of(next(rest, ""))
                self._after, self.before = (at, self.before) if word == "after" else (self._after, at)
            elif word == "corrected":
                self._corrected = True
            else:
                fields = ", ".join(result_type.__struct_fields__)
                raise typer.BadParameter(
                    f"{word!r}: write FIELD=VALUE (fields: {fields}), after TIME, before TIME, or corrected"
                )

    def fits(self, event: Event, past: Past) -> bool:
        """Whether a result is like that."""
        if not all(_is(getattr(event, name), value) for name, value in self._fields.items()):
            return False
        ts = local_day_time(event.ts) if self._is_of_day(event.ts) else event.ts
        if (self._after is not None and ts < self._after) or (self.before is not None and ts > self.before):
            return False
        return not self._corrected or len(past.moments(IDENTITY(event))) > 1

    def needs(self, ts: int, latest: int) -> bool:
        """Whether an event of this time may count, where none comes more than ``latest`` late."""
        return self.before is None or self._is_of_day(ts) or ts <= self.before + latest

    def _is_of_day(self, ts: int) -> bool:
        """Whether times were given as times of day, and this is a date."""
        given = [at for at in (self._after, self.before) if at is not None]
        return bool(given) and ts in UNIX_TIMES and all(at not in UNIX_TIMES for at in given)


def _from_logs(
    plan: Scenario, asked: ResultFilter, folders: list[Path] | None, screen: Console
) -> tuple[Past, Mapping[str, Collection[Identity]], list[str]]:
    """The content of the logs on results of that type; which events were late; and what is not kept any more."""
    from middleware.cli.runs.live import step
    from middleware.model.code_identity import code_identity
    from middleware.provenance.known_past import Past
    from middleware.runtime.scenario import state_folder
    from middleware.runtime.storage.late_ledger import FILE, Query, read_ledger
    from middleware.runtime.storage.past import LoggedPast

    usual = [state_folder(plan) / name for name in plan.placement if plan.is_durable(name)]
    logs = [LoggedPast(folder) for folder in folders or [each for each in usual if each.is_dir()]]
    if not logs:
        raise ScenarioError(f"no node of {plan.plan.name} has a log at {', '.join(map(str, usual))}: give --log, or --trace")
    if stray := [each for each in logs if each.node not in plan.placement]:
        raise ScenarioError(f"{stray[0].file} is the log of node {stray[0].node!r}, which {plan.plan.name} does not have")
    here = {name: plan.detectors[name] for each in logs for name in plan.placement[each.node]}
    past = Past(asked.result_type, here)
    settings = plan.settings
    past.code = {name: code_identity(each, settings.get(name, {})) for name, each in past.detectors.items()}
    if not past.detectors:
        raise ScenarioError(
            f"none of the nodes {', '.join(each.node for each in logs)} makes {type_name(asked.result_type)}: give others' logs"
        )
    late: dict[str, set[Identity]] = {}
    notes = []
    for each in logs:
        with step(screen, f"the log of {each.node} is read"):
            past.take(each.steps(plan.types, {type_name(kind) for kind in past.kinds}))
        if (each.file.parent / FILE).exists():
            for entry in read_ledger(each.file.parent, Query(reason="late")):
                by_detector = late if entry.change == "insert" else past.refused
                by_detector.setdefault(entry.detector, set()).add((entry.source, entry.id))
        if each.damaged is not None:
            notes.append(f"the log of {each.node} is damaged: what came from record {each.damaged:,} on is not known")
        if each.first > 1:
            notes.append(f"the log of {each.node} begins with record {each.first:,}: what came before is not kept any more")
    away = sorted(type_name(kind) for kind in past.roots if type_name(kind) in plan.derived)
    if away:
        notes.append(f"{', '.join(away)} came from other nodes: give their logs, too, to resume from there")
    return past, late, notes


def _from_trace(
    plan: Scenario, asked: ResultFilter, trace: Path, screen: Console
) -> tuple[Past, Mapping[str, Collection[Identity]], list[str]]:
    """Answer from a trace: it is run, in its order of arrival, by those detectors that count."""
    from middleware.cli.runs.live import step
    from middleware.provenance.known_past import closure
    from middleware.recordings.traces import load_trace, read_trace
    from middleware.runtime.engine import recorded
    from middleware.runtime.local.intake import prepare_events

    detectors = closure(asked.result_type, plan.detectors)
    kinds = {kind for each in detectors.values() for kind in each.subscribes}
    latest = max(each.max_lateness for each in load_trace(trace).types.values())
    with step(screen, f"{', '.join(detectors)} run again over {trace}"):
        chunks = takewhile(lambda chunk: asked.needs(min(chunk, key=TS).ts, latest), read_trace(trace, plan.types))
        counted = (event for chunk in chunks for event in chunk if event.__class__ in kinds)
        events = prepare_events(event for event in counted if asked.needs(event.ts, latest))
        past, run = recorded(asked.result_type, events, detectors, policies=plan.policies(0.0))
    note = "the trace was run again to find this: a live run may have corrected other results, but its finals are the same"
    return past, run.late_identities(), [note]


def _type(plan: Scenario, name: str) -> EventType:
    """The derived type of that name, with or without its namespace."""
    fitting = [each for each in plan.derived if name in (each, each.rpartition(".")[2])]
    if len(fitting) != 1:
        near = ", ".join(fitting) or ", ".join(plan.derived[:12]) + (", ..." if len(plan.derived) > 12 else "")
        raise EventError(f"{name!r} {'could be' if fitting else 'is no result; there are'} {near}")
    return plan.types[fitting[0]]


def moment_of(text: str) -> int:
    """A moment, ns: seconds, a time of day, or a date, which is local unless it has an offset from UTC."""
    from middleware.connect.messages.reading import moment

    if clock := _CLOCK.fullmatch(text):
        return round((int(clock[1]) * 3600 + int(clock[2]) * 60 + Decimal(clock[3] or 0)) * SECOND)
    with suppress(ArithmeticError, ValueError):  # infinite, or not a number
        return round(Decimal(text.removesuffix("s")) * SECOND)
    try:
        return moment(text) if _HAS_OFFSET.search(text) else from_local(moment(text))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time: write 7.5 (seconds), 12:03:10, or 2026-05-01T12:03:10") from None


def _is(value: Any, text: str) -> bool:
    """Whether a field is as it was written: a number in any form, an enum by name or value, or as it is shown."""
    if isinstance(value, float):
        with suppress(ValueError):
            return float(text) == value or text == f"{value:g}"
    if isinstance(value, Enum):
        return text in (value.name, str(value.value), str(value))
    return text == str(value)


def _as_line(event: Event) -> str:
    from middleware.provenance.known_past import about

    return f"{about(event)} (id={event.id})"


def _as_values(answer: Why, state: bool) -> dict[str, Any]:
    from middleware.runtime.json_records import as_record

    def cause(one: Cause) -> dict[str, Any]:
        return {
            "event": as_record(one.event),
            "detector": one.detector,
            "exact": one.exact,
            "of": [cause(each) for each in one.of],
            "more": one.more,
        }

    def moment(one: Any) -> dict[str, Any]:
        kind = type(one.change).__name__.lower()
        late = [as_record(each.event) | {"behind_ns": each.behind} for each in one.by]
        return {
            "change": kind,
            "event": as_record(one.change.event),
            "node": one.step.node,
            "step": one.step.number,
            "by": late,
        }

    values = {
        "event": as_record(answer.event),
        "stands": answer.stands,
        "made_by": answer.made_by,
        "instead": as_record(answer.instead) if answer.instead is not None else None,
        "history": [moment(each) for each in answer.history],
        "cause": cause(answer.cause) if answer.cause is not None else None,
        "raw": [as_record(each) for each in answer.raw],
        "notes": answer.notes,
    }
    return values | ({"before": answer.before, "after": answer.after} if state else {})
