"""A subscription as its reader sees it: takes what the node sends; gives changes, finals, gaps, and replies to the node. Pure.

It outlives its links. The owner passes it every payload (``receive``), tells it when the link has begun a new life
(``restarted``), takes out what has arrived (``take``), reads it (``changes`` or ``batch``), and tells the node what it has read
(``commit``). ``receive``, ``restarted`` and ``take`` must not run at the same time; reading shares nothing with the first two,
so one thread may receive while another reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from middleware.broker.log.log_records import LogOffset
from middleware.broker.merge import merged
from middleware.delivery.barrier import Barrier
from middleware.delivery.cursor import Cursor
from middleware.delivery.tables import changes_table, finals_table, fitting, has_form
from middleware.link.codec import (
    MOST_TYPES,
    Changes,
    Commit,
    Drops,
    EventCodec,
    Gap,
    Interest,
    LastCommit,
    OnSlow,
    Payload,
    Ready,
    SinkPosition,
    decode_payload,
    encode,
)
from middleware.link.frames import Parts, payload_size
from middleware.model.block.block import Block, has_columns
from middleware.model.change import Batch, Change, Delta, Insert, Retract, Revise, Watermark, combined, grouped
from middleware.model.errors import EventError, WireError
from middleware.model.event import END, NEVER, ORDER, Event, EventType, type_name

if TYPE_CHECKING:
    import pyarrow as pa

Arrived = list[tuple[Changes, Parts]]
"""Changes as they came: the header of each payload, and all its parts."""

_NOWHERE: LogOffset = (0, 0)
_MISSED = Gap(0, 0)
"""Stands where the reader itself finds that changes are missing."""


class Interruption(msgspec.Struct, frozen=True):
    """Changes are missing here.

    ``dropped``
        how many events held back were dropped: they can never be called final, as a missing change may withdraw them.
    ``committed``
        set if this is the cause: finals up to this position were committed under the name, more than this reader says it has.
    ``stopped``
        set if this is the cause: types of which nothing more comes, as a detector they depend on has stopped.
    """

    dropped: int
    committed: SinkPosition | None = None
    stopped: tuple[str, ...] = ()


class Subscription:
    """See the module.

    ``codec``
        knows the types that events are read as.
    ``final``
        whether it is read as finals, each once and in total order, or early: each change in the order in which it was made.
    ``resumes``
        whether the node keeps its offset under its name. ``after``: the last final that is known to be taken. ``start``: the
        offset in the node's log at which it begins, whatever the node keeps: for who stores that himself.
    ``joins``
        whether it may begin in the midst of a stream (see ``Barrier``).
    ``ready``
        whether all nodes know the subscription. ``watermark``: the reader's; events read up to it do not change. It goes
        back from END when a new generation begins: what comes then is newer than all that was read.
    ``events``
        changes read so far. ``drops``: how many could not be taken, by reason; an interruption counts as one.
    ``behind_gap``
        the offset of the log behind the last changes that are missing in it; 0 if none were.
    ``interruptions``
        those found since the owner last cleared this; they lie before the changes that ``take`` has returned with them.
    """

    def __init__(
        self,
        patterns: Collection[str],
        codec: EventCodec,
        *,
        final: bool = False,
        on_slow: OnSlow = "block",
        resumes: bool = False,
        after: SinkPosition | None = None,
        start: LogOffset | None = None,
        joins: bool = False,
    ) -> None:
        if len(patterns) > MOST_TYPES:
            raise EventError(
                f"{len(patterns):,} types are more than a node takes from one subscriber ({MOST_TYPES:,}): "
                "subscribe to prefixes such as 'soccer.*', or to '*'"
            )
        self.ready = False
        self.watermark = self._before_end = NEVER
        self._generation = 0
        self.events = 0
        self.drops = Drops()
        self.interruptions: list[Interruption] = []
        self.behind_gap = 0
        self.barrier = Barrier(patterns, joins) if final else None
        self._interest = Interest(1, list(patterns), on_slow, resumes=resumes, after=after, final=final)
        self._codec = codec
        self._inbox: deque[tuple[Payload, Parts, int]] = deque()
        self._start = start
        self._log_offset = start
        """The offset reached in the node's log: _NOWHERE if none was given, None if nothing has arrived."""
        self._name_in_doubt = False
        """Whether the node, which has lost the link, has yet to say if it still knows the name."""
        self._promised: dict[str, int] = {name: NEVER for name in patterns if not name.endswith("*")}
        self._taken = start or _NOWHERE
        self._cursor = Cursor(after, start or _NOWHERE)
        self._commit = Commit(0, 0)
        self._before_line = self._before = 0  # where the cursor was when finals were read last

    # -- what arrives -------------------------------------------------------------------------------------------------

    @property
    def greeting(self) -> Parts:
        """The first payload of each life of the link: the subscribed types, and the offset reached."""
        line, offset = self._log_offset or _NOWHERE
        return [encode(replace(self._interest, line=line, offset=offset))]

    @property
    def pending(self) -> bool:
        """Whether there is something to take."""
        return bool(self._inbox)

    def receive(self, parts: Parts) -> None:
        """Take the next payload. The credit it costs is given back when it is taken out."""
        try:
            payload: Payload = decode_payload(parts)
        except WireError as error:
            self.drops[str(error).partition(":")[0]] += 1
            payload = _MISSED  # it may have held changes
        if self._name_in_doubt:
            self._name_in_doubt = False
            if not isinstance(payload, LastCommit | Gap):  # a node that knows the name sends one of these first
                self._inbox.append((_MISSED, [], 0))
        if type(payload) is Changes:
            if not payload.line and self._log_offset is not None and self._log_offset[0]:
                self._inbox.append((_MISSED, [], 0))  # the log that held its offset is gone, and no Gap says so
            self._log_offset = (payload.line, payload.offset)
        elif type(payload) is not Gap:
            self.ready = self.ready or type(payload) is Ready
            self._log_offset = self._log_offset or _NOWHERE
        self._inbox.append((payload, parts, payload_size(parts)))

    def restarted(self) -> Parts:
        """The link has begun a new life, because the node has lost the last one. Returns the greeting of the new life.

        A node with a log resumes at the offset reached, or at the one it keeps under the name, or sends a Gap; without a log
        there always is a gap, unless nothing had arrived before. Payloads that have arrived stay, but cost none of the new
        link's credit.
        """
        self.ready = False
        self._inbox = deque((payload, parts, 0) for payload, parts, _ in self._inbox)
        if self._interest.resumes and not (self._log_offset or _NOWHERE)[0]:
            self._name_in_doubt = True  # what its former lives committed may be lost, though this one has received nothing
        elif self._log_offset == _NOWHERE:
            self._inbox.append((_MISSED, [], 0))
            self._log_offset = None
        return self.greeting

    def take(self) -> tuple[Arrived, int]:
        """The changes that have arrived, and the bytes of credit to give back; never changes from both sides of a gap.

        There may be credit without changes. O(payloads).
        """
        arrived: Arrived = []
        size, inbox = 0, self._inbox
        while inbox:
            payload, parts, cost = inbox[0]
            if type(payload) is Changes:
                arrived.append((payload, parts))
            elif arrived:
                break
            else:
                self._heed(payload)
            inbox.popleft()
            size += cost
        if arrived:
            last = arrived[-1][0]
            self._taken, self._start = (last.line, last.offset), None
        return arrived, size

    def _heed(self, payload: Payload) -> None:
        if type(payload) is Gap and payload.stopped:
            self.drops["interruption"] += 1
            self.interruptions.append(Interruption(0, stopped=tuple(payload.types)))
        elif type(payload) is Gap and (payload.line, payload.offset) == self._start:
            pass  # the node has forgotten this reader, but its log goes back to where the reader begins
        elif type(payload) is Gap:
            self.behind_gap = payload.offset
            self._interrupted()
        elif type(payload) is LastCommit and payload.position is not None:
            after, cursor = self._interest.after, self._cursor
            if after is None:
                cursor.position = payload.position if cursor.position is None else cursor.position
            elif cursor.position == after < payload.position:
                self._interrupted(payload.position)

    def _interrupted(self, committed: SinkPosition | None = None) -> None:
        """A missing change may have withdrawn an event held back, so none of those can ever be called final."""
        self.drops["interruption"] += 1
        dropped = self.barrier.forget() if self.barrier is not None else 0
        self._cursor.forget()
        self.interruptions.append(Interruption(dropped, committed))

    # -- what is read -------------------------------------------------------------------------------------------------

    def changes(self, arrived: Arrived) -> list[Change]:
        """Return the arrived payloads as single changes, followed by the watermark if it has moved. O(changes)."""
        if self.barrier is None:
            self._resumes(arrived)
            changes: list[Change] = [change for _, delta in self._deltas(arrived) for change in delta.changes()]
        else:
            changes = [Insert(event) for event in self._finals(self.barrier, arrived)]
        if self._advance(_latest_watermarks(arrived)):
            changes.append(Watermark(self.watermark))
        return changes

    def deltas(self, arrived: Arrived) -> list[Delta]:
        """Return the arrived changes of one type. Early: the changes of each block, in the order in which they were sent.
        Finals: insertions in total order, in columns if the type has such and nobody counts which of its events were taken.
        O(changes).
        """
        if self.barrier is None:
            self._resumes(arrived)
            self._advance(_latest_watermarks(arrived))
            return [delta for _, delta in self._deltas(arrived)]
        _, event_type = self.only_type()
        if self._interest.resumes or not has_columns(event_type):
            return list(self.batch(arrived).deltas.values())
        return [Delta(columns) for columns in self._finals_in_columns(self.barrier, arrived).values()]

    def batch(self, arrived: Arrived) -> Batch:
        """The net effect of what has arrived, in columns by type; finals are insertions, those of a type in total order."""
        if self.barrier is None:
            batch = self._decoded(arrived)
            self._advance(batch.watermarks)
            return batch
        if self._interest.resumes:  # the cursor counts events
            finals = self._finals(self.barrier, arrived)
            deltas = grouped(finals) if finals else {}
        else:
            deltas = self.barrier.take_deltas(*self._steps(arrived))
        self._advance(_latest_watermarks(arrived))
        return Batch(deltas, dict.fromkeys(self._promised, self.barrier.watermark))

    def tables(self, arrived: Arrived) -> dict[str, pa.Table]:
        """Return the arrived changes as a table for each of their types: finals in total order; early, the net effect, by
        ``op``. Events that no columns can hold are skipped, and counted.
        """
        if self.barrier is None or self._interest.resumes:  # the cursor counts events
            return self.tables_of(self.batch(arrived))
        return {name: finals_table(columns) for name, columns in self._finals_in_columns(self.barrier, arrived).items()}

    def tables_of(self, batch: Batch) -> dict[str, pa.Table]:
        """Return tables of changes that have been read."""
        types, drops = self._codec.types, self.drops
        deltas = {name: delta for name, delta in batch.deltas.items() if has_form(types[name], len(delta), drops)}
        if self.barrier is None:
            return {name: changes_table(types[name], delta, drops) for name, delta in deltas.items()}
        return {name: finals_table(fitting(types[name], delta.inserts, drops)) for name, delta in deltas.items()}

    def check_columns(self) -> None:
        """Raises EventError if a type that is subscribed to by name has no columns."""
        for name in self._interest.subscriptions:
            if name in self._codec.types and not has_columns(self._codec.types[name]):
                raise EventError(f"no table holds {name}, as a field of it has no column: receive its changes, or a batch")

    def only_type(self) -> tuple[str, EventType]:
        """The one type that is subscribed to, with its name. Raises EventError if it may be several."""
        names = self._interest.subscriptions
        if len(names) != 1 or names[0] not in self._codec.types:
            raise EventError(
                f"one table holds one event type, and this subscriber reads {', '.join(names)}: ask for receive_tables"
            )
        return names[0], self._codec.types[names[0]]

    @property
    def taken(self) -> LogOffset:
        """Line and offset up to which everything has been taken out."""
        return self._taken

    def reached(self) -> tuple[int, int, SinkPosition | None]:
        """Line and offset in the node's log after which to resume once all that was read is safe; of finals, the last one."""
        if self.barrier is not None:
            return self._cursor.log_offset[0], self._cursor.offset, self._cursor.position
        return *self._taken, None

    def commit(self, upto: Event | None = None) -> Parts | None:
        """Return the payload that commits the changes read, so that they are not sent again; None if nothing is new.

        ``upto``: of the finals that were read last, the last one that is safe.
        """
        line, offset, position = self.reached()
        if upto is not None:  # what it rests on is to be read again, with those behind it
            offset, position = self._before if self._before_line == line else 0, ORDER(upto)
        if not self._interest.resumes or not line:
            return None
        commit = Commit(line, offset, position)
        if commit == self._commit:
            return None
        self._commit = commit
        return [encode(commit)]

    def _finals(self, barrier: Barrier, arrived: Arrived) -> list[Event]:
        """The events that the barrier releases and that were not delivered before."""
        if not self._interest.resumes:
            return self._cursor.fresh(barrier.take(*self._steps(arrived)))
        self._before_line, self._before, _ = self.reached()
        batch = self._decoded(arrived)
        for delta in batch.deltas.values():
            delta.new = delta.inserts  # the cursor counts events
        finals = barrier.take(batch)
        if arrived and (last := arrived[-1][0]).line:
            self._cursor.moved((last.line, last.offset), batch.deltas.values(), finals, barrier)
        return self._cursor.fresh(finals)

    def _finals_in_columns(self, barrier: Barrier, arrived: Arrived) -> dict[str, Block]:
        free = barrier.take_columns(*self._steps(arrived), drops=self.drops)
        self._advance(_latest_watermarks(arrived))
        return free

    def _deltas(self, arrived: Arrived) -> list[tuple[str, Delta]]:
        """The changes of each block, in the order in which they were sent, by type name."""
        deltas: list[tuple[str, Delta]] = []
        for changes, parts in arrived:
            for head, block in zip(changes.blocks, parts[1:], strict=True):
                delta = self._codec.decode(head, block, self.drops)
                self.events += len(delta)
                self._promised.setdefault(head.type, NEVER)
                deltas.append((head.type, delta))
        return deltas

    def _decoded(self, arrived: Arrived) -> Batch:
        """The net changes by type."""
        by_type: dict[str, list[Delta]] = {}
        for name, delta in self._deltas(arrived):
            by_type.setdefault(name, []).append(delta)
        net = {name: net for name, same in by_type.items() if (net := merged(same))}
        return Batch(net, _latest_watermarks(arrived), floor=NEVER if self._resumes(arrived) else None)

    def _steps(self, arrived: Arrived) -> list[Batch]:
        """The changes by type, one batch after another, each as long as nothing in it changes what came with it: for a barrier,
        which finds what is withdrawn sooner than the net effect is made. Watermarks come with the last."""
        steps: list[dict[str, list[Delta]]] = [{}]
        for name, delta in self._deltas(arrived):
            if steps[-1] and (delta.retracts or delta.revises):
                steps.append({})
            steps[-1].setdefault(name, []).append(delta)
        batches = [Batch({name: combined(same) for name, same in step.items()}) for step in steps]
        batches[0].floor = NEVER if self._resumes(arrived) else None
        batches[-1].watermarks = _latest_watermarks(arrived)
        return batches

    def _advance(self, watermarks: Mapping[str, int]) -> bool:
        """Whether the least watermark of the subscribed types has grown."""
        for name, until in watermarks.items():
            self._promised[name] = max(until, self._promised.get(name, NEVER))
        least = min(self._promised.values(), default=NEVER)
        if least <= self.watermark:
            return False
        self.watermark, self._before_end = least, least if least != END else self.watermark
        return True

    def _resumes(self, arrived: Arrived) -> bool:
        """Whether a new generation of the node has begun, in which streams that end must say so again."""
        if not arrived or arrived[-1][0].generation == self._generation:
            return False
        self._generation = arrived[-1][0].generation
        self._promised = {name: until if until != END else NEVER for name, until in self._promised.items()}
        if self.watermark == END:
            self.watermark = self._before_end
        return True


def net_effect(changes: Iterable[Change]) -> Batch:
    """Changes that follow each other, by type, without watermarks. O(changes)."""
    by_type: dict[str, list[Delta]] = {}
    for change in changes:
        match change:
            case Watermark():
                continue
            case Insert(event):
                delta = Delta([event])
            case Retract(event):
                delta = Delta(retracts=[event])
            case Revise(event, old):
                delta = Delta(revises=[(old, event)])
        by_type.setdefault(type_name(type(event)), []).append(delta)
    return Batch({name: net for name, same in by_type.items() if (net := merged(same))})


def _latest_watermarks(arrived: Arrived) -> dict[str, int]:
    """The largest of each type in the present generation: one that its publishers have left is open again, but was promised."""
    latest: dict[str, int] = {}
    for changes, _ in arrived:
        if changes.watermarks is not None and changes.generation == arrived[-1][0].generation:
            latest |= {name: max(until, latest.get(name, until)) for name, until in changes.watermarks.items()}
    return latest
