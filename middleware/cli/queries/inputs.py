"""Where the events of a query come from: files, a trace, a scenario's recording, or a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from glob import escape, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from middleware.cli.meshes.pubsub import event_types
from middleware.model.detector import Detector
from middleware.model.errors import SlacklineError
from middleware.model.event import TS, Event, EventType, EventTypes, type_name
from middleware.model.quantities import parse_duration
from middleware.model.words import listed
from middleware.recordings.files.tally import BadLines, lost_note, skipped_note

if TYPE_CHECKING:
    from middleware.recordings.files.following import Follower
    from middleware.recordings.files.mapping import Mapping
    from middleware.recordings.files.recording import Recording
    from middleware.runtime.scenario import Scenario

_ARROW = {"int64": int, "double": float, "string": str, "bool": bool}


def lateness_of(text: str) -> int:
    """The allowed lateness (ns) that an option names; raises QuantityError.

    ``0s`` says that events come in order, so what lies before the latest one is final: 1 ns, since with none at all nothing is
    final before a first delay is measured.
    """
    return max(1, parse_duration(text))


class FileInput:
    """Events in CSV, JSON lines, Parquet or Arrow files: by a mapping (a TOML file), or by the names of their columns.

    ``types``: the event types that they hold: made from the mapping, unless ``types`` are given. Raises TraceError.
    """

    def __init__(self, paths: Sequence[str | Path], mapping: Path | None = None, types: EventTypes | None = None) -> None:
        from middleware.recordings.files.mapped import mapped_recording
        from middleware.recordings.files.mapping import load_mappings

        self.mappings = load_mappings(mapping) if mapping is not None else _guessed_mappings(paths, types)
        self.recording: Recording = mapped_recording(paths, mapping if mapping is not None else self.mappings)
        made = {one.type: _type_of(one, types) for one in self.mappings}
        self.types = EventTypes(made.values())
        self._paths = paths
        self._followers: list[Follower] = []
        self._read: tuple[list[Event], BadLines, BadLines] | None = None

    def events(self) -> list[Event]:
        """All events in order of arrival. O(n log n) the first time. Raises TraceError if there is none."""
        from middleware.recordings.files.recording_reading import read_events

        if self._read is None:
            events, read = read_events(self.recording, self.types)
            self._read = events, read.bad, read.lost
        return self._read[0]

    @property
    def read(self) -> list[Event]:
        """The events that have been read, if they were read as a whole."""
        return self._read[0] if self._read is not None else []

    def follow(self) -> Iterator[list[Event]]:
        """Events as they are appended to the files, without an end; an empty list now and then. Raises TraceError."""
        from middleware.recordings.files.following import Follower, followed
        from middleware.recordings.files.text import existing

        of_file = ((file, next(one for one in self.mappings if one.matches(file))) for file in existing(self._paths))
        self._followers = [
            Follower(file, mapping, self.types[mapping.type], number) for number, (file, mapping) in enumerate(of_file)
        ]
        with ExitStack() as stack:
            for follower in self._followers:
                stack.enter_context(closing(follower))
            yield from followed(self._followers)

    def notes(self) -> list[str]:
        """Notes on the files: warnings about units, and the numbers of skipped lines and lost cells."""
        if self._read is not None:
            _, bad, lost = self._read
        else:
            lines = [line for follower in self._followers for line in follower.bad]
            cells = [line for follower in self._followers for line in follower.lost]
            bad, lost = BadLines(len(lines), lines), BadLines(len(cells), cells)
        notes = list(self.recording.warnings)
        for found, note in ((bad, skipped_note(bad)), (lost, lost_note(lost))):
            if found.count:
                notes += [note, *(f"  {each.file}:{each.line}: {each.reason}" for each in found.first[:5])]
        return notes

    def descriptions(self) -> list[str]:
        """A line for each type: its fields, and where its time and source come from."""
        return [_description(one) for one in self.mappings]


class QueryInput(msgspec.Struct):
    """Where events come from: the types that a query may name, detectors that derive some of them, and the recording.

    ``scenario``
        the trace's scenario; the trace may still have to be prepared.
    """

    types: EventTypes
    detectors: dict[str, Detector]
    trace: Path | None = None
    address: str = ""
    scenario: Scenario | None = None
    files: FileInput | None = None

    def arrivals(self) -> Iterator[list[Event]]:
        """The recorded events in order of arrival, in lists of any length."""
        from middleware.recordings.traces import load_trace, read_trace

        if self.files is not None:
            yield self.files.events()
            return
        assert self.trace is not None, "it is no node, and prepared"
        names = load_trace(self.trace).types
        yield from read_trace(self.trace, EventTypes(self.types[name] for name in names if name in self.types))

    def lateness(self) -> int:
        """The largest delay (ns) of a recorded event behind those that came before it: results may change for that long."""
        import numpy as np

        from middleware.model.block.rows import values
        from middleware.recordings.traces import columns, load_trace

        if self.files is not None:
            ts = np.fromiter(map(TS, self.files.events()), np.int64)
        else:
            assert self.trace is not None, "it is no node, and prepared"
            trace = load_trace(self.trace)
            parts = [batch for name in trace.types for batch in columns(self.trace, trace, name, ["arrival", "ts"])]
            arrival, ts = (np.concatenate([np.asarray(values(part.column(at)), np.int64) for part in parts]) for at in (0, 1))
            ts = ts[np.argsort(arrival, kind="stable")]
        return int((np.maximum.accumulate(ts) - ts).max(initial=0))


def source_of(sources: Sequence[str], modules: Sequence[str], mapping: Path | None = None) -> QueryInput:
    """The input that is meant by names of files, the folder of a trace, a scenario or a node. Raises SlacklineError."""
    from middleware.recordings.traces import DESCRIPTION

    types = event_types(list(modules)) if modules else None
    if all(map(_names_files, sources)):
        files = FileInput(sources, mapping, types)
        return QueryInput(files.types, {}, files=files)
    if mapping is not None or len(sources) > 1:
        raise SlacklineError(f"{listed([s for s in sources if not _names_files(s)])}: there is no such file")
    (source,) = sources
    if "://" in source:
        if types is None:
            raise SlacklineError(f"what {source} publishes is typed: name the module with its event classes (--types-from)")
        return QueryInput(types, {}, address=source)
    folder = Path(source)
    if (folder / DESCRIPTION).exists():
        return QueryInput(types if types is not None else _described_types(folder), {}, folder)
    from middleware.runtime.scenario import load_scenario

    scenario = load_scenario(source)
    return QueryInput(scenario.types, scenario.detectors, scenario=scenario)


def _names_files(source: str) -> bool:
    """Whether a source is a file, a pattern of files, or a folder of them that is neither a trace nor a scenario."""
    from middleware.recordings.traces import DESCRIPTION
    from middleware.runtime.scenario import FILE

    path = Path(source)
    if path.is_dir():
        return not any((path / name).exists() for name in (DESCRIPTION, FILE)) and any(
            each.is_file() for each in path.iterdir()
        )
    return path.is_file() or (has_magic(source) and "://" not in source)


def _described_types(folder: Path) -> EventTypes:
    """Event types made from a trace's own description; fields in whose columns there are nulls may be None."""
    from middleware.recordings.schemas.types import event_type
    from middleware.recordings.traces import gaps, load_trace

    types = []
    for name, trace in load_trace(folder).types.items():
        kinds = {field: _ARROW.get(kind, Any) for field, kind in trace.fields.items()}
        types.append(event_type(name, kinds | {field: kinds[field] | None for field in gaps(folder, name) & kinds.keys()}))
    return EventTypes(types)


def _guessed_mappings(paths: Sequence[str | Path], types: EventTypes | None) -> list[Mapping]:
    """The mapping of each file by the names of its columns, and by the class of its name, if there are classes."""
    from middleware.recordings.files.guess import guessed, mapping_for
    from middleware.recordings.files.text import existing
    from middleware.recordings.schemas.types import declared_fields

    found = []
    for file in existing(paths):
        if types is None:
            found.append(replace(guessed(file), files=(escape(str(file)),)))
        else:
            kind = _class_of(file, types)
            found.append(mapping_for(file, type_name(kind), declared_fields(kind)))
    return found


def _class_of(file: Path, types: EventTypes) -> EventType:
    """The class for a file: the only one, or the one that is called as the file is."""
    kinds = [kind for _, kind in types.items()]
    called = [kind for kind in kinds if kind.__name__.lower() == file.name.split(".")[0].lower()]
    if len(called or kinds) != 1:
        raise SlacklineError(f"{file}: is it {listed(types)}? Call the file as its type, or say it in a --mapping")
    return (called or kinds)[0]


def _type_of(mapping: Mapping, types: EventTypes | None) -> EventType:
    from middleware.recordings.schemas.types import KINDS, event_type

    if types is not None:
        return types[mapping.type]
    kinds = {name: KINDS[field.type] | None if field.optional else KINDS[field.type] for name, field in mapping.fields.items()}
    return event_type(mapping.type, kinds)


def _description(mapping: Mapping) -> str:
    fields = ", ".join(f"{name} {field.type}{' or none' * field.optional}" for name, field in mapping.fields.items())
    source = mapping.source.column or mapping.source.value or "the file's name"
    return f"{mapping.type} ({fields}): time from {mapping.ts.column} ({mapping.ts.format or mapping.ts.unit}), source {source}"
