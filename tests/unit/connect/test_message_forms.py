"""The fast way of reading messages means what the careful way means; in blocks, too."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from middleware.connect.messages.forms import form
from middleware.connect.messages.reading import READY, MessageReader
from middleware.connect.messages.source import Message, Messages
from middleware.link.codec import arrival_order_of
from middleware.model.event import Event, EventTypes

FIELDS: dict[str, Any] = {
    "whole": int,
    "number": float,
    "text": str,
    "flag": bool,
    "maybe": int | None,
    "either": int | str,
    "mixed": float | int | None,
    "many": list[float],
    "pair": tuple[int, str],
    "several": tuple[float, ...],
    "small": Annotated[int, msgspec.Meta(ge=0, lt=10)],
    "short": Annotated[str, msgspec.Meta(max_length=2)],
    "type": str,
    "change": int,
    "data": bytes,
    "table": dict[str, int],
}
DEFAULTS: dict[str, Any] = {"whole": 7, "maybe": None, "many": [], "text": "none"}


def made(names: list[str], defaults: set[str], careful: bool) -> type[Event]:
    """An event type with these fields; one with ``__post_init__`` has no fast way."""
    names = sorted(names, key=lambda name: name in defaults)
    body: dict[str, Any] = {"__annotations__": {name: FIELDS[name] for name in names}}
    body |= {name: DEFAULTS[name] for name in names if name in defaults}
    if careful:
        body["__post_init__"] = lambda self: None
    return type("Thing", (Event,), body)


texts = st.text("aé1.", max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | texts,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(texts, each, max_size=2),
)
fitting: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**63), 2**64 - 1),
    "number": st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text("aé1.", max_size=3),
    "flag": st.booleans(),
    "maybe": st.none() | st.integers(),
    "either": st.integers(-5, 5) | st.text("aé1.", max_size=2),
    "mixed": st.integers(-5, 5) | st.floats(0, 1),
    "many": st.lists(st.integers(-5, 5) | st.floats(0, 1), max_size=2),
    "pair": st.tuples(st.integers(-5, 5), st.text("aé1.", max_size=2)),
    "several": st.lists(st.floats(0, 1), max_size=2),
    "small": st.integers(0, 9) | st.floats(0, 9),
    "short": st.text("aé1.", max_size=3),
    "type": st.text("aé1.", max_size=2),
    "change": st.integers(-5, 5),
    "data": st.sampled_from(["", "YQ==", "a"]),
    "table": st.dictionaries(st.text("aé1.", max_size=1), st.integers(-5, 5), max_size=2),
    "ts": st.integers(-(2**62) - 1, 2**62 + 1) | st.floats(0, 2e9) | st.sampled_from(["2026-03-01T12:00:00.25Z", "noon", "5"]),
    "id": st.integers(-(2**63), 2**63 - 1),
    "source": st.text("aé1.", max_size=2),
}
OWN = ["ts", "id", "source", "level", "slackline:id", "slackline:level", "type_", "change_", "x.y"]


def put(content: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a value where a path leads to, as far as that can be; a place in a list is one of two."""
    head, *rest = path
    if not rest:
        content[head] = value
    elif rest[0].isdecimal():
        array = content.setdefault(head, [None, None])
        if isinstance(array, list) and len(rest) == 1 and len(array) == 2:
            array[int(rest[0])] = value
            content[head] = [value if each is None else each for each in array]
    elif isinstance(below := content.setdefault(head, {}), dict):
        put(below, rest, value)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], set[str], dict[str, str], list[bytes]]:
    names = draw(st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=4, unique=True))
    defaults = set(draw(st.lists(st.sampled_from(sorted(DEFAULTS)), unique=True))) & set(names)
    places = st.sampled_from(["a", "b", "text", "ts", "id", "x.y", "x.z.0", "x.z.1", "a.b", "b.0", "b.1", "0", "b.0.c"])
    paths = draw(st.dictionaries(st.sampled_from([*names, "ts", "id", "source"]), places, max_size=3))
    bodies = []
    for _ in range(draw(st.integers(1, 3))):
        content: dict[str, Any] = {}
        for name in [*names, *(name for name in ("ts", "id", "source") if name in paths)]:
            put(content, paths.get(name, f"{name}_" if name in ("type", "change") else name).split("."), draw(fitting[name]))
        for key in draw(st.lists(st.sampled_from([*content, *OWN]), max_size=2)):
            content[key] = draw(values)
        if draw(st.integers(0, 9)) == 0 and content:
            del content[next(iter(content))]
        bodies.append(draw(st.sampled_from([json.dumps(content).encode()] * 8 + [b"[1]", b"{", b'{"whole": 1, "whole": "1"}'])))
    return names, defaults, paths, bodies


@settings(max_examples=200)
@given(cases())
@example((["whole"], set(), {}, [b'{"whole": 1.0}', b'{"whole": 18446744073709551615}', b'{"whole": 18446744073709551616}']))
@example((["text"], set(), {}, [b'{"text": "a", "level": "x", "slackline:level": 3, "slackline:id": 9}']))
@example(
    (
        ["number"],
        set(),
        {"number": "x.z.0"},
        [b'{"x": {"z": [1]}}', b'{"x": {"z": []}}', b'{"x": {"z": {"0": 2}}}', b'{"x": 1}'],
    )
)
@example(
    (["text"], {"text"}, {"text": "x.z"}, [b'{"x": {"z": "t"}}', b'{"x": {}}', b"{}", b'{"x": null}', b'{"x": {"z": null}}'])
)
@example((["text"], {"text"}, {"id": "id"}, [b'{"id": 5, "text": "\\ud800"}', b'{"id": null}', b'{"id": 5, "source": "s"}']))
@example((["text"], {"text"}, {}, [b'{"ts": 4611686018428}', b'{"ts": -5e18}', b'{"ts": 4611686018427}', b'{"ts": true}']))
def test_both_ways_make_the_same_of_every_message(case: tuple[list[str], set[str], dict[str, str], list[bytes]]) -> None:
    names, defaults, paths, bodies = case
    messages = [Message("t", body, "src", number, 1_000 + number) for number, body in enumerate(bodies)]
    outcomes = []
    for careful in (False, True):
        kind = made(names, defaults, careful)
        reader = MessageReader({"t": "Thing"}, EventTypes([kind]), fields=paths, unit="ms")
        events, unread = reader.read(messages)
        blocks, others = reader.blocks(Messages.of(messages))
        assert others == unread
        sent = [event for frame in blocks for _, block in frame for event in msgspec.msgpack.decode(block, type=list[kind])]
        assert sent == events
        outcomes.append(([msgspec.structs.astuple(event) for event in events], unread))
    assert repr(outcomes[0]) == repr(outcomes[1])


def test_paths_into_objects_have_the_fast_way() -> None:
    class Place(Event):
        tag: str
        x: float
        y: float
        z: float = 0.0
        zone: str = ""
        trackable: str | None = None

    paths = {name: tuple(path.split(".")) for name, path in READY["omlox"].items()}
    read = form(Place, paths, lambda found, ats: [int(each) for each in found])
    assert read is not None
    position = b'"position": {"type": "Point", "coordinates": [3.5, 1]}'
    bodies = [
        b'{"provider_id": "a", "timestamp_generated": "5", ' + position + more + b"}"
        for more in (b"", b', "trackables": ["t", "u"], "source": "hall"')
    ]
    rows = read(Messages.of(Message("t", body, "s", number, 7) for number, body in enumerate(bodies)))
    assert rows == [("a", 3.5, 1.0, 0.0, "", None, 5, 0, "s", 0), ("a", 3.5, 1.0, 0.0, "hall", "t", 5, 1, "s", 0)]


class Step(Event):
    x: int


class Halt(Event):
    x: int


def test_frames_keep_the_order_across_types_and_are_small() -> None:
    reader = MessageReader({"step": "Step", "halt": "Halt"}, EventTypes([Step, Halt]))
    topics = ["halt", "step", "step"]
    numbers = range(10_000)
    messages = [Message(topics[n % 3], b'{"x": %d}' % n, f"p{n % 2}", n // 2, 5) for n in numbers]
    frames, _ = reader.blocks(Messages.of(messages))
    found = []
    for frame in frames:
        rows: dict[int, int] = {}
        for head, block in frame:
            places = arrival_order_of(head, head.inserts)
            assert places is not None
            rows |= dict(zip(places, (row[0] for row in msgspec.msgpack.decode(block)), strict=True))
            assert head.runs is None or sum(last - first + 1 for _, first, last in head.runs) == head.inserts
        found += [rows[place] for place in sorted(rows)]
    assert found == list(range(10_000))


def test_a_message_too_large_to_be_sent_is_named_and_the_others_come() -> None:
    class Note(Event):
        text: str

    reader = MessageReader({"t": "Note"}, EventTypes([Note]))
    bodies = [json.dumps({"text": "x" * size}).encode() for size in (5, 9_000_000, 600_000, 600_000)]
    frames, unread = reader.blocks(Messages.of([Message("t", body, "s", number, 5) for number, body in enumerate(bodies)]))
    assert [head.inserts for frame in frames for head, _ in frame] == [2, 1] or len(frames) > 1
    assert sum(head.inserts for frame in frames for head, _ in frame) == 3
    assert [each.message.id for each in unread] == [1]
    assert "at most" in unread[0].reason


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"x": ' + b"[" * 100_000])
def test_deep_nesting_is_no_event(body: bytes) -> None:
    reader = MessageReader({"t": "Step"}, EventTypes([Step]))
    events, unread = reader.read([Message("t", body, "s", 1, 5)])
    assert not events
    assert len(unread) == 1
