"""Queries as queries over simpler ones: what SQL says in one statement, and the windows here do in two steps.

The results of one window, or of one moment of a join, have one time stamp. So a query over windows of 1 ns has them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from detectors.cql.grammar import statements as s
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.tree import Call, Literal, Name, SyntaxNode, rewritten
from detectors.language.value_types import Type

MOMENT = s.WindowClause(s.SizeClause(s.Spec(s.Axis.SYSTEM, 1)))
"""A window that holds the tuples of one time stamp."""


def name_of(node: SyntaxNode, place: int) -> str:
    """The name of a column without an alias."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Call):
        inner = [each.name for each in node.arguments if isinstance(each, Name)]
        return "_".join([node.name, *inner])
    return f"column{place + 1}"


def free_name(name: str, used: set[str]) -> str:
    """A name that is not used yet, without dots."""
    name = name.replace(".", "_")
    number, free = 1, name
    while free.lower() in used:
        number += 1
        free = f"{name}_{number}"
    return free


def sort_keys(select: s.Select) -> tuple[s.Ordering, ...]:
    """ORDER BY with the expressions behind aliases and numbers of columns."""
    aliases = {target.alias.lower(): target.expression for target in select.targets if target.alias and target.expression}

    def meant(key: SyntaxNode) -> SyntaxNode:
        if isinstance(key, Literal) and key.type is Type.INT:
            return _numbered(select, int(key.value or 0), key.span)
        return (aliases.get(key.name.lower()) if isinstance(key, Name) and key.qualifier is None else None) or key

    return tuple(replace(each, key=meant(each.key)) for each in select.order_by)


def _numbered(select: s.Select, number: int, span: TextSpan) -> SyntaxNode:
    """The expression of a column by its number. Raises QueryError if there is none, or a ``*`` stands before it."""
    before = [target.expression for target in select.targets[: max(number, 0)]]
    if None in before:
        raise QueryError(f"ORDER BY {number} counts columns that * stands for: name the attribute", span)
    found = before[-1] if number == len(before) > 0 else None
    if found is None:
        raise QueryError(f"ORDER BY {number}: columns are counted from 1 to {len(select.targets)}", span)
    return found


def without_ranking(select: s.Select) -> s.Select:
    """The query whose results are to be ranked: with a column more for each key of ORDER BY that is no column."""
    more = [key for key, place in _places_of_keys(select) if place is None]
    keys = [s.SelectItem(key.key, f"sort_key_{number}", span=key.span) for number, key in enumerate(more, 1)]
    return replace(select, targets=(*select.targets, *keys), is_distinct=False, order_by=(), limit=None, into=None)


def ranking_of(select: s.Select, inner: str, names: Sequence[str]) -> s.Select:
    """The query that ranks the results of ``without_ranking``, which are the stream ``inner`` with these attributes."""
    placed = _places_of_keys(select)
    count = len(names) - sum(place is None for _, place in placed)
    targets = tuple(s.SelectItem(Name(name, span=select.span), span=select.span) for name in names[:count])
    more = iter(names[count:])
    keys = [(key, next(more) if place is None else names[place]) for key, place in placed]
    order = tuple(replace(each, key=Name(name, span=each.span)) for each, name in keys)
    return s.Select(
        targets,
        s.Reference(s.Ident(inner, span=select.source.span), None, MOMENT, span=select.source.span),
        into=select.into,
        is_distinct=select.is_distinct,
        order_by=order,
        limit=select.limit,
        span=select.span,
    )


def _places_of_keys(select: s.Select) -> list[tuple[s.Ordering, int | None]]:
    """The keys of ORDER BY, each with the place of the column that it is, if it is one."""
    shown = [target.expression for target in select.targets]
    return [(key, shown.index(key.key) if None not in shown and key.key in shown else None) for key in sort_keys(select)]


def over(
    select: s.Select, inner: str, window: s.WindowClause | None, change: Callable[[SyntaxNode], SyntaxNode | None]
) -> s.Select:
    """The query over the stream ``inner`` instead, with changed expressions; names of its columns stay as they are."""

    def changed(node: SyntaxNode | None) -> SyntaxNode | None:
        return None if node is None else rewritten(node, change)

    targets = []
    for place, target in enumerate(select.targets):
        alias = target.alias or (name_of(target.expression, place) if target.expression is not None else None)
        targets.append(replace(target, expression=changed(target.expression), alias=alias))
    order = sort_keys(select)
    return replace(
        select,
        targets=tuple(targets),
        source=s.Reference(s.Ident(inner, span=select.source.span), None, window, span=select.source.span),
        join=None,
        where=None,
        group_by=tuple(rewritten(each, change) for each in select.group_by),
        having=changed(select.having),
        order_by=tuple(replace(each, key=rewritten(each.key, change)) for each in order),
    )


_PARTS = {"start": "window_start", "end": "window_end"}


def group_window(select: s.Select) -> s.Select:
    """``GROUP BY TUMBLE(ts, INTERVAL ...), key`` as a query over that window; others as they are."""
    calls = [each for each in select.group_by if isinstance(each, Call) and each.name in ("tumble", "hop", "session")]
    if not calls or select.source.window is not None or select.join is not None:
        return select
    call, name = calls[0], calls[0].name
    time, *lengths = call.arguments or (call,)
    if not isinstance(time, Name) or not all(isinstance(each, Literal) for each in lengths):
        raise QueryError(f"write {name.upper()}(ts, INTERVAL '10' MINUTES): the time attribute, and lengths of time", call.span)
    kind = window_function(name.upper(), [length(each) for each in lengths], call.span)
    keys = tuple(each for each in select.group_by if each is not call)
    partition = tuple(each for each in keys if isinstance(each, Name)) if name == "session" else ()
    window = s.WindowClause(kind, partition, time=time, span=call.span)

    def bound(node: SyntaxNode) -> SyntaxNode | None:
        if isinstance(node, Call) and node.name.startswith(f"{name}_") and node.name[len(name) + 1 :] in _PARTS:
            if node.arguments not in ((), call.arguments):
                raise QueryError(f"{node.name.upper()} is of another window than {name.upper()} in GROUP BY", node.span)
            return Call(_PARTS[node.name[len(name) + 1 :]], span=node.span)
        return None

    targets = tuple(
        replace(each, expression=each.expression and rewritten(each.expression, bound), alias=each.alias or _alias(each, place))
        for place, each in enumerate(select.targets)
    )
    having = select.having and rewritten(select.having, bound)
    group = keys if keys else (Name("window_end", span=call.span),)
    return replace(select, targets=targets, source=replace(select.source, window=window), group_by=group, having=having)


def _alias(target: s.SelectItem, place: int) -> str | None:
    return None if target.expression is None else name_of(target.expression, place)


def window_function(name: str, lengths: list[s.Spec], span: TextSpan) -> s.Kind:
    """The window that a window function of SQL stands for: [start, end), from the beginning of 1970 on."""
    match name, lengths:
        case "TUMBLE", [size]:
            return s.SizeClause(size, is_half_open=True, span=span)
        case "HOP", [slide, size]:
            return s.SizeClause(size, slide, is_half_open=True, span=span)
        case "SESSION", [gap]:
            return s.SessionClause(gap, span=span)
        case "TUMBLE" | "HOP" | "SESSION", _:
            takes = {"TUMBLE": "one length, the size", "HOP": "two lengths, the slide and the size", "SESSION": "one, the gap"}
            raise QueryError(f"{name} takes {takes[name]}; offsets are not supported", span)
    hint = "; [LANDMARK EVERY 1 hours] grows for ever" if name == "CUMULATE" else nearest(name, ["TUMBLE", "HOP", "SESSION"])
    raise QueryError(f"{name} is no window function here: there are TUMBLE, HOP and SESSION{hint}", span)


def length(part: SyntaxNode | s.Spec) -> s.Spec:
    """A length of time, as an interval or as a number and a unit."""
    if isinstance(part, Literal) and part.type is Type.LONG:
        part = s.Spec(s.Axis.SYSTEM, int(part.value or 0), span=part.span)
    if not isinstance(part, s.Spec) or part.axis is not s.Axis.SYSTEM or not part.amount:
        raise QueryError("window functions take lengths of time: INTERVAL '10' MINUTES", part.span)
    return part
