"""The plan of a stream: which detectors run together in shards, and in which stage. No Spark needed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import Event, EventTypes, type_name
from middleware.model.operator import Operator
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.spark.archive.archive_plan import ArchivePlan, lane_text
from middleware.spark.schemas import STAMP
from middleware.spark.spark_blocks import are_key_columns, columns_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from middleware.spark.schemas import EventSchema


@dataclass(frozen=True)
class ShardGroup:
    """Detectors that share shards.

    ``stage``
        from 1. They read raw events, results of lower stages, and each other's.
    ``by``
        the field, a part of every one's key, by which events are hashed to the shards; None: there is one shard.
    ``shards``
        the numbers of its shards.
    """

    names: tuple[str, ...]
    stage: int
    by: str | None
    shards: range

    def shard_of(self, event: Event) -> int:
        """The shard of an event: the same for all equal keys. A value that is no key goes to the first: a unit reports it."""
        return self._hashed(getattr(event, self.by)) if self.by is not None else self.shards.start

    def belongs(self, event: Event, shard: int) -> bool:
        """Whether what this shard publishes is read where it is: its key is that of the shard's, or cannot be one at all."""
        return self.by is None or self.shard_of(event) == shard or not _is_key(getattr(event, self.by))

    def shards_of(self, schema: EventSchema, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        """The shard of each row of a batch of raw events."""
        import numpy as np

        if self.by is None:
            return np.full(len(batch), self.shards.start)
        if not are_key_columns(schema, (self.by,)):
            return np.array([self.shard_of(event) for event in schema.events(columns_of(batch))], np.int64)
        coded = batch.column(self.by).dictionary_encode(null_encoding="encode")
        shards = np.array([self._hashed(key) for key in coded.dictionary.to_pylist()], np.int64)
        return shards[coded.indices.to_numpy()]  # type: ignore[no-any-return]

    def _hashed(self, key: Any) -> int:
        try:
            lane = lane_text(key)
        except DetectorError:
            return self.shards.start
        return self.shards[zlib.crc32(lane.encode()) % len(self.shards)]


@dataclass(frozen=True)
class StreamPlan:
    """All that the shards of a stream share. Sent to executors as a whole.

    ``groups``
        in order of their shards' numbers; those of one stage run beside each other.
    ``lateness``
        ns.
    ``finals``
        whether only final results come out.
    """

    plan: ArchivePlan
    groups: tuple[ShardGroup, ...]
    lateness: int
    finals: bool

    @classmethod
    def of(cls, plan: ArchivePlan, shards: int, lateness: int, finals: bool) -> StreamPlan:
        """The plan of a stream in so many shards for each key. Raises DetectorError if detectors cannot be run in as many."""
        if shards < 1:
            raise DetectorError(f"shards={shards}: a stream needs at least one")
        if shards == 1:
            return cls(plan, (ShardGroup(tuple(plan.names), 1, None, range(1)),), lateness, finals)
        groups: list[ShardGroup] = []
        for stage, found in enumerate(_stages(plan), 1):
            for names, by in found:
                first = groups[-1].shards.stop if groups else 0
                groups.append(ShardGroup(names, stage, by, range(first, first + (shards if by is not None else 1))))
        if all(group.by is None for group in groups):
            raise DetectorError(f"no detector has a key of fields, so {shards} shards are of no use: give shards=1")
        return cls(plan, tuple(groups), lateness, finals)

    @cached_property
    def shards(self) -> int:
        """The number of all shards."""
        return self.groups[-1].shards.stop

    @cached_property
    def stages(self) -> int:
        """The number of stages."""
        return max(group.stage for group in self.groups)

    def group_of(self, shard: int) -> ShardGroup:
        """The group that a shard belongs to."""
        return next(group for group in self.groups if shard in group.shards)

    @cached_property
    def _group_at(self) -> dict[str, ShardGroup]:
        return {name: group for group in self.groups for name in group.names}

    def readers(self, event_type: type[Event]) -> list[ShardGroup]:
        """The groups with a detector that reads a type, each once."""
        return list(dict.fromkeys(self._group_at[self.plan.names[number]] for number in self.plan.readers[event_type]))

    @cached_property
    def publishers(self) -> dict[str, list[ShardGroup]]:
        """The groups with a detector that publishes a type, each once, by the type's name."""
        found: dict[str, dict[ShardGroup, None]] = {}
        for group in self.groups:
            for name in group.names:
                for event_type in self.plan.detectors[name].publishes:
                    found.setdefault(type_name(event_type), {})[group] = None
        return {name: list(groups) for name, groups in found.items()}

    @property
    def policies(self) -> Policies:
        """How units behave: early results only where somebody gets them."""
        lateness = Lateness(1.0, max(self.lateness, 1))  # without any, nothing is final before a delay is seen
        return Policies(1.0 if self.finals else 0.0, lateness=lateness)

    @cached_property
    def types(self) -> EventTypes:
        """All event types."""
        return EventTypes(self.plan.types)

    @property
    def layout(self) -> list[str]:
        """How detectors are put into shards, in words: stored state depends on it."""
        lines = [f"{', '.join(group.names)} {_shards_text(group)}" for group in self.groups]
        return lines if len(lines) > 1 else [_shards_text(self.groups[0])]

    def explain(self) -> Iterator[str]:
        """The stages with their detectors, in lines."""
        for group in self.groups:
            reads = dict.fromkeys(t for name in group.names for t in self.plan.detectors[name].subscribes)
            names, types = ", ".join(group.names), ", ".join(map(type_name, reads))
            yield f"stage {group.stage}, {_shards_text(group)}: {names} (reads {types})"


def _is_key(value: Any) -> bool:
    try:
        lane_text(value)
    except DetectorError:
        return False
    return True


def _shards_text(group: ShardGroup) -> str:
    return f"by {group.by} in {len(group.shards)} shards" if group.by is not None else "in 1 shard"


class _Draft:
    """A group in the making: ``fields`` are those that all keys so far have in common."""

    def __init__(self, fields: list[str], stage: int) -> None:
        self.fields, self.stage = fields, stage
        self.names: list[str] = []


def _stages(plan: ArchivePlan) -> list[list[tuple[tuple[str, ...], str | None]]]:
    """For each stage, the groups in it: names of detectors, and the field that their events are partitioned by.

    A detector joins the first group that has a part of its key, and that runs above all whose results it reads, but for its
    own members. So detectors that have a field in common are one group, of one stage. O(detectors * (groups + inputs)).
    """
    drafts: list[_Draft] = []
    home: dict[str, _Draft] = {}
    publishers: dict[type[Event], list[str]] = {}
    for name, detector in plan.detectors.items():
        for event_type in detector.publishes:
            publishers.setdefault(event_type, []).append(name)
    for name in plan.names:  # lower levels first
        detector = plan.detectors[name]
        own = _fields(detector)
        below = [home[each] for event_type in detector.subscribes for each in publishers.get(event_type, ())]
        for draft in drafts:
            own_results = any(each is draft for each in below)  # which have a source, an id and a time of their own
            common = [field for field in draft.fields if field in own and not (own_results and field in STAMP)]
            if bool(common) == bool(own) == bool(draft.fields) and all(b is draft or b.stage < draft.stage for b in below):
                break
        else:
            draft, common = _Draft([], 1 + max((each.stage for each in below), default=0)), list(own)
            drafts.append(draft)
        draft.fields = common
        draft.names.append(name)
        home[name] = draft
    most = max(draft.stage for draft in drafts)
    in_order = [[draft for draft in drafts if draft.stage == stage] for stage in range(1, most + 1)]
    return [[(tuple(each.names), each.fields[0] if each.fields else None) for each in stage] for stage in in_order]


def _fields(detector: Detector) -> Sequence[str]:
    """The fields that make a detector's key; none if it has no key, or a function."""
    key = detector.partition_key if isinstance(detector, Operator) else type(detector).key
    return (key,) if isinstance(key, str) else key if isinstance(key, tuple) else ()
