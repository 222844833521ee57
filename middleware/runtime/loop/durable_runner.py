"""Runs the core of a durable node on its store: recovers at the start, releases stored steps, makes checkpoints.

A node without a log has a ``LoglessRunner`` in its place.
"""

from __future__ import annotations

import time

import structlog

from middleware.broker.broker import Broker
from middleware.broker.effects import Effects
from middleware.durability.checkpoint import Piece
from middleware.durability.durable_core import DurableCore, Recoverable, Write
from middleware.durability.lives import log_of
from middleware.durability.recovery import RecoveryResult, recover
from middleware.durability.state_encoding import uncollected
from middleware.model.change import Batch
from middleware.model.errors import DetectorError, StateError
from middleware.model.event import EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.runtime.loop.garbage import freeze_objects
from middleware.runtime.loop.slices import Slices
from middleware.runtime.status import LogStatus
from middleware.runtime.storage.store import Store

TARGET = 10 * SECOND
"""How long a recovery may take: a checkpoint is due when the node has worked for this long since the last one."""

_SHARE = 20
"""After a checkpoint that took t, none begins for this many times t, so that they never take more than 5 % of the time."""

_SLICE = 2 * MILLISECOND
"""About how long one step works on a checkpoint."""

_PAUSE = 3
"""After work of t on a checkpoint, other work comes first for this many times t. A checkpoint that took all the time there is
made results at 100,000 events/s wait for 50 ms, until it was complete."""

_FIRST_LANES, _MOST_LANES = 16, 4_096
"""Lanes in the first piece of a checkpoint, and the most in any piece."""

_PATIENCE = 5 * SECOND

_COUNTS = ("checkpoint", "records", "events", "corrected", "withheld", "unreadable")

_log = structlog.get_logger()


class DurableRunner:
    """See the module. ``worked``: how long the node has worked since the last checkpoint (ns); the node adds to it."""

    is_durable = True

    def __init__(
        self,
        broker: Broker,
        processor: Recoverable | None,
        types: EventTypes,
        store: Store,
        rebuild: bool = False,
    ) -> None:
        log = log_of(broker)
        log.oldest = store.oldest
        start = time.monotonic_ns()
        self.recovered: RecoveryResult
        self.recovered, correction = _recovered(broker, processor, types, store, rebuild)
        spent = self._recovering = time.monotonic_ns() - start
        if log.number:
            counts = {name: getattr(self.recovered, name) for name in _COUNTS}
            counts["turned"] = len(self.recovered.rejected)
            say = _log.warning if self.recovered.unreadable else _log.info
            say("node recovered", node=broker.name, seconds=round(spent / SECOND, 3), **counts)
        if processor is not None:
            log.runs(processor.code_identities)
        self.worked = spent
        self._core = DurableCore(broker, processor, types, self.recovered.rejected, self.recovered.known, Slices)
        self._core.checkpoint_due = self._at_once = self.recovered.changed
        self._broker, self._store, self._log = broker, store, log
        self._outrun = ""
        self._checkpointed, self._cost, self._logged = start, 0, 0
        self._size = self._completed = self._completed_seconds = self._completed_size = 0
        self._completed_at: int | None = None
        self._count, self._resumes_at = _FIRST_LANES, 0
        if store.lacks:
            broker.lost_log(log.offset if store.lacks == "end" else 0)
        broker.publish(correction, time.monotonic_ns())

    @property
    def due_at(self) -> int | None:
        """When a step is due to write a piece of a checkpoint; None if none is being made."""
        return self._resumes_at if self._core.checkpointing else None

    def settle(self, now: int) -> list[Effects]:
        """End a step: write its record, and return the effects that may leave now, in order."""
        self._log_loss()
        released = []
        number = self._store.stored()
        if number is not None:
            released.append(self._core.stored(number, self._store.oldest))
        due = self.worked >= TARGET or self._logged >= self._store.retention.behind
        if due and not self._core.checkpointing and now - self._checkpointed >= _SHARE * self._cost:
            self._core.checkpoint_due = True
        released.append(self._write(now))
        if self._core.checkpointing and time.monotonic_ns() >= self._resumes_at:
            self._resume(self._count)
        self._set_aside()
        return released

    def _set_aside(self) -> None:
        """Stop the detectors whose state could not be stored: with the next step a checkpoint begins that does without."""
        if not (faults := self._core.faults):
            return
        self._core.faults, self._core.checkpoint_due = {}, True
        for name, why in faults.items():
            _log.error("detector set aside: its state cannot be stored", node=self._broker.name, detector=name, why=why)
        assert self._core.processor is not None
        for batch in self._core.processor.set_aside(faults):
            self._broker.publish(batch, time.monotonic_ns())

    def _log_loss(self) -> None:
        if self._outrun != (outrun := self._log.outrun):
            self._outrun = outrun
            _log.error(
                "the log is an older copy, or lacks its end: what it lacks is lost, and readers get a gap",
                file=str(self._store.file),
                shown_by=outrun,
            )

    def _write(self, now: int) -> Effects:
        """Settle the step and write its record; a checkpoint may begin with it."""
        effects, write = self._begin(now) if self._core.checkpoint_due else self._core.settle(now)
        if write is not None:
            while self._at_once and self._core.checkpointing:  # no record without a checkpoint that names the code that made it
                if (piece := self._core.resume(_MOST_LANES)) is not None:
                    write.pieces.append(piece)
            if self._at_once and self._core.faults:
                write.pieces.clear()
            self._at_once = bool(self._core.faults) and self._at_once
            self._note(write.pieces)
            self._logged += write.size
            self._store.write(write)
        return effects

    def _begin(self, now: int) -> tuple[Effects, Write | None]:
        """Settle the step, and begin a checkpoint as of its end. No garbage collection visits the objects made for it."""
        with uncollected():
            settled = self._core.settle(now)
            freeze_objects()
        self._cost, self._size = time.monotonic_ns() - now, 0
        self.worked = self._logged = 0
        self._count = _FIRST_LANES
        return settled

    def _resume(self, count: int) -> None:
        """Write a piece of the checkpoint, and set the number of lanes in the next one."""
        start = time.monotonic_ns()
        if (piece := self._core.resume(count)) is None:
            return
        self._store.write(piece)
        freeze_objects()  # lanes are copied when they are touched: a collection that visited the copies took 40 ms
        self._checkpointed = time.monotonic_ns()
        spent = self._checkpointed - start
        self._cost += spent
        self._resumes_at = self._checkpointed + _PAUSE * spent
        self._note([piece])
        self._count = max(1, min(2 * count, _MOST_LANES, count * _SLICE // max(spent, 1)))

    def _note(self, pieces: list[Piece]) -> None:
        """Count pieces of a checkpoint, and the checkpoint once it is complete."""
        for piece in pieces:
            self._size += piece.size
            if piece.is_last:
                self._completed, self._completed_at = self._completed + 1, time.time_ns()
                self._completed_seconds, self._completed_size = self._cost, self._size

    def status(self) -> LogStatus:
        """The status of the log and the checkpoints. O(named subscriptions)."""
        log, store = self._log, self._store
        readers = {peer[1]: log.offset - reader.offset for peer, reader in log.readers.items() if reader.named}
        return LogStatus(
            size=store.size,
            oldest=store.oldest,
            offset=log.offset,
            commits=store.commits,
            committing=store.committing / SECOND,
            recovering=self._recovering / SECOND,
            checkpoints=self._completed,
            checkpoint_at=self._completed_at,
            checkpoint_seconds=self._completed_seconds / SECOND,
            checkpoint_size=self._completed_size,
            readers=readers,
        )

    def end(self) -> None:
        """Write a checkpoint, so that the next start is fast; wait until all is stored, or time is up."""
        self._core.checkpoint_due = True
        while self._core.checkpoint_due:  # once more if detectors were set aside
            self._write(time.monotonic_ns())
            while self._core.checkpointing:
                self._resume(_MOST_LANES)
            self._set_aside()
        deadline = time.monotonic_ns() + _PATIENCE
        while not self._store.idle and time.monotonic_ns() < deadline:
            self._store.stored()
            time.sleep(0.001)


def _recovered(
    broker: Broker, processor: Recoverable | None, types: EventTypes, store: Store, rebuild: bool
) -> tuple[RecoveryResult, Batch]:
    """See ``recover``; where the code has changed, the message also names the file."""
    if rebuild and not store.is_whole:
        raise StateError(
            f"{store.file} does not reach back to its beginning any more: nothing can be built anew from it; start the node "
            "with the code that wrote it, or in a new state folder, without what it knew"
        )
    records = store.everything() if rebuild else store.behind_checkpoint()
    try:
        former = {name for record in store.everything() for name in record.finals} if rebuild else ()
        return recover(broker, processor, types, store.checkpoint(is_needed=not rebuild), records, rebuild, former)
    except (StateError, DetectorError) as error:
        if str(store.file) in str(error):
            raise
        raise type(error)(f"{store.file}: {error}") from error


class LoglessRunner:
    """The runner of a node without a log: what a step sends leaves at once. ``worked``: how long the node has worked (ns)."""

    is_durable = False
    due_at = None

    def __init__(self, broker: Broker) -> None:
        self.worked = 0
        self._broker = broker

    def settle(self, now: int) -> list[Effects]:
        """End a step; returns what is to be done now."""
        return [self._broker.settle(now)]

    def status(self) -> None:
        """There is no log to report on."""

    def end(self) -> None:
        """Nothing is to be stored."""
