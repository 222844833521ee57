"""The display of a run in a notebook: a page with a chart, a table of results, a drawing. Pure; libraries come on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from middleware.installation import needed
from middleware.model.block.block import Block
from middleware.model.errors import EventError, SlacklineError
from middleware.model.event import ORDER, Event, EventType, field_names, type_name
from middleware.model.quantities import spoken_time
from middleware.model.schema import arrow_schema, time_type
from middleware.model.time import SECOND
from middleware.runtime.json_records import flat
from middleware.runtime.local.binning import Bins, binned

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes

_MOST = 24
"""The most detectors on a page or a drawing: those with the most results."""

_WIDTH, _HEIGHT = 360, 18

_STAMP = ("ts", "id", "source", "level")

_STYLE = "text-align:left;padding:1px 10px 1px 0;font-variant-numeric:tabular-nums"


def page(headline: str, finals: Mapping[str, Sequence[Event]], skipped: Mapping[str, int]) -> str:
    """HTML: by detector, how many final results, when, and how they spread over time. ``skipped``: events not used.

    It takes the colours of the page around it. O(results).
    """
    chosen, span = _chosen(finals), _span(finals)
    rows = []
    for name in chosen:
        events = finals[name]
        first, last = (spoken_time(events[at].ts) if events else "" for at in (0, -1))
        cells = [
            escape(name),
            f"{len(events):,}",
            f"{skipped.get(name, 0):,}",
            first,
            last,
            _strip(binned(_times(events), span), span),
        ]
        rows.append("<tr>" + "".join(f'<td style="{_STYLE}">{cell}</td>' for cell in cells) + "</tr>")
    heads = ["detector", "final", "skipped", "first at", "last at", "results over time"]
    head = "<tr>" + "".join(f'<th scope="col" style="{_STYLE}">{each}</th>' for each in heads) + "</tr>"
    rest = f"<p>and {len(finals) - len(chosen)} detectors with fewer results</p>" if len(chosen) < len(finals) else ""
    return f"<div><p>{escape(headline)}</p><table>{head}{''.join(rows)}</table>{rest}</div>"


def table(
    finals: Mapping[str, Sequence[Event]],
    of: str | type[Event],
    published: Mapping[str, Sequence[EventType]] | None = None,
    is_wall_clock: bool = False,
) -> pyarrow.Table:
    """Final results in total order, as a pyarrow.Table: their fields, then ts, id and source. O(results).

    ``of``: an event type, its name, the last part of its name, or the name of a detector. Raises EventError if it is none of
    them, SlacklineError without pyarrow. ``published``: by detector, the types that it may give: of those of which there are no
    results, the table is empty. ``is_wall_clock``: whether times are Unix time, and so ts a timestamp.
    """
    pyarrow = needed("pyarrow", "tables")
    events, kind = results_of(finals, of, published or {})
    if isinstance(events, Block):
        columns = pyarrow.Table.from_batches([events.batch]).select([*field_names(events.event_type), *_STAMP[:3]])
        return _with_times(columns, is_wall_clock)
    fields = [name for name in kind.__struct_fields__ if name not in _STAMP] + ["ts", "id", "source"]
    whole = {"ts": time_type(is_wall_clock), "id": pyarrow.int64(), "source": pyarrow.string()}
    if not events:
        with suppress(EventError):  # a field for which Arrow has no type
            return _with_times(arrow_schema(kind).empty_table(), is_wall_clock)
    return pyarrow.table({name: as_column([getattr(e, name) for e in events], whole.get(name)) for name in fields})


def _with_times(columns: pyarrow.Table, is_wall_clock: bool) -> pyarrow.Table:
    """The table with its column ts as ``time_type`` has it: the same bits."""
    times = columns["ts"].cast(time_type(is_wall_clock))
    return columns.set_column(columns.column_names.index("ts"), "ts", times)


def frame(columns: pyarrow.Table, library: str) -> Any:
    """A table as a frame of pandas or polars. Raises SlacklineError if the library is neither, or is not installed."""
    if library == "pandas":
        needed("pandas", None)
        return columns.to_pandas()
    if library == "polars":
        return needed("polars", None).from_arrow(columns)
    raise SlacklineError(f'frame: library is "pandas" or "polars", not {library!r}; result.table(...) is a table of Arrow')


def drawing(finals: Mapping[str, Sequence[Event]]) -> Axes:
    """Draw the results of each detector over time, as a map of counts, with matplotlib; returns the axes. O(results)."""
    pyplot = needed("matplotlib.pyplot", "evaluate")
    chosen, (first, last) = _chosen(finals), _span(finals)
    _, axes = pyplot.subplots(figsize=(9, 1 + 0.3 * max(len(chosen), 1)), layout="constrained")
    for at, name in enumerate(chosen):  # each row has bins of its own
        start, width, counts = binned(_times(finals[name]), (first, last))
        ends = start / SECOND, (start + width * len(counts)) / SECOND
        shares = [[count / (max(counts) or 1) for count in counts]]
        look = {"aspect": "auto", "cmap": "Blues", "interpolation": "nearest", "vmin": 0, "vmax": 1}
        axes.imshow(shares, extent=(*ends, at + 1, at), **look)
    axes.set(xlim=(0, max(last - first, 1) / SECOND), ylim=(max(len(chosen), 1), 0))
    names = [f"{name} ({len(finals[name]):,})" for name in chosen]
    axes.set_yticks([at + 0.5 for at in range(len(names))], names)
    axes.set_xlabel(f"seconds after {spoken_time(first)}")
    axes.set_title("final results over time, each row by its own most")
    drawn: Axes = axes
    return drawn


def results_of(
    finals: Mapping[str, Sequence[Event]],
    of: str | type[Event],
    published: Mapping[str, Sequence[EventType]] = MappingProxyType({}),
) -> tuple[Sequence[Event], EventType]:
    """The results of the one type that is meant, and the type; as columns, if they are, and come from one detector."""
    name = type_name(of) if isinstance(of, type) else of
    kinds = {type_name(kind): kind for some in published.values() for kind in some}
    kinds |= {type_name(kind): kind for events in finals.values() for kind in _types(events)}
    if name not in kinds and name in finals:
        if len(of_detector := _types(finals[name]) or set(published.get(name, [Event]))) > 1:
            raise EventError(f"{name} gives several types: name one of {', '.join(sorted(map(type_name, of_detector)))}")
        return finals[name], of_detector.pop()
    meant = [each for each in kinds if name in (each, each.rpartition(".")[2])]
    if len(meant) != 1 and not isinstance(of, type):
        known = ", ".join(sorted(meant or kinds)) or "none at all"
        raise EventError(f"{name!r} names {'several types' if meant else 'no type of the results'}; there are {known}")
    chosen: Any = kinds[meant[0]] if meant else of
    having = [events for events in finals.values() if chosen in _types(events)]
    if len(having) == 1 and isinstance(having[0], Block):
        return having[0], chosen
    return sorted((event for events in having for event in events if type(event) is chosen), key=ORDER), chosen


def _types(events: Sequence[Event]) -> set[type[Event]]:
    return {events.event_type} if isinstance(events, Block) and len(events) else set(map(type, events))


def as_column(values: list[Any], kind: pyarrow.DataType | None = None) -> pyarrow.Array:
    """A column; values that Arrow has no one type for become text (``records.flat``). None stays null."""
    import pyarrow

    try:
        return pyarrow.array(values, kind)
    except (pyarrow.ArrowException, ValueError, OverflowError):
        texts = (None if value is None else str(flat(value)).encode("utf-8", "backslashreplace").decode() for value in values)
        return pyarrow.array(list(texts), pyarrow.string())


def _chosen(finals: Mapping[str, Sequence[Event]]) -> list[str]:
    """The detectors with the most results, in their order."""
    most = set(sorted(finals, key=lambda name: -len(finals[name]))[:_MOST])
    return [name for name in finals if name in most]


def _span(finals: Mapping[str, Sequence[Event]]) -> tuple[int, int]:
    times = [events[at].ts for events in finals.values() if events for at in (0, -1)]
    return min(times, default=0), max(times, default=0)


def _times(events: Sequence[Event]) -> list[int]:
    times: list[int] = events.times.tolist() if isinstance(events, Block) else [event.ts for event in events]
    return times


def _strip(bins: Bins, span: tuple[int, int]) -> str:
    """A strip of bars as SVG: the bins, as far as they lie in the span."""
    counts, scale = bins.counts, _WIDTH / (span[1] - span[0] + 1)
    most = max(counts) or 1
    edges = [min(max((bins.start + at * bins.width) * scale, 0), _WIDTH) for at in range(len(counts) + 1)]
    bars = [
        f'<rect x="{left:g}" y="{_HEIGHT - tall:.1f}" width="{right - left:g}" height="{tall:.1f}"/>'
        for count, (left, right) in zip(counts, pairwise(edges), strict=True)
        if count and (tall := max(_HEIGHT * count / most, 1.0))
    ]
    label = f"at most {most:,} in one of {len(counts)} parts of the time" if any(counts) else "none"
    shape = f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{label}" fill="currentColor"'
    return f"<svg {shape}>{''.join(bars)}</svg>"
