"""``run`` as people import it: detectors over events, over tables of pandas, polars and pyarrow, or over files."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from middleware.installation import needed
from middleware.model.change import Batch
from middleware.model.detector import Detector
from middleware.model.errors import LateEventWarning, TraceError
from middleware.model.event import Event, EventType, EventTypes, type_name
from middleware.model.identity import named, published_types
from middleware.model.operator import Operator
from middleware.model.words import listed
from middleware.ordering.alpha.costs import Timer
from middleware.ordering.policies import Policies
from middleware.ordering.records import LateSummary
from middleware.recordings.files.recording import Recording
from middleware.recordings.schemas.types import declared_fields
from middleware.runtime import engine
from middleware.runtime.engine import Run
from middleware.runtime.local.arrivals import ArrivedColumns

if TYPE_CHECKING:
    import pyarrow

    from middleware.recordings.files.mapping import Mapping
    from middleware.recordings.files.tally import BadLines, StagingResult

_SAMPLE = 1_000
"""Rows that are read to find the unit of times."""

_SHOWN = 3
"""How many broken rows an error names."""

Mapped = str | Path | AnyMapping[str, Any]
"""A mapping: its TOML file, or what it says, as a dict."""


def run(
    events: Any,
    detectors: Iterable[Detector] | AnyMapping[str, Detector],
    *,
    mapping: Mapped | None = None,
    policies: Policies | AnyMapping[str, Policies] | None = None,
    batch: int = 256,
    watch: Callable[[Batch], None] | None = None,
    timer: Timer | None = None,
    failing: Literal["raise", "skip"] = "raise",
    broken: Literal["raise", "skip"] = "raise",
) -> Run:
    """Run detectors over events in their order of arrival, to the end of the stream.

    ``events``
        events, in any iterable; or a table of pandas, polars or pyarrow; or the path of a CSV, JSON lines, Parquet or Arrow
        file, of a folder of them or a pattern (``data/*.csv``), or several; or a dict of tables or paths by event type; or a
        recording, as a reader of a known format opens it.
    ``mapping``
        which columns of the table or file become which field (docs/guide/recordings.md): a TOML file, or a dict that says the
        same. Without one, fields come from the columns of their names, the time from ``ts``, ``timestamp``, ``time`` or the
        like, and rows are numbered. Types that no detector reads are left alone.
    ``broken``
        for rows that do not fit: ``"raise"`` raises TraceError; ``"skip"`` skips them, with a warning and the number of them in
        ``Run.broken``. Cells that cannot be read, of fields that may be missing, are None, with a warning (``Run.lost_cells``).

    Rows of a table arrive in the order of their times, or of its measured arrivals. Events of a source that gives no ids are
    numbered in order of arrival. If a detector fails at an event for good (errors raised only while late events were missing do
    not count), DetectorFailedError is raised; with ``failing="skip"`` the detector is run without that event, which is listed
    in ``failures``.

    Events that come later than the allowed lateness (``policies``; a second, or twice K) are in no result. They are listed in
    ``late``, and one LateEventWarning says how many there are and which lateness takes them all. In a test,
    ``result.check_nothing_late()`` raises LateEventError instead.

    ``batch`` events are taken to arrive at once. ``watch`` is called with every batch of changes that detectors publish.
    Events that arrive in order, as those of tables mostly do, are run in large steps, in half the time or less, unless
    ``watch`` or ``timer`` asks for small ones.
    Policies default to full speculation (alpha = 0), since nothing else waits for the processor here. With ``timer`` (ns,
    such as ``time.perf_counter_ns``), auto retraction and snapshot spacing follow measured cost; without one they follow
    counts, and the same input always gives the same changes, on any machine.

    >>> from slackline import Detector, Event
    >>> class Tick(Event):
    ...     price: float
    >>> class Rise(Event):
    ...     by: float
    >>> class Rises(Detector):
    ...     subscribes, publishes = (Tick,), (Rise,)
    ...     def __init__(self):
    ...         self.last = None
    ...     def on_event(self, tick):
    ...         last, self.last = self.last, tick.price
    ...         return Rise(tick.price - last, ts=tick.ts) if last is not None and tick.price > last else None
    >>> late = [Tick(1.0, ts=1, id=1, source="x"), Tick(3.0, ts=3, id=3, source="x"), Tick(2.0, ts=2, id=2, source="x")]
    >>> [rise.by for rise in run(late, [Rises()], batch=1).finals["Rises"]]
    [1.0, 1.0]
    """
    by_name = named(detectors)
    found, read = events_in(events, by_name, mapping, broken)
    if isinstance(found, ArrivedColumns):
        reads = [detector.subscribes for detector in by_name.values() if not isinstance(detector, Operator)]
        readers = Counter(kind for kinds in reads for kind in kinds)
        found.make({kind for kinds in reads for kind in kinds if len(kinds) > 1 or readers[kind] > 1})
    result = engine.run(found, by_name, policies=policies, batch=batch, watch=watch, timer=timer, failing=failing)
    if late := LateSummary.of(result.late):
        warnings.warn(engine.late_message(late), LateEventWarning, stacklevel=2)
    if read is not None:
        result.broken, result.lost_cells = read.bad.count, read.lost.count
    return result


def events_in(
    source: Any,
    detectors: AnyMapping[str, Detector],
    mapping: Mapped | None = None,
    broken: Literal["raise", "skip"] = "raise",
) -> tuple[Iterable[Event] | ArrivedColumns, StagingResult | None]:
    """The events of a table, of files, or of a dict of them by type, in order of arrival, as columns if they have ids of their
    own; events as they are. And what was read of a table or of files.

    Raises TraceError if they cannot be read, or are not what the detectors read.
    """
    from middleware.recordings.tables.table_frames import is_frame

    paths, by_type, is_recording = _paths(source), _is_by_type(source), isinstance(source, Recording)
    if mapping is not None and is_recording:
        raise TraceError("a mapping is for tables and files; this is a recording, which is read already as its reader says")
    if not (paths or by_type or is_recording or is_frame(source)):
        if mapping is not None:
            raise TraceError("a mapping is for tables and files; these are events already")
        events: Iterable[Event] = source
        return events, None
    needed("pyarrow", "tables")
    if all(map(_is_empty, source.values())) if by_type else _is_empty(source):
        return [], None  # whatever its columns are: those of an empty table often have no types
    types = _read_types(detectors)
    if by_type:
        types = EventTypes(dict.fromkeys([*(each for _, each in types.items()), *source]))
    from middleware.recordings.files.recording_reading import read_columns
    from middleware.recordings.files.tally import lost_note

    recording = _recording(source, paths, types, mapping)
    for warning in recording.warnings:
        warnings.warn(warning, stacklevel=3)
    found, read = read_columns(recording, types)
    if read.bad.count:
        what = _lines(read.bad, f"{read.bad.count:,} of {read.bad.count + sum(read.rows.values()):,} rows do not fit")
        if broken == "raise":
            raise TraceError(f'{what}: mend them, or skip them (broken="skip")')
        warnings.warn(f"{what}: skipped", stacklevel=3)
    if read.lost.count:
        warnings.warn(_lines(read.lost, lost_note(read.lost)), stacklevel=3)
    return found if found.is_numbered() else found.events(), read


def _is_empty(source: Any) -> bool:
    from middleware.recordings.tables.table_frames import is_frame

    return is_frame(source) and hasattr(source, "__len__") and len(source) == 0


def _recording(source: Any, paths: list[str | Path], types: EventTypes, mapping: Mapped | None) -> Recording:
    """The source as a recording, by its mapping, or by the classes."""
    from middleware.recordings.files.mapped import mapped_recording
    from middleware.recordings.files.mapping import load_mappings, mappings_of
    from middleware.recordings.tables.table_frames import table_of, table_recording

    if isinstance(source, Recording):
        return source
    if _is_by_type(source):
        if mapping is not None:
            raise TraceError("a mapping names the types itself: give it tables or files, not a dict of them by type")
        return _by_type(source)
    if mapping is None:
        return _by_type({_the_one(types): source})
    mappings = load_mappings(mapping) if isinstance(mapping, str | Path) else mappings_of(mapping)
    read = [one for one in mappings if one.type in types] or mappings[:1]
    for one in read:
        _check_fits(one, types)
    if paths:
        return mapped_recording(paths, mapping if isinstance(mapping, str | Path) else mappings, [one.type for one in read])
    if len(mappings) > 1:
        raise TraceError("a mapping of several types is for several files; a table gives one type")
    return table_recording([(table_of(source), mappings[0])])


def _by_type(sources: AnyMapping[EventType, Any]) -> Recording:
    """Tables, or files, by event type, each mapped by the fields of its class."""
    from middleware.recordings.files.guess import mapping_for, mapping_of, of_class
    from middleware.recordings.files.mapped import mapped_recording
    from middleware.recordings.files.text import existing
    from middleware.recordings.tables.table_frames import table_of, table_recording

    tables, files, mappings = [], [], []
    for kind, source in sources.items():
        name, fields = type_name(kind), declared_fields(kind)
        if not (paths := _paths(source)):
            sample = _sample(table := table_of(source))
            tables.append((table, of_class(mapping_of(sample, name, "the table", fields), sample, "the table")))
            continue
        for file in existing(paths):
            files.append(file)
            mappings.append(mapping_for(file, name, fields))
    if tables and files:
        raise TraceError("tables and files together: read the files into tables first")
    return table_recording(tables) if tables else mapped_recording(files, mappings)


def _sample(table: pyarrow.Table) -> pyarrow.Table:
    """Some rows of all over a table."""
    import numpy as np

    return table.take(np.arange(0, len(table), -(-len(table) // _SAMPLE))) if len(table) > _SAMPLE else table


def _paths(source: Any) -> list[str | Path]:
    """The paths that a source consists of; empty if it is something else."""
    if isinstance(source, str | Path):
        return [source]
    if isinstance(source, Sequence) and source and all(isinstance(each, str | Path) for each in source):
        return list(source)
    return []


def _is_by_type(source: Any) -> bool:
    is_type = [isinstance(key, type) and issubclass(key, Event) for key in source] if isinstance(source, AnyMapping) else []
    return bool(is_type) and all(is_type)


def _read_types(detectors: AnyMapping[str, Detector]) -> EventTypes:
    """The raw types that detectors read: those that none of them publishes."""
    published = published_types(detectors)
    return EventTypes(
        dict.fromkeys(kind for detector in detectors.values() for kind in detector.subscribes if kind not in published)
    )


def _the_one(types: EventTypes) -> EventType:
    kinds = [kind for _, kind in types.items()]
    if len(kinds) != 1:
        raise TraceError(
            f"the detectors read {listed(types)}: say what is what, with a mapping, or a dict of tables or files by type"
        )
    return kinds[0]


def _check_fits(mapping: Mapping, types: EventTypes) -> None:
    if mapping.type not in types:
        raise TraceError(f"the mapping gives {mapping.type}, which no detector reads; they read {listed(types)}")
    declared = declared_fields(types[mapping.type])
    if missing := [name for name in declared if name not in mapping.fields]:
        raise TraceError(f"the mapping of {mapping.type} lacks the field {listed(missing)}")


def _lines(found: BadLines, what: str) -> str:
    """``what`` is wrong, with the place of it, and the first of the lines found."""
    first = [f"{'row' if each.file == 'the table' else 'line'} {each.line}: {each.reason}" for each in found.first[:_SHOWN]]
    where = found.first[0].file if found.first else "the table"
    return f"{where}: {what}: {'; '.join(first)}"
