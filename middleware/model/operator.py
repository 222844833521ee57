"""The contract of an incremental operator: it takes changes in any order, returns changes, never replays.

It has two halves. An ``Operator`` is the plan, immutable and shared by all units that run it; ``start`` returns an
``Operation``, the running state, one for each unit. Sequence queries, windows, CQL and flows are operators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
import xxhash

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError, EventError
from middleware.model.event import IDENTITY, Event, EventType, Identity, Key, stable_hash
from middleware.model.values.carried import LARGEST_EVENT, carried, carrier, holds_numbers, legible
from middleware.native import by_class

if TYPE_CHECKING:
    from middleware.model.block.block import Block
    from middleware.model.block.mixed_block import AnyBlock

Snapshot = Any
"""The running state of an operation as plain values, in a form that only the operation knows."""


class Operation:
    """The running state of an operator.

    The unit guarantees the following, so an operation need not check it: the identities in ``inserts`` are new (duplicates
    are dropped where events enter); each event in ``retracts`` is as it was inserted; nothing in ``delta`` has ts <= the
    ``final`` of the call before, or ts > ``emitted`` of this one. A revision comes as a retraction and an insertion of one
    identity; ``revises`` is empty.

    An operation guarantees: the net effect of all it has published depends only on the events it holds or held, not on
    their order or batching; no result has ts <= the ``final`` of an earlier call; each result is stamped (``Origin``), and
    its changes name the content published last. An exception in user code affects only the event that causes it (``fail``);
    an exception out of ``apply`` stops the operator.

    ``takes_several``
        whether ``apply`` takes columns of several types at once (``MixedBlock``), in any order.
    ``is_carried``
        whether results are sure to be what every process reads: of numbers, which it has read or checked itself.
    """

    takes_several: ClassVar[bool] = False
    is_carried: bool = False

    def __init__(self) -> None:
        self.failures: dict[Identity, tuple[Event, str]] = {}

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        """Take changes and times; return the changes to the results, each identity at most once.

        ``emitted``
            all input with ts <= this that has come so far has been passed in, speculatively: results that wait for time to
            pass (a window that closes, a negation at the end) are published once ``emitted`` passes them, and corrected
            if late input comes. Never goes back.
        ``final``
            watermark of the input: no change to it with ts <= this will come any more. State that served only such changes is
            to be forgotten. Never beyond ``emitted``; END when the stream has ended.
        """
        raise DetectorError(f"{type(self).__name__} has no apply(self, delta, emitted, final): it is what an operation is")

    def takes(self, columns: Block) -> bool:
        """Whether ``apply`` takes columns of this type as they are: if not, it is given several of them at once as events."""
        return False

    @property
    def held(self) -> int:
        """How many events (or entries that stand for them) it keeps, for statistics."""
        return 0

    @property
    def keys(self) -> int:
        """How many keys it keeps state for, for statistics."""
        return 1

    def snapshot(self) -> Snapshot:
        """The whole running state as a value that can be pickled and that later changes do not affect."""
        raise DetectorError(f"{type(self).__name__} has no snapshot(self): checkpoints need it")

    def restore(self, state: Snapshot) -> None:
        """Return to the state that ``snapshot`` returned; the same snapshot may be restored again."""
        raise DetectorError(f"{type(self).__name__} has no restore(self, state): recovery needs it")

    def fail(self, event: Event, failure: str) -> None:
        """Quarantine an event on which user code raised, or a result that cannot be published; ``failure`` says why. The event
        counts as never inserted."""
        self.failures[IDENTITY(event)] = (legible(event), failure)

    def failed(self, final: int) -> list[tuple[Event, str]]:
        """Return the failures that are final now, to be listed, and forget them. O(failures)."""
        done = [identity for identity, (event, _) in self.failures.items() if event.ts <= final]
        return [self.failures.pop(identity) for identity in done]


def _is_carried(events: list[Event]) -> bool:
    """Whether all of them are sure to have the form in which every process reads them. Mostly all are of one class."""
    if not carrier(events[0].__class__).others(events):
        return True
    return not any(carrier(kind).others(own) for kind, own, _ in by_class(events))


def _are_within(results: AnyBlock) -> bool:
    """Whether all results in columns together fit into a frame, so that each does: texts of several events may meet in one."""
    return all(holds_numbers(piece.event_type) or piece.size <= LARGEST_EVENT for piece in results.pieces)


def applied(operation: Operation, delta: Delta, emitted: int, final: int) -> Delta:
    """Return the answer of ``operation.apply``, each result as every process reads it (``carried``). O(values of results).

    A result that no process could read, or that its class does not take, is quarantined while it stands: readers never get it.
    """
    out = operation.apply(delta, emitted, final)
    if operation.is_carried or not out:
        return out
    rows = out.inserts if isinstance(out.new, list) or not _are_within(out.new) else []  # columns have plain fields
    pairs = list(chain.from_iterable(out.revises)) if out.revises else []
    if all(_is_carried(events) for events in (rows, pairs, out.retracts) if events):
        return out

    def form(event: Event) -> Event | None:
        try:
            return carried(event)
        except EventError:
            operation.failures.pop(IDENTITY(event), None)
            return None

    def published(event: Event) -> Event | None:
        try:
            return carried(event)
        except EventError as error:
            operation.fail(event, f"a result at {event.ts} ns is not published: {error}")
            return None

    retracts = [old for event in out.retracts if (old := form(event)) is not None]
    inserts, revises = [], []
    for before, after in out.revises:
        was, comes = form(before), published(after)
        if was is not None and comes is not None:
            revises.append((was, comes))
        elif was is not None:
            retracts.append(was)
        elif comes is not None:
            inserts.append(comes)
    inserts += [new for event in rows if (new := published(event)) is not None]
    if not rows:
        return Delta([*out.inserts, *inserts] if inserts else out.new, revises, retracts)
    return Delta(inserts, revises, retracts)


class LineSource(NamedTuple):
    """Lines of text from outside the mesh that are a stream: the node of the first operator that reads it reads them.

    ``name``
        of the stream; unique in a scenario.
    ``source``
        the source of its events, whose ids are the numbers of lines.
    ``place``
        a file, or the host and port of a TCP server.
    ``parser``
        makes a function of a line, the source, the number and when the line came (Unix time, ns): its event, None for a header
        or a blank line, or EventError.
    ``disorder``
        by how much (ns) an older line may come after a newer one: then its watermark follows its lines. None: there is none.
    ``by_arrival``
        whether events depend on when their lines came.
    """

    name: str
    source: str
    place: Path | tuple[str, int]
    event_type: EventType
    parser: Callable[[], Callable[[str, str, int, int], Event | None]]
    disorder: int | None = None
    by_arrival: bool = False


class Operator(Detector):
    """The plan of an incremental operator: immutable, cheap to copy, never itself changed by running.

    ``name``
        the name it publishes under, unless deployment gives it another.
    ``subscribes``, ``publishes``
        as for any detector, but they may differ from instance to instance: a query sets its own.

    ``definition``
        what it computes, as text: state stored under another definition is not restored. Operators made of data (a query, a
        window) set it; those made of code use ``version``.
    ``emits_before_clock``
        whether, at alpha = 0, it gets events at once even if they are ahead of the node's clock, as events derived on other
        nodes may be. Right where no result waits for time to pass: then nothing is held back for the clock.

    ``partition_key``
        names of fields that all events it reads have, if events that differ in one of them never meet in a result, or a
        function of an event with this property. Spark splits the work by it (``middleware.spark``). Empty: never.
    ``sources``
        what it reads that is not published in the mesh, but read where it runs.
    ``min_rows_for_columns``
        fewer events of several types than this, that come in one step, it is given as objects, also if they came as columns.

    Results are never stamped earlier than the last event they rest on, so ``backdate`` stays 0.
    """

    key: ClassVar[None] = None
    name: str = ""
    definition: str = ""
    emits_before_clock: ClassVar[bool] = False
    partition_key: tuple[str, ...] | Callable[[Any], Key] = ()
    sources: tuple[LineSource, ...] = ()
    min_rows_for_columns: int = 1_024

    def start(self, name: str, level: int) -> Operation:
        """A new running state, which stamps its results with ``name`` as their source and with ``level``."""
        raise DetectorError(f"{type(self).__name__} has no start(self, name, level): it is the one method an operator needs")

    def on_event(self, event: Any) -> None:
        """Operators take changes, not events: run them in a unit, or ``start`` one."""
        raise DetectorError(f"{type(self).__name__} is an operator: it takes changes (start(...).apply), not single events")


class Origin:
    """Stamps the results of one operation: source, level, and an id that depends only on what the result stands for.

    >>> origin = Origin("Average", level=1)
    >>> origin.id("a", 0, 10) == Origin("Average", level=1).id("a", 0, 10) != origin.id("b", 0, 10)
    True
    """

    __slots__ = ("_seed", "level", "source")

    def __init__(self, source: str, level: int) -> None:
        self.source = source
        self.level = level
        self._seed = stable_hash(source)

    def id(self, *parts: object) -> int:
        """The 64-bit identity of the result that stands for ``parts``: a key and a window, or the identities of a match.

        ``parts`` are numbers, texts, bytes, None and tuples of these; equal keys of different type (1, 1.0, True) are to
        be brought to one form before (``identity.canonical``). The id is the same in every process, for ever.
        """
        number = xxhash.xxh3_64_intdigest(_encode(parts), self._seed)
        return number - 2**64 if number >= 2**63 else number

    def of_match(self, events: list[Event]) -> int:
        """The identity of a result that rests on these events, in this order."""
        return self.id(*[(event.source, event.id) for event in events])


def described(*values: object) -> str:
    """The parts of an operator as text, the same in every process, for ``Operator.definition``. Code appears by its name."""
    return " ".join(map(_described, values))


def _described(value: object) -> str:
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_described(key)}: {_described(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Enum) or value is None or isinstance(value, str | bytes | int | float):
        return str(value) if isinstance(value, Enum) else repr(value)
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_described, value)))}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_described, value))})"
    if dataclasses.is_dataclass(value):
        fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return f"{type(value).__name__}({', '.join(f'{name}={_described(each)}' for name, each in fields)})"
    return type(value).__qualname__


_encode = msgspec.msgpack.Encoder().encode
