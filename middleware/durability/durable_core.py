"""A node that keeps a log, without its I/O: what a step sends leaves only when the step's record is stored.

Pure. The owner runs steps as without a log; ``settle`` gives it what to write and what to send, and ``stored`` tells
the core that a write is safe. See docs/decisions/009.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from middleware.broker.broker import Broker
from middleware.broker.effects import Effects
from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.log.log_records import Record
from middleware.broker.peers.peers import Channel
from middleware.durability.checkpoint import AtOnce, PendingCheckpoint, Piece, Slicing
from middleware.durability.lives import log_of, state_of
from middleware.durability.state_encoding import uncollected
from middleware.link.frames import Bye, Data, Parts, decode_frame
from middleware.model.change import Batch, Delta
from middleware.model.errors import UnsavedError
from middleware.model.event import Event, EventTypes
from middleware.model.time import SECOND

SEEN = ""
"""The name of a part of a checkpoint that has ids seen; other parts have lanes by the name of their unit."""

_STALLED = SECOND
"""A disk that has stored nothing for this long holds the node up."""


@runtime_checkable
class Recoverable(Protocol):
    """A processor of batches that can resume in another process; ``Hierarchy`` is one."""

    def process(self, batch: Batch, finals: Mapping[str, int | None] | None = None) -> list[Batch]:
        """Take a step, or replay one that brought the units to ``finals``."""
        ...

    def finals(self) -> dict[str, int]:
        """Up to which time each unit is final."""
        ...

    def provisional(self) -> list[Event]:
        """The results that stand and are not final, whether anyone wants them or not."""
        ...

    @property
    def promised(self) -> dict[str, int]:
        """The watermark promised for each type published here."""
        ...

    def promised_without(self, names: Collection[str]) -> dict[str, int]:
        """Return the watermarks without these units, of which no reader knows yet; NEVER for types that only they publish."""
        ...

    @property
    def halted_at(self) -> Mapping[str, int]:
        """The watermark of each unit that has stopped, by name."""
        ...

    @property
    def halted(self) -> Mapping[str, str]:
        """Why each unit that has stopped did so, by name."""
        ...

    def halt(self, names: Collection[str]) -> list[Delta]:
        """Stop these units, as they had stopped in the step to be replayed next; returns what withdraws their results."""
        ...

    def set_aside(self, faults: Mapping[str, str]) -> list[Batch]:
        """Stop units for these reasons, by name, and drop their state; returns what is published of that."""
        ...

    @property
    def code(self) -> dict[str, Any]:
        """The form of its stored state."""
        ...

    @property
    def code_identities(self) -> dict[str, str]:
        """The code of each unit in words."""
        ...

    def state(self) -> dict[str, Any]:
        """All that it needs to resume, but for the state by key, which may be large: see ``parts``. Raises UnsavedError.

        It is written down during later steps, so it may share nothing with the processor that ever changes.
        """
        ...

    def parts(self, count: int) -> Mapping[str, Any]:
        """The next lanes, about ``count``, as they were when ``state`` was called, whatever came since; none at the end."""
        ...

    def restore(self, state: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> None:
        """Go on from a stored state; only for a processor that was just made."""
        ...


class Write(msgspec.Struct):
    """The content of one transaction: a record and, when one is due, the first pieces of a checkpoint as of its end.

    ``needed``
        no one needs blocks up to this offset any more.
    """

    record: Record
    pieces: list[Piece] = []
    needed: int = 0

    @property
    def size(self) -> int:
        """Bytes of the blocks in the record."""
        return sum(len(block) for *_, block in self.record.blocks())


def latest(sends: list[tuple[Channel, Parts]]) -> list[tuple[Channel, Parts]]:
    """The sends without frames that a later one on the channel replaces: greetings, acknowledgements, what is sent again."""
    kept: dict[Any, tuple[Channel, Parts]] = {}
    for channel, parts in sends:
        frame = decode_frame(parts[0])
        number = (frame.epoch, frame.seq) if isinstance(frame, Data | Bye) else ()
        kept[channel, type(frame), number] = (channel, parts)
    return list(kept.values())


class DurableCore:
    """See the module. ``broker`` notes its steps in ``log``; ``processor`` runs the detectors, if there are any.

    ``rejected``
        raw events that a former life rejected, and may not have listed.
    ``known``
        event types of former lives, with their fields: their stored events stay stored.
    ``faults``
        why the state of units could not be stored, by name. The checkpoint is dropped; the owner sets these units aside
        and begins another one.
    ``checkpoint_due``
        the next step begins a checkpoint; one that is not complete is dropped.
    ``slicing``
        how the bytes of a checkpoint are made a little at a time.
    """

    def __init__(
        self,
        broker: Broker,
        processor: Recoverable | None,
        types: EventTypes,
        rejected: Iterable[RejectedEvent] = (),
        known: Mapping[str, str] | None = None,
        slicing: Slicing = AtOnce,
    ) -> None:
        self.broker, self.log, self.processor = broker, log_of(broker), processor
        self.checkpoint_due = False
        self.faults: dict[str, str] = {}
        self._begun: PendingCheckpoint | None = None
        self._types, self._known, self._slicing = types, known or {}, slicing
        self._unsent: deque[tuple[int, Effects]] = deque()
        self._owed = list(rejected)
        self._halted: set[str] = set()  # as noted in this life: in replay, units may stop sooner than they did in the last one
        self._given: list[RejectedEvent] = []
        self._is_over = False
        self._stored = self.log.number
        self._now = self._free_at = 0

    @property
    def checkpointing(self) -> bool:
        """Whether a checkpoint was begun and is not complete: ``resume`` returns the rest."""
        return self._begun is not None

    @property
    def unreported(self) -> list[RejectedEvent]:
        """Raw events that were rejected, and that the owner may not have listed yet."""
        return self._owed + self._given + [each for _, outgoing in self._unsent for each in outgoing.rejected]

    def _begin(self) -> None:
        """A step begins: what the last one returned has been listed."""
        if self._is_over:
            self._given, self._is_over = [], False

    def settle(self, now: int) -> tuple[Effects, Write | None]:
        """End a step. Returns what is to be done at once, as nothing is to be stored before; and what is to be stored, if
        anything: what the step sends is returned by ``stored`` then."""
        self._begin()
        self._now = now
        if not self._unsent:
            self._free_at = now
        elif now - self._free_at > _STALLED:
            self.broker.wait_longer(now)
        outgoing = self.broker.settle(now)
        self._note_halted()
        finals = self.processor.finals() if self.processor is not None else {}
        record = self.log.close(finals, even_empty=self.checkpoint_due)
        effects = Effects(rejected=self._owed)
        self._owed = []
        if self.log.number <= self._stored:
            effects.add(outgoing)
        elif outgoing:
            self._defer(outgoing, now)
        self._given += effects.rejected
        self._is_over = True
        if record is None:
            return effects, None
        write = Write(record, needed=self.log.needed)
        if self.checkpoint_due:
            self.checkpoint_due = False
            if (piece := self._begin_checkpoint()) is not None:
                write.pieces.append(piece)
        return effects, write

    def _note_halted(self) -> None:
        halted = self.processor.halted.keys() - self._halted if self.processor is not None else ()
        if halted:
            self._halted.update(halted)
            self.log.halted(sorted(halted))

    def _defer(self, outgoing: Effects, now: int) -> None:
        """Keep what a step sends until its record is stored; of frames repeated while the disk stalls, only the last."""
        number = self.log.number
        if self._unsent and self._unsent[-1][0] == number and now - self._free_at > _STALLED:
            last = self._unsent[-1][1]
            last.add(outgoing)
            last.sends = latest(last.sends)
        else:
            self._unsent.append((number, outgoing))

    def stored(self, number: int, oldest: int = 0) -> Effects:
        """All records up to this one are safe: what waited for them may leave. The log begins after offset ``oldest``."""
        self._begin()
        self.log.oldest = max(oldest, self.log.oldest)
        self._stored = max(number, self._stored)
        self.log.kept(number)
        effects = Effects()
        while self._unsent and self._unsent[0][0] <= number:
            effects.add(self._unsent.popleft()[1])
            self._free_at = self._now
        self._given += effects.rejected
        return effects

    def _begin_checkpoint(self) -> Piece | None:
        """The first piece of a checkpoint of the state as it is now; see ``resume``."""
        self._begun = None
        with uncollected():
            try:
                units = self.processor.state() if self.processor is not None else {}
            except UnsavedError as error:
                self.faults = error.faults
                return None
            state = {"units": units, "broker": state_of(self.broker), "journal": self.log.state(), "turned": self.unreported}
            self._begun = PendingCheckpoint(self.log.number, state, self._parts, self._types, self._known, self._slicing)
        return self.resume(0)

    def _parts(self, count: int) -> Mapping[str, Any]:
        """The next of what may be large: ids seen, about so many sources, then lanes by key; none at the end."""
        if seen := self.broker.ingress.seen.part(count):
            return {SEEN: seen}
        return self.processor.parts(count) if self.processor is not None else {}

    def resume(self, count: int) -> Piece | None:
        """The next piece of the checkpoint that was begun: at most ``count`` lanes, or about as much of the whole. It is to be
        stored after those before it. None if there are ``faults``."""
        assert self._begun is not None, "no checkpoint was begun"
        try:
            piece = self._begun.next(count)
        except UnsavedError as error:
            self._begun, self.faults = None, error.faults
            return None
        if piece.is_last:
            self._begun = None
        return piece
