"""From the content of a window to results: grouping, aggregates and projection, compiled to one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detectors.cql.plan import Windowed
from detectors.language.aggregates import values_code
from detectors.language.code import Code, Made
from detectors.language.types import Type
from middleware.model.event import Event, Value
from middleware.model.operator import Origin

Bounds = tuple[int | None, int]
"""Lower and upper bound of a window, for queries that ask for them."""

Evaluate = Callable[[Sequence[Event], Bounds, int, tuple[Value, ...]], list[Event]]
"""Results of (content, bounds, time of the results, identity of the window)."""


def evaluation(plan: Windowed, origin: Origin) -> Evaluate:
    """The function that gives the results of a window. O(content)."""
    more: dict[str, object] = {"source_": origin.source, "level_": origin.level, "id_": origin.id}
    lines = ["def made(events, w, ts, window):"]
    if plan.after is not None:
        lines.append(f"    events = [e for e in events if {plan.after.holds}]")
    if not plan.aggregates:
        result = plan.constructor("ts", "id_(*window, e.source, e.id)")
        lines.append(f"    return [{result} for e in events]")
        return plan.frame.define("\n".join(lines) + "\n", more)
    lines.append("    if not events:\n        return []")
    if plan.group:
        lines += [
            "    groups = {}",
            f"    for e in events:\n        groups.setdefault({key_code(plan.group)}, []).append(e)",
            "    return [one(group, w, ts, (*window, *key)) for key, group in groups.items()]",
        ]
        more["one"] = _aggregation(plan, more)
        return plan.frame.define("\n".join(lines) + "\n", more)
    lines.append("    return [one(events, w, ts, window)]")
    more["one"] = _aggregation(plan, more)
    return plan.frame.define("\n".join(lines) + "\n", more)


def single_result(plan: Windowed, origin: Origin) -> Callable[..., Event]:
    """The function that makes a result of (first tuple, values of the aggregates, bounds, time, identity of the window)."""
    more: dict[str, object] = {"source_": origin.source, "level_": origin.level, "id_": origin.id}
    return plan.frame.define(f"def made(e, a, w, ts, window):\n    return {plan.constructor('ts', 'id_(*window)')}\n", more)


def _aggregation(plan: Windowed, more: dict[str, object]) -> Made:
    """The function that gives the one result of a group."""
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
    lines += [f"    a = ({', '.join(folded)},)", "    e = events[0]"]
    lines.append(f"    return {plan.constructor('ts', 'id_(*window)')}")
    return plan.frame.define("\n".join(lines) + "\n", more)


def key_code(codes: Sequence[Code]) -> str:
    """Code for a key of the event ``e`` as a tuple; NaN becomes NULL, since it equals nothing."""
    parts = []
    for code in codes:
        if code.type in (Type.DOUBLE, Type.FLOAT):
            parts.append(f"({code.value} if {code.value} == {code.value} else None)")
        else:
            parts.append(code.value)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
