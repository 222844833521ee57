"""From the content of a window to results: grouping, aggregates, projection and ranking, compiled to one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import astuple

from detectors.cql.planning.query_plan import Ranking, WindowQueryPlan
from detectors.language.aggregate_functions import values_code
from detectors.language.code import Code, Made
from detectors.language.value_types import REALS, Type
from middleware.model.event import Event, Value
from middleware.model.operator import Origin

Bounds = tuple[int | None, int]
"""Lower and upper bound of a window, for queries that ask for them."""

Evaluate = Callable[[Sequence[Event], Bounds | Event, int, tuple[Value, ...]], list[Event]]
"""Results of (content, bounds or for OVER the tuple they are about, time of the results, identity of the window)."""


def evaluation(plan: WindowQueryPlan, origin: Origin) -> Evaluate:
    """The function that gives the results of a window. O(content), and O(n log n) for n results that are sorted."""
    more: dict[str, object] = {"source_": origin.source, "level_": origin.level, "id_": origin.id}
    lines = ["def made(events, w, ts, window):"]
    if plan.after is not None:
        lines.append(f"    events = [e for e in events if {plan.after.holds}]")
    if not plan.is_aggregated:
        result = plan.constructor("ts", "id_(*window, e.source, e.id)")
        lines.append(f"    return [{_with_keys(plan, result)} for e in events]")
    else:
        more["one"] = _aggregation(plan, more)
        lines.append("    if not events:\n        return []")
        if plan.group:
            lines += [
                "    groups = {}",
                f"    for e in events:\n        groups.setdefault({key_code(plan.group)}, []).append(e)",
                "    return [r for key, group in groups.items() for r in one(group, w, ts, (*window, *key))]",
            ]
        else:
            lines.append("    return one(events, w, ts, window)")
    evaluate: Evaluate = plan.frame.define("\n".join(lines) + "\n", more)
    ranking = plan.ranking
    if ranking is None:
        return evaluate
    return lambda events, w, ts, window: ranked(ranking, evaluate(events, w, ts, window))  # type: ignore[arg-type]


def _with_keys(plan: WindowQueryPlan, result: str) -> str:
    """Code of a result, with the values that it is ranked by if it is."""
    if plan.ranking is None:
        return result
    keys = ", ".join(key.code.value for key in plan.ranking.keys)
    return f"(({keys}{',' if keys else ''}), {result})"


def _tested(plan: WindowQueryPlan, result: str) -> str:
    """Code of the list of the one result of a group, which is empty if HAVING leaves it out."""
    test = f" if {plan.having.holds} else []" if plan.having is not None else ""
    return f"[{result}]{test}"


def single_result(plan: WindowQueryPlan, origin: Origin) -> Callable[..., list[Event]]:
    """The function of (first tuple, values of the aggregates, bounds, time, identity of the window) that gives its results."""
    more: dict[str, object] = {"source_": origin.source, "level_": origin.level, "id_": origin.id}
    result = _tested(plan, plan.constructor("ts", "id_(*window)"))
    return plan.frame.define(f"def made(e, a, w, ts, window):\n    return {result}\n", more)


def _aggregation(plan: WindowQueryPlan, more: dict[str, object]) -> Made:
    """The function that gives the results of a group: one, or none."""
    lines = ["def made(events, w, ts, window):"]
    folded = []
    for place, (aggregate, arguments) in enumerate(plan.aggregates):
        fold = plan.frame.constant(aggregate.fold)
        if not arguments:
            folded.append(f"{fold}(events)")
            continue
        lines.append(f"    v{place} = {values_code(plan.frame, arguments, 'e', 'events')}")
        empty = "" if aggregate.kind.nullable is False else f" if v{place} else None"
        folded.append(f"{fold}(v{place}){empty}")
    lines += [
        f"    a = ({', '.join(folded)}{',' if folded else ''})",
        "    e = w" if plan.window.is_over else "    e = events[0]",
    ]
    lines.append(f"    return {_tested(plan, _with_keys(plan, plan.constructor('ts', 'id_(*window)')))}")
    return plan.frame.define("\n".join(lines) + "\n", more)


def ranked(ranking: Ranking, results: list[tuple[tuple[Value, ...], Event]]) -> list[Event]:
    """The results that a ranking leaves, of (values of its keys, result), which come in total order."""
    if ranking.is_distinct:
        unique: dict[tuple[Value, ...], tuple[tuple[Value, ...], Event]] = {}
        for keys, event in results:
            unique.setdefault(tuple(map(_shown, astuple(event)[:-4])), (keys, event))
        results = list(unique.values())
    for place, key in reversed(list(enumerate(ranking.keys))):
        null = 0 if key.nulls_first is not key.is_descending else 3
        results = sorted(results, key=_by(place, null), reverse=key.is_descending)
    end = None if ranking.count is None else ranking.offset + ranking.count
    return [event for _, event in results[ranking.offset : end]]


def _shown(value: Value) -> Value:
    """A value by which results are told apart: NULL and NaN are one, zeros have no sign."""
    return None if value != value else value  # noqa: PLR0124 (NaN)


def _by(place: int, null: int) -> Callable[[tuple[tuple[Value, ...], Event]], tuple[int, Value]]:
    """The function that gives the value at a place of a result's keys as a key to sort by."""
    return lambda result: _rank(result[0][place], null)


def _rank(value: Value, null: int) -> tuple[int, Value]:
    """A value as a key to sort by; ``null`` is the rank of NULL."""
    if value is None:
        return null, 0
    return (2, 0) if value != value else (1, value)  # noqa: PLR0124 (NaN)


def key_code(codes: Sequence[Code]) -> str:
    """Code for a key of the event ``e`` as a tuple; NaN becomes NULL, since it equals nothing."""
    parts = []
    for code in codes:
        if code.type in (Type.DOUBLE, Type.FLOAT):
            parts.append(f"({code.value} if {code.value} == {code.value} else None)")
        else:
            parts.append(code.value)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def parting(before: Code | None, partition: Sequence[Code]) -> str:
    """Code that sorts the events that pass a test into the lists of their partitions."""
    test = f"        if not ({before.holds}):\n            continue\n" if before is not None else ""
    return (
        "def made(events, parts, which):\n"
        "    for e in events:\n"
        f"{test}"
        f"        key = {key_code(partition)}\n"
        "        part = parts.get(key)\n"
        "        if part is None:\n"
        "            part = parts[key] = ([], [])\n"
        "        part[which].append(e)\n"
    )


class _Nothing:
    """What code reads where a tuple has no partner: NULL for every attribute."""

    def __getattr__(self, name: str) -> None:
        return None


NOTHING = _Nothing()


def joining_keys(codes: Sequence[Code], variable: str) -> str:
    """Code for the keys of a list of tuples; None for those that equal nothing, since a part is NULL or NaN."""
    tests = [f"({code.value}) is None" for code in codes if code.nullable]
    tests += [f"({code.value}) != ({code.value})" for code in codes if code.type in REALS]
    key = key_code(codes) if codes else "()"
    test = f"None if {' or '.join(tests)} else " if tests else ""
    return f"def made(events):\n    return [{test}{key} for {variable} in events]\n"
