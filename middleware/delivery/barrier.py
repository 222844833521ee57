"""The barrier at a sink: holds events back until nothing can change them, and lets each go once, in total order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from middleware.broker.routing import is_subscribed
from middleware.delivery.tables import fitting, has_form
from middleware.model.block.block import Block
from middleware.model.block.waiting_blocks import WaitingBlocks, in_order
from middleware.model.change import Batch, Delta, grouped
from middleware.model.event import END, NEVER, Event, type_name
from middleware.native import HeldEvents, by_class
from middleware.ordering.slack.measuring import survey

_WORTH = 64
"""So many events are looked at in blocks in less time than one is made an object, held and released as such."""

_BELOW = "event at or below the watermark promised"


class Barrier:
    """Events of the subscribed types, final ones only, each once, in total order: ``take``; or in columns: ``take_columns``.

    Blocks are held as such, unless fewer events have come since the last withdrawal or revision than a 64th of those held: to
    find one in blocks takes O(held) in the core, so O(1) for each event that came, and less than to make it an object.

    ``watermark``
        everything up to it has been released: the least watermark of the subscribed types. A type subscribed by its exact
        name counts from the start, a type covered by a pattern from its first appearance. It goes back only from END, to the
        newest event released, when streams that had ended resume (``Batch.floor``).
    ``violations``
        changes to events that were final already, by kind. They are not released; a stream that keeps its promises has none.
    ``joins``
        whether the stream may have run before: then changes to events that it does not know, and that are not final, are no
        violations. Their new versions are held like other events.
    """

    def __init__(self, patterns: Collection[str], joins: bool = False) -> None:
        self.watermark = NEVER
        self.violations: Counter[str] = Counter()
        self._joins = joins
        self._patterns = frozenset(patterns)
        self._promised = {name: NEVER for name in patterns if not name.endswith("*")}
        self._held = HeldEvents()
        self._newest = NEVER
        self._columns = WaitingBlocks()
        self._undisturbed = 0  # events since the last withdrawal or revision

    def __len__(self) -> int:
        """How many events are held back."""
        return len(self._held) + len(self._columns)

    def would_release(self, until: int) -> bool:
        """Whether a watermark at ``until`` may release events; False is certain. O(1)."""
        if until <= self.watermark:
            return False
        oldest = self._held.oldest
        return len(self._columns) > 0 or (oldest is not None and oldest <= until)

    def take(self, *batches: Batch) -> list[Event]:
        """Take changes, then watermarks, of one batch after another; return the events that are final now. O(log n) per change.

        Blocks of the core are held as such, and become events as they are released, unless much is withdrawn.
        """
        self._put(batches)
        events, columns = self._released(), self._free_columns()
        if not columns:
            return events
        made = [each.events() for each in columns.values()]
        return made[0] if not events and len(made) == 1 else _merged([events, *made])

    def take_deltas(self, *batches: Batch) -> dict[str, Delta]:
        """Take changes as ``take`` does; return the finals by type, in total order, in columns if all were held so."""
        if len(batches) == 1 and (passed := self._passed(batches[0])) is not None:
            return passed
        self._put(batches)
        events, columns = self._released(), self._free_columns()
        free = grouped(events) if events else {}
        for name, each in columns.items():
            same = free.get(name)
            free[name] = Delta(each if same is None else _merged([same.inserts, each.events()]))
        return free

    def take_columns(self, *batches: Batch, drops: Counter[str]) -> dict[str, Block]:
        """Take changes as ``take`` does; return the finals as blocks by type, each type in total order.

        Blocks are held, and released, as such.

        O(n log n) in the core; O(log n) in Python for each event that came as a row, or is withdrawn or revised while it is
        held. ``drops`` counts events that no columns can hold, which are skipped.
        """
        self._put(batches, in_columns=True)
        rows, free = by_class(self._released()), self._free_columns()
        for kind, events, _ in rows:
            if has_form(kind, len(events), drops):
                name, made = type_name(kind), fitting(kind, events, drops)
                free[name] = in_order(free[name].joined([made])) if name in free else made
        return free

    def _passed(self, batch: Batch) -> dict[str, Delta] | None:
        """The events of a batch that are final as they come, in total order by type: none of them needs to be held.

        None if the batch has other changes, or the barrier holds events, or times do not only grow: then no event is taken.
        """
        if batch.floor is not None or len(self):
            return None
        self._begin(batch)  # a new type counts: it makes nothing final before it promises
        newest = NEVER
        for delta in batch.deltas.values():
            if delta.retracts or delta.revises:
                return None
            times = survey(delta.new, self.watermark, NEVER, True)
            if times.delayed:
                return None
            newest = max(newest, times.newest)
        if newest > self._watermark_after(batch):
            return None
        self._promise(batch)
        self._newest = max(self._newest, newest)
        return {name: Delta(delta.new) for name, delta in batch.deltas.items() if delta}

    def _watermark_after(self, batch: Batch) -> int:
        """The watermark once the promises of a batch are taken. All its types have begun."""
        marks = batch.watermarks
        return max(
            self.watermark, min((max(until, marks.get(name, NEVER)) for name, until in self._promised.items()), default=NEVER)
        )

    def _put(self, batches: Iterable[Batch], in_columns: bool = False) -> None:
        """Take changes, then watermarks. ``in_columns``: columns are held as blocks, however they came."""
        for batch in batches:
            self._put_one(batch, in_columns)

    def _put_one(self, batch: Batch, in_columns: bool) -> None:
        self._begin(batch)
        deltas = batch.deltas.values()
        if any(delta.retracts or delta.revises for delta in deltas):
            self._undisturbed = 0
            if len(self._columns):
                changed = {each.id for delta in deltas for each in (*delta.retracts, *(old for old, _ in delta.revises))}
                self._hold(list(self._columns.pick(changed)))
        takes_blocks = self._undisturbed * _WORTH >= len(self)
        self._undisturbed += sum(delta.inserted for delta in deltas)
        for delta in deltas:
            self._retract(delta)
        for delta in deltas:
            self._revise(delta)
            if (block := delta.columns) is not None and (
                block.as_core_blocks() if in_columns else takes_blocks and block.core_blocks
            ):
                if below := self._columns.put(block, self.watermark):
                    self.violations[_BELOW] += below
            else:
                self._hold(delta.inserts)
        self._promise(batch)

    def _begin(self, batch: Batch) -> None:
        """A new generation, if one begins, and new types, before all changes."""
        if batch.floor is not None:
            self._resume()
        for name in batch.deltas.keys() | batch.watermarks.keys():
            if name not in self._promised and is_subscribed(self._patterns, name):
                self._promised[name] = NEVER

    def _promise(self, batch: Batch) -> None:
        for name, until in batch.watermarks.items():
            if until > self._promised.get(name, until):
                self._promised[name] = until
        self.watermark = max(self.watermark, min(self._promised.values(), default=NEVER))

    def _resume(self) -> None:
        """A new generation: streams that end in it say so again, and nothing comes that is as old as what was released."""
        self._promised = {name: until if until != END else NEVER for name, until in self._promised.items()}
        if self.watermark == END:
            self.watermark = self._newest

    def __contains__(self, identity: object) -> bool:
        """Whether an event is held back as an object."""
        return identity in self._held

    def forget(self) -> int:
        """Drop the events held back, because changes to them are lost; returns how many they were.

        Later changes may be to these, or to events that were lost, as if this barrier joined the stream here.
        """
        count = len(self)
        self._joins = True
        self._held.clear()
        self._columns = WaitingBlocks()
        return count

    def _retract(self, delta: Delta) -> None:
        for event in delta.retracts:
            if not self._held.discard(event) and not self._came_before(event):
                self.violations["retraction of what is final or unknown"] += 1

    def _revise(self, delta: Delta) -> None:
        for old, new in delta.revises:
            if self._held.discard(old, of_any_type=True) or self._came_before(old):
                self._hold([new])
            else:
                self.violations["revision of what is final or unknown"] += 1

    def _came_before(self, event: Event) -> bool:
        """Whether an event that is not held may have come before this barrier was there, and was not final then."""
        return self._joins and event.ts > self.watermark

    def _hold(self, events: list[Event]) -> None:
        if refused := self._held.hold(events, self.watermark):
            self.violations[_BELOW] += refused

    def _released(self) -> list[Event]:
        free: list[Event] = self._held.release(self.watermark)
        if free:
            self._newest = max(self._newest, free[-1].ts)
        return free

    def _free_columns(self) -> dict[str, Block]:
        free = self._columns.released(self.watermark)
        self._newest = max([self._newest, *(each.newest for each in free.values())])
        return free

    def __getstate__(self) -> dict[str, Any]:
        self._held.hold(self._columns.spill(), NEVER)
        self._columns = WaitingBlocks()
        return vars(self) | {"_held": self._held.events()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._held = HeldEvents()
        self._held.hold(state["_held"], NEVER)


def _merged(parts: list[list[Event]]) -> list[Event]:
    """Events in total order."""
    held = HeldEvents()
    for part in parts:
        held.hold(part, NEVER)
    events: list[Event] = held.release(END)
    return events
