"""The contract of a detector: a fold over events in order. Users write subclasses of it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, ClassVar, Literal

import msgspec

from middleware.model.batch_results import BatchResult, rows_of
from middleware.model.block.block import Block
from middleware.model.errors import ENDING, DetectorError, QuantityError
from middleware.model.event import MAX_TS, Event, EventType, check_event_type, type_name
from middleware.model.quantities import Duration, duration_of
from middleware.model.values.attributes import (
    as_given,
    attributes,
    given,
    gives_state,
    has_dict_only,
    set_attributes,
    slots,
    unchanging,
)
from middleware.model.values.constants import Constants, reduction
from middleware.model.values.state import copy_state, restored_state, same_state
from middleware.model.words import shown

Result = Event | Iterable[Event] | None
Key = Callable[[Any], Any]


class Detector:
    """A fold over events in total order. Instance attributes are its state; it never learns how its input arrived.

    ``subscribes``, ``publishes``
        event types it reads and derives.
    ``key``
        None: one state for all. The name of an attribute of the events it reads, several names, or a function of an
        event: one state for each value, and a late event replays its own key only.
    ``clock``
        the event types that move its clock (default: all it reads, and the clock marks that nodes forward).
    ``backdate``
        how much earlier than its cause it may stamp a result: ``"200 ms"``, a timedelta, or ns.
    ``version``
        of its state: raise it with any change after which a stored state means something else, and write ``migrate``.
    ``unchanging``
        names of attributes that stay as they were made (a threshold, a model): not part of the state, shared by all keys. A
        setting of a scenario that is one of them may change from start to start, without another ``version``.
    ``identity``
        what makes a result the same one in the next replay: "cause", the event that leads to it; "time", its time stamp.
        Declare "time" where any of several events may trigger a result (the first after a window, say): a late event
        then changes nothing. With "time", no two events of one key may lead to results with the same time stamp.

    Its attributes, slots included, are its state; what its class holds (tables, defaults of arguments) is constant and must
    not change. No clocks, I/O, randomness or globals inside: ``slackline check module:Class`` looks for them.

    >>> class Near(Event):
    ...     player: int
    >>> class Contact(Event):
    ...     player: int
    ...     count: int
    >>> class Counter(Detector):
    ...     subscribes, publishes, key = (Near,), (Contact,), "player"
    ...     def __init__(self):
    ...         self.count = 0
    ...     def on_event(self, event):
    ...         self.count += 1
    ...         return Contact(event.player, self.count, ts=event.ts)
    """

    subscribes: tuple[EventType, ...] = ()
    publishes: tuple[EventType, ...] = ()
    key: ClassVar[str | tuple[str, ...] | Key | None] = None
    clock: tuple[EventType, ...] = ()
    backdate: Duration = 0
    identity: ClassVar[Literal["cause", "time"]] = "cause"
    version: ClassVar[int] = 1
    unchanging: ClassVar[tuple[str, ...]] = ()

    def on_event(self, event: Any, /) -> Result:
        """Take the next event in order; return None, an event, or an iterable of events."""
        if not takes_batches(type(self)):
            raise DetectorError(f"{type(self).__name__} has no on_event(self, event): it is the one method a detector needs")
        return [result for _, result in batch_results(self, Block(event.__class__, None, [event]))]

    def on_batch(self, events: Block) -> BatchResult:
        """Take the next events in order, at least one, as columns: written in place of ``on_event``, where numpy is faster.

        ``events`` are of the one type that the detector reads, and of all its keys: ``events.array("x")`` is a field as an
        array, and so are "ts", "id", "source" and "level"; ``events[0]`` is an event. Where one batch ends and the next begins
        is chance, so results and state must be the same for all cuts; and those of one key must not depend on other keys.

        Return None; or pairs (row, event) with the number, from 0, of the row that leads to the event; or, where one type is
        published, its fields, ``ts`` and ``row`` as columns: a dict of arrays, or a table of Arrow.
        """
        raise DetectorError(f"{type(self).__name__} has no on_batch(self, events)")

    def snapshot(self) -> Any:
        """The state as a value that later changes to the detector do not affect. Override both this and ``restore``.

        It is what ``pickle`` would save: all attributes, slots included, or the result of ``__getstate__`` if there is one.
        """
        kind: type = type(self)
        state = self.__dict__ if has_dict_only(kind) else attributes(self)
        if "on_event" in state:
            raise DetectorError(
                f"{kind.__name__} sets its own on_event, which is looked up once: have on_event call what changes"
            )
        try:
            return copy_state(state, self)
        except ENDING:
            raise
        except BaseException as error:
            raise _unsaved(self, state, error) from error

    def restore(self, state: Any) -> None:
        """Return to a state that ``snapshot`` returned; the same one may be restored again."""
        kind: type = type(self)
        if has_dict_only(kind):
            own = self.__dict__
            own.clear()
            own.update(restored_state(state, self))
        else:
            set_attributes(self, restored_state(state, self))

    def migrate(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Attributes for this version, made from those stored by an earlier ``version``; called when a node is started anew.

        A detector with its own ``snapshot`` gets and returns state in the form of that snapshot. Without this method,
        stored state of another version is refused.
        """
        raise DetectorError(
            f"{type(self).__name__} is of version {self.version}, its stored state of version {version}: give it "
            "migrate(self, state, version), or start the node with --rebuild to run it over the log again"
        )


def code_of(detector: Detector) -> tuple[int, str]:
    """The form of stored state: the version, and the fields of all events that are read and published."""
    types = sorted({*detector.subscribes, *detector.publishes}, key=type_name)
    return detector.version, "; ".join(map(fields_of, types))


@cache  # needed at every checkpoint, and it looks up annotations
def fields_of(event_type: EventType) -> str:
    """A type's own fields as text, all the way down: if the texts are equal, stored events can be read.

    >>> class Near(Event):
    ...     player: int
    ...     cells: list[tuple[int, float | None]]
    >>> fields_of(Near)
    'Near(player: int, cells: list(tuple(int, float | none)))'
    """
    own = slice(None, -len(Event.__struct_fields__))
    try:
        fields = msgspec.inspect.type_info(event_type).fields[own]  # type: ignore[attr-defined]
    except TypeError:  # something that has no form on the wire
        texts = [f"{field.name}: {field.type}" for field in msgspec.structs.fields(event_type)[own]]
    else:
        met: set[type] = {event_type}
        texts = [_field(field, met) for field in fields]
    return f"{type_name(event_type)}({', '.join(texts)})"


def _field(field: msgspec.inspect.Field, met: set[type]) -> str:
    known_as = "" if field.encode_name == field.name else f" as {field.encode_name}"
    return f"{field.name}{known_as}: {_kind(field.type, met)}"


def _name(kind: object) -> str:
    declared = getattr(kind, "cls", None)
    return declared.__name__ if declared is not None else type(kind).__name__.removesuffix("Type").lower()


def _in_union(kind: object) -> tuple[bool, str]:
    return isinstance(kind, msgspec.inspect.NoneType), _name(kind)


def _kind(kind: object, met: set[type]) -> str:
    """The type of a field as text, with all its parts. ``met``: the types with fields of their own described before."""
    if isinstance(kind, msgspec.inspect.Metadata):
        return _kind(kind.type, met)
    if isinstance(kind, msgspec.inspect.UnionType):
        return " | ".join(_kind(each, met) for each in sorted(kind.types, key=_in_union))  # typing may have them in any order
    if isinstance(kind, msgspec.inspect.EnumType):
        return f"{_name(kind)}({', '.join(f'{each.name}={each.value!r}' for each in kind.cls)})"
    if not isinstance(kind, msgspec.inspect.Type):
        return getattr(kind, "__qualname__", None) or repr(kind)
    parts = {name: getattr(kind, name) for name in kind.__struct_fields__}
    declared, name = parts.pop("cls", None), _name(kind)
    if declared in met:
        return name
    if declared is not None:
        met.add(declared)
    inner = [_field(field, met) for field in parts.pop("fields", ())]
    for label, part in parts.items():
        if isinstance(part, msgspec.inspect.Type):
            inner.append(_kind(part, met))
        elif isinstance(part, tuple):
            inner += [_kind(each, met) for each in part]
        elif part is not None and part is not False:
            inner.append(f"{label}={part!r}")
    return f"{name}({', '.join(inner)})" if inner else name


def migrated(detector: Detector, state: Any, version: int, changed: Iterable[str] = ()) -> Any:
    """A snapshot taken by another version, in the form of this one. ``changed``: the names of settings that are others now.

    Raises DetectorError.
    """
    is_own = type(detector).snapshot is not Detector.snapshot
    try:
        kept = detector.migrate(state if is_own else given(restored_state(state, detector)), version)
    except DetectorError:  # its message says what is wrong
        raise
    except ENDING:
        raise
    except BaseException as error:
        raise _misfit(detector, version, f"raised {error!r}") from error
    if is_own:
        try:
            fresh(detector).restore(kept)
        except ENDING:
            raise
        except BaseException as error:
            raise _misfit(detector, version, f"gave what restore cannot take: {error!r}") from error
        return kept
    kind: type = type(detector)
    if gives_state(kind):
        return copy_state(as_given(kind, kept), detector)
    if not isinstance(kept, dict) or not all(isinstance(name, str) for name in kept):
        raise _misfit(detector, version, f"gave {kept!r}, and not attributes by name")
    new = {name for name in attributes(detector) if name in slots(kind) or not hasattr(kind, name)}
    if missing := sorted(new - kept.keys()):
        raise _misfit(detector, version, f"gave no {', '.join(missing)}, which a new one has")
    _warn_of_settings(detector, kept, version, changed)
    return copy_state(kept, detector)


def is_unchanging(detector: Detector, setting: str) -> bool:
    """Whether a setting is kept in an attribute of its name, or of that name after an underscore, that is no state."""
    kind: type = type(detector)
    return bool({setting, f"_{setting}"}.intersection(unchanging(kind)))


def _warn_of_settings(detector: Detector, kept: dict[str, Any], version: int, changed: Iterable[str]) -> None:
    """Warn of attributes with the names of changed settings that do not have the values with which the detector was made."""
    kind: type = type(detector)
    own = vars(detector)
    for attribute in (each for name in sorted(changed) for each in (name, f"_{name}") if each in kept and each in own):
        if not same_state({attribute: kept[attribute]}, {attribute: own[attribute]}):
            advice = f"return self.{attribute}, or name it in unchanging, and the setting counts"
            if attribute in unchanging(kind):
                advice = f"the setting counts, as unchanging names it: leave {attribute} out"
            old, new = shown(kept[attribute], 60), shown(own[attribute], 60)
            warnings.warn(
                f"{detector_name(detector)}.migrate returns {attribute} = {old} for state of version {version}, but settings "
                f"say {new}: {advice}",
                stacklevel=2,
            )


def _misfit(detector: Detector, version: int, what: str) -> DetectorError:
    return DetectorError(
        f"{detector_name(detector)}.migrate {what}, for state of version {version} (it is of version {detector.version} now): "
        "mend it and start again; nothing that is stored has changed"
    )


def takes_batches(kind: type[Detector]) -> bool:
    """Whether detectors of a class take batches of columns."""
    return kind.on_batch is not Detector.on_batch


def batch_results(detector: Detector, events: Block) -> list[tuple[int, Event]]:
    """Give a detector the next events as one batch; returns its results in order of the rows that lead to them.

    Raises DetectorError for what is no result, and whatever the detector raises.
    """
    return rows_of(detector_name(detector), detector.publishes, len(events), detector.on_batch(events))


def detector_name(detector: Detector) -> str:
    """The name a detector publishes under: its class name, unless deployment gives it another."""
    return type(detector).__name__


def backdate_of(detector: Detector) -> int:
    """How much earlier (ns) than its cause a detector may stamp a result. Raises DetectorError if that is no duration."""
    try:
        return duration_of(detector.backdate, f"{detector_name(detector)}.backdate")
    except QuantityError as error:
        raise DetectorError(str(error)) from None


def key_function(detector: Detector) -> Key | None:
    """The function that gives an event's key for this detector, or None if it has no key."""
    key = type(detector).key
    if key is None:
        return None
    if isinstance(key, str):
        return attrgetter(key)
    if isinstance(key, tuple):
        return attrgetter(*key)
    return key


def leaves_state(kind: type[Detector]) -> bool:
    """Whether a detector class leaves snapshots to the middleware."""
    return kind.snapshot is Detector.snapshot and kind.restore is Detector.restore


def fresh(detector: Detector) -> Detector:
    """Another instance in the same state; keyed units make one for each key.

    It shares nothing with the first but what the detector's own ``snapshot`` omits, which counts as constant.
    """
    other = blank(detector)
    other.restore(detector.snapshot())
    return other


def blank(detector: Detector) -> Detector:
    """Another instance, without state yet: ``restore`` gives it one."""
    kind: type = type(detector)
    other = object.__new__(kind) if leaves_state(kind) else copy.copy(detector)
    if unchanging(kind):
        for name, value in _fixed(detector).items():
            object.__setattr__(other, name, value)
    return other


def constants(detector: Detector) -> Constants:
    """The content of a detector's class, and its unchanging attributes: these must not change while instances run."""
    return Constants(type(detector), Detector, _fixed(detector))


def _fixed(detector: Detector) -> dict[str, object]:
    kind: type = type(detector)
    return {name: getattr(detector, name) for name in unchanging(kind) if hasattr(detector, name)}


def check_state(detector: Detector, name: str) -> None:
    """Raise DetectorError if the state of a detector cannot be saved and made again, which running it requires."""
    kind = type(detector)
    try:
        if leaves_state(kind) and len(parts := reduction(detector)) > 3 and any(part is not None for part in parts[3:5]):
            raise DetectorError(f"{kind.__name__} is a collection itself, which is no attribute: keep one in an attribute")
        fresh(detector)
    except DetectorError as error:
        raise error if name == kind.__name__ else DetectorError(f"{name}: {error}") from error.__cause__
    except ENDING:
        raise
    except BaseException as error:
        raise DetectorError(f"the state of {name} cannot be saved and made again: {type(error).__name__}: {error}") from error
    if moving := constants(detector).changing():
        raise DetectorError(
            f"{name}: {', '.join(moving)} belongs to the class, and changes with use: all instances share it, and no snapshot "
            "holds it; make it in __init__ (self.name = ...), of what can be saved"
        )


def _unsaved(detector: Detector, state: dict[str, object], error: BaseException) -> DetectorError:
    """An error that names the attribute that cannot be copied."""
    name = type(detector).__name__
    for attribute, value in state.items():
        try:
            copy_state({attribute: value}, detector)
        except ENDING:
            raise
        except BaseException as own:
            return DetectorError(
                f"{name}.{attribute} cannot be saved: {type(value).__name__}: {own}. A detector goes back to earlier states, "
                "and each key has its own copy: keep what can be copied in its place (numbers, lists, an index), or leave it "
                "out with __getstate__ and make it again in __setstate__"
            )
    return DetectorError(f"the state of {name} cannot be saved: {error}")


def _key(name: str, detector: Detector) -> Any:
    if isinstance(type(detector).key, property) or "key" in getattr(detector, "__dict__", {}):
        raise DetectorError(f"{name}.key is read from the class, and is the same for all instances: set it in the class")
    return type(detector).key


def check_declaration(detector: Detector) -> None:
    """Raise DetectorError if a detector's declarations make no sense."""
    name = detector_name(detector)
    for attribute in ("subscribes", "publishes", "clock"):
        types = getattr(detector, attribute)
        if not isinstance(types, tuple) or not all(isinstance(t, type) and issubclass(t, Event) for t in types):
            raise DetectorError(f"{name}.{attribute} must be a tuple of event types, not {types!r}")
        for event_type in types:
            check_event_type(event_type)
    if not detector.subscribes:
        raise DetectorError(f"{name} subscribes to nothing: set subscribes = (SomeEvent,)")
    if stray := set(detector.clock) - set(detector.subscribes):
        raise DetectorError(f"{name}.clock names types it does not read: {', '.join(sorted(map(type_name, stray)))}")
    if not isinstance(detector.unchanging, tuple) or not all(isinstance(each, str) for each in detector.unchanging):
        raise DetectorError(f"{name}.unchanging must be a tuple of names of attributes, not {detector.unchanging!r}")
    if not 0 <= backdate_of(detector) < MAX_TS:
        raise DetectorError(f"{name}.backdate must be a duration >= 0, and less than 146 years, not {detector.backdate!r}")
    if detector.identity not in ("cause", "time"):
        raise DetectorError(f'{name}.identity must be "cause" or "time", not {detector.identity!r}')
    key = _key(name, detector)
    if takes_batches(type(detector)):
        _check_batches(name, type(detector), detector.subscribes)
    for attribute in (key,) if isinstance(key, str) else key if isinstance(key, tuple) else ():
        for event_type in detector.subscribes:
            if attribute not in event_type.__struct_fields__:
                raise DetectorError(f"{name}.key is {attribute!r}, which {type_name(event_type)} does not have")


def _check_batches(name: str, kind: type[Detector], subscribes: tuple[EventType, ...]) -> None:
    if kind.on_event is not Detector.on_event:
        raise DetectorError(f"{name} has both on_event and on_batch: keep one, so that there is one account of what it does")
    if len(subscribes) != 1:
        raise DetectorError(f"{name} has on_batch, and reads {len(subscribes)} types: columns are of one")
    if find_spec("numpy") is None:
        raise DetectorError(f"{name} has on_batch, which needs numpy: install Slackline with the extra tables")
    if callable(kind.key):
        raise DetectorError(f"{name} has on_batch, and a function as key: name the field, or fields, that make the key")
