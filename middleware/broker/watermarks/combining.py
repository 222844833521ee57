"""Combining promises: the watermark of a type is the least of those that its origins have promised.

An *origin* is where changes of a type come from: a publisher, the local detectors, a peer node. Types are raw (some
publisher's; an origin that has promised nothing leaves the type *open*: units then go by clock and allowed lateness) or derived
(an origin that has promised nothing holds the type at NEVER). The watermark of a type never goes back once someone reads it,
except from END: when a new generation begins (``generations``), a type that has ended may resume, after all that was final.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from typing import Any

from middleware.broker.routing import is_subscribed
from middleware.model.event import END, NEVER

_MOST_PATTERNS = 1_000
"""Most patterns that are distinguished; with more, each type counts as one that someone reads."""


class _TypeWatermark:
    __slots__ = ("derived", "ended", "floor", "has_ended", "idle", "is_read", "promises")

    def __init__(
        self,
        promises: dict[Hashable, int | None] | None = None,
        floor: int = NEVER,
        ended: bool = True,
        derived: bool = False,
        idle: Iterable[Hashable] = (),
        has_ended: bool = False,
        is_read: bool = True,
    ) -> None:
        self.promises: dict[Hashable, int | None] = promises if promises is not None else {}
        """By origin; None if it leaves the type open."""
        self.floor = floor
        """The largest promise ever made to anyone, except END."""
        self.is_read = is_read
        """Whether anyone reads it, or did: else a promise may still go back, as nobody relies on it."""
        self.has_ended = has_ended
        """Whether END was promised, which lasts for this generation."""
        self.ended = ended
        """Whether every origin that has left since END was last promised had ended its stream."""
        self.derived = derived
        self.idle = set(idle)
        """The nodes that expect nothing up to ``floor`` any more, although the origins left without an end."""

    def value(self, lasts: bool = True, end_lasts: bool = True, ends_in_doubt: bool = False) -> int | None:
        """The least of the promises, or None while the type is open: while an origin that may send it has promised nothing.

        ``lasts``: no origin can be missing, so the promise is kept as one that never goes back. ``end_lasts``: so is END, until
        the next generation. ``ends_in_doubt``: an END of all origins counts as the promise before, until none can be missing.
        """
        if not self.promises:
            if not (self.ended or self.has_ended or self.derived or self.idle):
                return None
            least = END if self.ended else self.floor
        else:
            least = END
            for promise in self.promises.values():
                if promise is None:
                    return None
                least = promise if promise < least else least
        if self.has_ended:
            return END
        if least == END:
            self.has_ended = lasts and end_lasts and not ends_in_doubt
            return self.floor if ends_in_doubt else END
        value = max(self.floor, least)
        if lasts and self.is_read:
            self.floor = value
        return value


class CombinedWatermarks:
    """Promises by type and origin. A change costs O(origins of the types it touches).

    ``values``
        the combined promise by type; open types are not in it. Others must not change it.
    ``open``
        the types that are open.
    ``version``
        grows with every change of ``values`` or ``open``.
    ``turns``
        grows with every such change that is no mere rise: a type opens, closes, ends, or goes back. Readers may use former
        ``values`` for a while, but must see each turn at once.
    ``gathering``
        while set, origins may be missing: combined promises are passed on to no one, and may still go back.
    ``ends``
        the types of which END is promised.
    ``reopening``
        types that had ended before this generation, until the floor from which they resume is settled.
    ``resumed``
        the reopening types whose floor is known: they have resumed, even if nodes have yet to announce what has ended again.
    ``keeps_ends``
        whether END lasts until a new generation, even if an origin comes that has not promised it.
    ``reads``
        patterns of the types that someone reads: ``read`` adds others.
    """

    def __init__(self, keeps_ends: bool = True, reads: Collection[str] = ("*",)) -> None:
        self.values: dict[str, int] = {}
        self.open: frozenset[str] = frozenset()
        self.version = self.turns = 0
        self.gathering = self.ends_in_doubt = False
        self.reopening: set[str] = set()
        self.resumed: set[str] = set()
        self.ends: set[str] = set()
        self._keeps_ends, self._reads = keeps_ends, frozenset(reads)
        self._types: dict[str, _TypeWatermark] = {}
        self._offers: dict[Hashable, dict[str, None]] = {}
        self._idle: dict[Hashable, frozenset[str]] = {}
        self._never: set[str] = set()
        """Types that no origin has offered yet, although some node has announced that it expects nothing of them."""

    @property
    def known(self) -> Set[str]:
        """The types that some origin offers or offered."""
        return self._types.keys() - self._never

    def origins(self, name: str) -> tuple[int | None, dict[Hashable, int | None]]:
        """The combined promise for a known type (None: open), and what each origin promises."""
        return self._value(name), dict(self._types[name].promises)

    def read(self, patterns: Collection[str]) -> None:
        """Someone reads these types: what is promised of them does not go back any more. O(types) for new patterns."""
        if not self._reads.issuperset(patterns):
            reads = self._reads.union(patterns)
            self._reads = reads if len(reads) <= _MOST_PATTERNS else frozenset("*")
            for name, watermark in self._types.items():
                watermark.is_read = is_subscribed(self._reads, name)
            self._combine(self._types)

    def gather(self, is_on: bool) -> None:
        """From now on, origins may be missing, or (off) no longer are. O(types)."""
        if self.gathering != is_on:
            self.gathering = is_on
            self._combine(self._types)

    def distrust_ends(self, is_on: bool) -> None:
        """From now on, a new END does not count, or (off) it does again. O(types)."""
        if self.ends_in_doubt != is_on:
            self.ends_in_doubt = is_on
            self._combine(self._types)

    def begin_generation(self, may_resume: Callable[[Hashable], bool]) -> None:
        """A new generation: nothing has ended any more, except by origins that cannot resume unnoticed here. O(types *
        origins).

        The others must announce again what has ended; until then the types stay where they were.
        """
        for name, watermark in self._types.items():
            if watermark.has_ended:
                watermark.has_ended = False
                self.reopening.add(name)
                self.resumed.discard(name)
            for origin, promise in watermark.promises.items():
                if promise == END and may_resume(origin):
                    watermark.promises[origin] = NEVER
        self._combine(self._types)

    def hold(self, names: Collection[str], anew: bool) -> None:
        """These had ended: the time from which they resume is not known yet; ``anew``: though it was in the last generation."""
        self.reopening.update(names)
        if anew:
            self.resumed.difference_update(names)

    def resume(self, floors: Mapping[str, int], resumes: bool = True) -> None:
        """Nothing as old as its floor will come of these types: it was final. ``resumes``: when they had ended."""
        if resumes:
            self.resumed |= floors.keys()
        for name, floor in floors.items():
            if name in self._types:
                self._types[name].floor = max(self._types[name].floor, floor)
        self._combine(floors.keys() & self._types.keys())

    def settle(self) -> None:
        """All nodes have announced what has ended in this generation."""
        self.reopening.clear()
        self.resumed.clear()

    def has_ended(self, name: str) -> bool:
        """Whether a type has ended, or had when this generation began and the floor from which it resumes is not settled."""
        return name in self.reopening or self.lasts_ended(name)

    def lasts_ended(self, name: str) -> bool:
        """Whether a type has ended, for this generation."""
        return name in self._types and self._types[name].has_ended

    @property
    def finite(self) -> int:
        """The largest promise ever made for any type, except END; NEVER if there was none. O(types)."""
        return max((watermark.floor for watermark in self._types.values()), default=NEVER)

    def floor(self, name: str) -> int:
        """The largest promise ever made for a type; NEVER if there was none."""
        watermark = self._types.get(name)
        if name in self.reopening or (watermark is not None and watermark.has_ended):
            return END
        return watermark.floor if watermark is not None else NEVER

    def is_derived(self, name: str) -> bool:
        """Whether some origin derives the type, or did."""
        return name in self._types and self._types[name].derived

    def offer(self, origin: Hashable, raw: Iterable[str], derived: Iterable[str] = ()) -> None:
        """The origin may send these types; it has left those that it offered before and offers no more."""
        offered = dict.fromkeys(raw, None) | dict.fromkeys(derived, NEVER)
        before = self._offers.get(origin, {})
        for name in before.keys() - offered.keys():
            self._withdraw(origin, name)
        for name, start in offered.items():
            watermark = self._known(name)
            watermark.derived = watermark.derived or start is not None
            watermark.promises.setdefault(origin, start)
            watermark.idle.clear()
        self._offers[origin] = dict.fromkeys(offered)
        self._combine(before.keys() | offered.keys())

    def await_from(self, origin: Hashable, names: Iterable[str]) -> None:
        """A node offers these raw types anew: nothing of them is final without it until it announces its promises."""
        for name in names:
            promises = self._types[name].promises
            if promises[origin] in (None, END):
                promises[origin] = NEVER
        self._combine(names)

    def is_to_come(self, name: str, but: Hashable) -> bool:
        """Whether some origin, except this one, has not ended a type."""
        return any(until != END for origin, until in self._types[name].promises.items() if origin != but)

    def promise(self, origin: Hashable, promises: Mapping[str, int], is_node: bool = False) -> None:
        """All that the origin promises now: a raw type that is missing is open again.

        A publisher never takes a promise back. A node does: it speaks for the publishers that it has, and END means that it has
        none at the moment. What was final by its former promise stays so.
        """
        offered = self._offers.setdefault(origin, {})
        others = self._not_risen(origin, promises)
        for name in others:
            watermark, until = self._known(name), promises[name]
            before = watermark.promises.get(origin)
            if until == END != before:
                watermark.ended = True  # who left before delays it no more than while this one is here
            watermark.promises[origin] = until if is_node or before is None else max(until, before)
            offered[name] = None
        if len(offered) > len(promises):
            for name in offered.keys() - promises.keys():
                watermark = self._types[name]
                if not watermark.derived:
                    watermark.promises[origin] = None
                    others.append(name)
        if others:
            self._combine(others)

    def advance(self, origin: Hashable, promises: Mapping[str, int]) -> None:
        """The origin promises this of types that it derives, and of all others what it did. O(origins of these types)."""
        others = self._not_risen(origin, promises)
        for name in others:
            watermark, until = self._types[name], promises[name]
            if until == END != watermark.promises[origin]:
                watermark.ended = True
            watermark.promises[origin] = max(until, watermark.promises[origin] or NEVER)
        self._combine(others)

    def _not_risen(self, origin: Hashable, promises: Mapping[str, int]) -> list[str]:
        """Raise the watermarks of types that this origin alone sends, which is the usual case; returns the other types."""
        types, values, others = self._types, self.values, list[str]()
        if self.gathering:
            return list(promises)
        for name, until in promises.items():
            watermark = types.get(name)
            if watermark is not None:
                own, before = watermark.promises, values.get(name, END)
                if len(own) == 1 and own.get(origin) == before < until < END:
                    own[origin] = values[name] = until
                    if watermark.is_read:
                        watermark.floor = until
                    continue
            others.append(name)
        self.version += len(others) < len(promises)
        return others

    def set_idle(self, by: Hashable, promised: Mapping[str, int]) -> None:
        """All publishers of one node are silent: it expects nothing as old of these types, and no longer promises others.

        This counts for types whose origins have all left. O(types).
        """
        before = self._idle.pop(by, frozenset())
        for name in before - promised.keys():
            self._types[name].idle.discard(by)
        for name in promised.keys() - self._types.keys():
            self._types[name] = _TypeWatermark(ended=False, is_read=is_subscribed(self._reads, name))
            self._never.add(name)
        left = [name for name in promised if not self._types[name].promises]
        for name in left:
            self._types[name].idle.add(by)
            self._types[name].floor = max(self._types[name].floor, promised[name])
        if promised:
            self._idle[by] = frozenset(left)
        self._combine(before.union(left))

    def never_offered(self, names: Iterable[str]) -> list[str]:
        """Those of the types that no origin can have sent yet."""
        return [name for name in names if name not in self._types or name in self._never]

    def _known(self, name: str) -> _TypeWatermark:
        """The watermark of a type that some origin has."""
        watermark = self._types.get(name)
        if watermark is None:
            watermark = self._types[name] = _TypeWatermark(is_read=is_subscribed(self._reads, name))
        if name in self._never:
            self._never.discard(name)
            watermark.ended = True
        return watermark

    def is_idle(self, by: Hashable) -> bool:
        """Whether a node has announced all its publishers as silent."""
        return by in self._idle

    def offers(self, origin: Hashable, name: str) -> bool:
        """Whether an origin may send a type."""
        return name in self._offers.get(origin, ())

    def leave(self, origin: Hashable, outlived: Collection[str] = ()) -> None:
        """The origin is gone: it delays nothing any more. ``outlived``: types that others ended after its last message."""
        self.set_idle(origin, {})
        offered = self._offers.pop(origin, {})
        for name in offered:
            self._withdraw(origin, name, name in outlived)
        self._combine(offered)

    def ended_by(self, origin: Hashable) -> list[str]:
        """The types that an origin has promised to send no more."""
        return [name for name in self._offers.get(origin, ()) if self.has_ended_by(origin, name)]

    def has_ended_by(self, origin: Hashable, name: str) -> bool:
        """Whether an origin has promised to send no more of a type."""
        return name in self._types and self._types[name].promises.get(origin) == END

    def everyone(self) -> Iterable[Hashable]:
        """The origins that offer something."""
        return self._offers.keys()

    def offered(self, by: Callable[[Hashable], bool]) -> frozenset[str]:
        """The types offered by any of the origins that ``by`` chooses."""
        return frozenset().union(*(names for origin, names in self._offers.items() if by(origin)))

    def state(self) -> dict[str, Any]:
        """The whole state as built-in values, for ``restore``."""
        types = {
            name: (dict(of.promises), of.floor, of.ended, of.derived, set(of.idle), of.has_ended)
            for name, of in self._types.items()
        }
        offers = {origin: list(names) for origin, names in self._offers.items()}
        idle, never = dict(self._idle), set(self._never)
        return {
            "types": types,
            "offers": offers,
            "rests": idle,
            "never": never,
            "fallen": set(self.reopening),
            "resumed": set(self.resumed),
            "reads": sorted(self._reads),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to ``state``; what has been offered since stays offered."""
        mine = {origin: (list(names), {n: self._types[n].derived for n in names}) for origin, names in self._offers.items()}
        self._offers = {origin: dict.fromkeys(names) for origin, names in state["offers"].items()}
        self._reads = self._reads.union(state["reads"])
        kept = {name: (*values, is_subscribed(self._reads, name)) for name, values in state["types"].items()}
        self._types = {name: _TypeWatermark(*values) for name, values in kept.items()}
        self._idle, self._never = dict(state["rests"]), set(state["never"])
        self.reopening, self.resumed = set(state["fallen"]), set(state["resumed"])
        for origin, (names, derived) in mine.items():
            self.offer(origin, [n for n in names if not derived[n]], [n for n in names if derived[n]])
        self._combine(self._types)

    def _withdraw(self, origin: Hashable, name: str, is_outlived: bool = False) -> None:
        watermark = self._types[name]
        watermark.ended &= watermark.promises.pop(origin, None) == END or is_outlived

    def _combine(self, names: Iterable[str]) -> None:
        changed, has_turned, opened, closed = False, False, set[str](), set[str]()
        values, ends, is_open = self.values, self.ends, self.open
        for name in names:
            value, before = self._value(name), values.get(name)
            if value is None:
                if before is not None or name not in is_open:
                    values.pop(name, None)
                    opened.add(name)
            elif value != before:
                values[name] = value
                changed = True
                if before is None or value < before or END in (value, before):
                    has_turned = True
                    closed.add(name)
                    (ends.add if value == END else ends.discard)(name)
        if opened:
            ends -= opened
        if opened - is_open or closed & is_open:
            self.open = is_open - closed | opened
        self.version += changed or bool(opened)
        self.turns += has_turned or bool(opened)

    def _value(self, name: str) -> int | None:
        return self._types[name].value(not self.gathering, self._keeps_ends, self.ends_in_doubt)
