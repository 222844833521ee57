"""The running state of windows: contents by key, and the times at which keys are due.

Published results are never stored: they follow from the windows' content, and are computed again where a change touches them.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator

from detectors.outcomes import difference, packed, unpacked, withheld
from detectors.window.agenda import Agenda
from detectors.window.content import Content, Values, WindowEntry
from detectors.window.windows_plan import WindowsPlan
from middleware.model.change import Delta
from middleware.model.errors import ENDING
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event, Key, Order, Value
from middleware.model.identity import canonical
from middleware.model.later import Later
from middleware.model.operator import Operation, Origin, Snapshot


class WindowChanges:
    """The entries that come and go for one key."""

    __slots__ = ("come", "gone")

    def __init__(self) -> None:
        self.come: list[WindowEntry] = []
        self.gone: list[Order] = []

    def times(self) -> list[int]:
        return sorted({*(order[0] for order in self.gone), *(entry.order[0] for entry in self.come)})


class WindowsOperation(Operation):
    """Runs ``Windows``: compares the results at the ends that a change touches, before and after it."""

    def __init__(self, plan: WindowsPlan, name: str, level: int) -> None:
        super().__init__()
        self._plan = plan
        self._kind = plan.over
        self._origin = Origin(name, level)
        self._key = plan.key_of()
        self._values = [aggregate.value() for aggregate in plan.aggregates.values()]
        self._monoids = [aggregate.tree_monoid() for aggregate in plan.aggregates.values()]
        self._layout = plan.layout()
        self._contents: dict[Key, Content] = {}
        self._shown: dict[Key, tuple[Value, ...]] = {}
        """Keys as results show them, by their canonical form."""
        self._upto = END if plan.emit == "change" else NEVER
        self._due = Agenda()
        """When the next window of a key ends."""
        self._old = Agenda()
        """When some entries of a key may no longer be needed."""
        self._held = 0

    @property
    def held(self) -> int:
        return self._held

    @property
    def keys(self) -> int:
        return len(self._contents)

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        out = Delta()
        for key, changes in self._by_key(delta).items():
            self._change(key, changes, out)
        if self._plan.emit != "change":
            self._pass(final if self._plan.emit == "final" else emitted, out)
        self._purge(final)
        may_be_wrong = self._plan.may_overflow or self._plan.has_misfits
        return withheld(self, out, self._plan.wrong) if may_be_wrong and out else out

    # Changes.

    def _by_key(self, delta: Delta) -> dict[Key, WindowChanges]:
        found: defaultdict[Key, WindowChanges] = defaultdict(WindowChanges)
        for event in delta.retracts:
            if self.failures.pop(IDENTITY(event), None) is None:
                found[canonical(self._key(event))].gone.append(ORDER(event))
        for event in delta.inserts:
            try:
                given = self._key(event)
                key = canonical(given)
                values = tuple([value(event) for value in self._values])
                if key not in self._shown:
                    self._origin.id(key)  # it raises for keys that cannot be part of an identity
                    self._shown[key] = self._plan.shown(given, key)
            except ENDING:
                raise
            except BaseException:
                self.fail(event, traceback.format_exc(limit=-8))
                continue
            found[key].come.append(WindowEntry(ORDER(event), values))
        return found

    def _change(self, key: Key, changes: WindowChanges, out: Delta) -> None:
        content = self._contents.get(key)
        if content is None:
            if not changes.come:
                return  # the event was in no window, and is forgotten already
            content = self._contents[key] = self._kind.content(self._monoids)
        times = changes.times()
        ends = sorted(self._kind.touched(content, times, self._upto)) if times[0] <= self._upto else ()
        before = self._made(key, content, ends)
        self._held -= len(content)
        if changes.gone:
            content.remove(changes.gone)
        if changes.come:
            content.insert(changes.come)
        self._held += len(content)
        changed = difference(before, self._made(key, content, ends))
        out.inserts.extend(changed.inserts)
        out.revises += changed.revises
        out.retracts += changed.retracts
        if not content and self._forgets(content):
            self._forget(key)
            return
        if self._plan.emit != "change":
            self._schedule(key, content, self._upto)
        if key not in self._old:
            self._age(key, content, NEVER)

    def _made(self, key: Key, content: Content, ends: Iterable[int]) -> list[Event]:
        """The results of the windows with these ends."""
        source, level = self._origin.source, self._origin.level
        shown = self._shown[key]
        rows = []
        for end in ends:
            for window in self._kind.at(content, end):
                number = self._origin.id(key, *window.known_by)
                values = content.results(window.low, window.high)
                parts = (*shown, window.start, end, *values, end, number, source, level)
                rows.append(tuple([parts[place] for place in self._layout]))
        return self._plan.events(rows) if rows else []

    # Time.

    def _schedule(self, key: Key, content: Content, upto: int) -> None:
        """Have a key visited when its next window after ``upto`` ends."""
        end = self._kind.next(content, upto)
        if end is not None:
            self._due.put(key, end)

    def _pass(self, upto: int, out: Delta) -> None:
        """Publish the windows that end up to ``upto``."""
        if upto <= self._upto:
            return
        for key in self._due.due(upto):
            content = self._contents[key]
            out.inserts.extend(self._made(key, content, self._kind.ends(content, self._upto, upto)))
            self._schedule(key, content, upto)
        self._upto = upto

    def _age(self, key: Key, content: Content, final: int) -> None:
        """Have a key visited when some of its entries may be dropped, but not so often that it costs too much."""
        due = self._kind.due(content)
        if due < END:
            self._old.put(key, max(due, final + 1 + self._kind.retention // 4))

    def _purge(self, final: int) -> None:
        """Forget entries that no window needs any more. Amortised O(log keys) per event."""
        for key in self._old.due(final):
            content = self._contents[key]
            count = self._kind.droppable(content, final)
            content.drop(count)
            self._held -= count
            if not content and self._forgets(content):
                self._forget(key)
            else:
                self._age(key, content, final)

    def _forgets(self, content: Content) -> bool:
        return not (self._kind.goes_by_rank and content.dropped)

    def _forget(self, key: Key) -> None:
        del self._contents[key], self._shown[key]
        self._due.remove(key)
        self._old.remove(key)

    # Checkpoints.

    def snapshot(self) -> Snapshot:
        contents = [(key, self._shown[key], content.dropped, content.values.copy()) for key, content in self._contents.items()]
        return Later(_written, contents), self._upto, packed(self.failures, self._plan.result)

    def restore(self, state: Snapshot) -> None:
        contents, self._upto, failures = state
        self.failures = unpacked(failures, self._plan.result)
        self._contents, self._shown, self._due, self._old, self._held = {}, {}, Agenda(), Agenda(), 0
        for key, (shown, dropped, entries) in dict(contents).items():
            content = self._contents[key] = self._kind.content(self._monoids)
            self._shown[key] = shown
            content.dropped = dropped
            content.insert(list(entries))
            self._held += len(content)
            if self._plan.emit != "change":
                self._schedule(key, content, self._upto)
            self._age(key, content, NEVER)


def _written(contents: list[tuple[Key, tuple[Value, ...], int, dict[Order, Values]]]) -> Iterator[object]:
    for key, shown, dropped, values in contents:
        yield key, (shown, dropped, [WindowEntry(order, values[order]) for order in sorted(values)])
