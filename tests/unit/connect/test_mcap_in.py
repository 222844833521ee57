"""MCAP as a recording: what robots wrote, and our own results again; log time and publish time."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from mcap.writer import Writer
from mcap_protobuf.writer import Writer as ProtobufWriter
from mcap_ros2.writer import Writer as Ros2Writer
from slackline import Detector, Event, run

from middleware.model.errors import TraceError
from middleware.model.event import EventTypes
from middleware.recordings.files.guess import guessed
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.files.mapping import mappings_of
from middleware.recordings.files.recording_reading import read_events
from middleware.recordings.schemas.types import event_type
from middleware.recordings.traces import read_trace
from middleware.runtime.sinks.sink import open_sink
from middleware.spark.prepare.prepare import prepare

START, STEP = 1_700_000_000_000_000_000, 100_000_000


class Pose(Event):
    x: float
    frame: str


class Battery(Event):
    volts: float | None


class Far(Event):
    x: float
    by: str


class Distances(Detector):
    subscribes, publishes, key = (Pose,), (Far,), "frame"

    def on_event(self, event):
        return Far(event.x, event.source, ts=event.ts) if event.x > 3 else None


class Again(Detector):
    subscribes, publishes = (Far,), (Battery,)

    def on_event(self, event):
        return Battery(event.x, ts=event.ts)


TIMES = {"ts": {"column": "publish_time", "unit": "ns"}, "arrival": {"column": "log_time", "unit": "ns"}}
POSES: dict[str, Any] = TIMES | {
    "type": "Pose",
    "topics": ["/tag/*/pose"],
    "source": {"column": "topic"},
    "fields": {"x": {"column": "position.x", "type": "float"}, "frame": {"column": "frame", "type": "str"}},
}
BATTERY: dict[str, Any] = TIMES | {
    "type": "Battery",
    "topics": ["/battery"],
    "source": {"value": "robot"},
    "fields": {"volts": {"column": "volts", "type": "float", "optional": True}},
}


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """Poses of two tags, of which the fourth was written down late, and the state of a battery; and a scan in another form."""
    file = tmp_path / "robot.mcap"
    with file.open("wb") as out:
        writer = Writer(out)
        writer.start()
        schema = writer.register_schema("any", "jsonschema", b'{"type": "object"}')
        poses = [writer.register_channel(f"/tag/{tag}/pose", "json", schema) for tag in (7, 8)]
        battery, scan = writer.register_channel("/battery", "json", schema), writer.register_channel("/scan", "cdr", 0)
        for step in range(10):
            at = START + step * STEP
            pose = json.dumps({"position": {"x": step * 1.5, "y": 1}, "frame": "map"}).encode()
            writer.add_message(poses[step % 2], at + (5 * STEP + 1 if step == 3 else 0), pose, at)
            writer.add_message(battery, at, b'{"volts": 12.5}' if step % 2 else b"{}", at)
        writer.add_message(scan, START, b"\0\1", START)
        writer.finish()  # type: ignore[no-untyped-call]
    return file


def test_topics_are_types_and_log_times_are_arrivals(robot: Path, tmp_path: Path) -> None:
    types, recording = EventTypes([Pose, Battery]), mapped_recording([robot], mappings_of({"events": [POSES, BATTERY]}))
    events, _ = read_events(recording, types)
    poses = [event for event in events if isinstance(event, Pose)]
    assert [(round(pose.x / 1.5), (pose.ts - START) // STEP) for pose in poses] == [
        (step, step) for step in (0, 1, 2, 4, 5, 6, 7, 8, 3, 9)
    ]
    assert {pose.source for pose in poses} == {"/tag/7/pose", "/tag/8/pose"}
    assert [event.volts for event in events if isinstance(event, Battery)] == [None, 12.5] * 5
    prepare(recording, tmp_path / "trace", in_process=True)
    assert sorted((event for some in read_trace(tmp_path / "trace", types) for event in some), key=repr) == sorted(
        events, key=repr
    )


def test_results_of_ours_are_events_again(robot: Path, tmp_path: Path) -> None:
    far = run(robot, [Distances()], mapping=POSES).finals["Distances"]
    assert [event.x for event in far] == [4.5, 6.0, 7.5, 9.0, 10.5, 12.0, 13.5]
    with closing(open_sink(str(tmp_path / "far.mcap"))) as sink:
        sink.take(far)
    assert run(tmp_path / "far.mcap", [Again()]).finals == run([*far], [Again()]).finals
    found = guessed(tmp_path / "far.mcap")
    assert list(found.fields) == ["x", "by"]
    assert (found.ts.column, found.id) == ("ts", "id")


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (["/nope"], "has no topic /nope; it has /tag/7/pose, /tag/8/pose, /battery, /scan"),
        ([], "has several topics .*: say in a mapping which one"),
        (["/scan"], "/scan is encoded as cdr with no schema: json, protobuf, and cdr with a schema of ros2msg can be read"),
    ],
)
def test_topics_that_cannot_be_read_are_reported(robot: Path, topics: list[str], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        run(robot, [Distances()], mapping=POSES | {"topics": topics})


STAMPED = """
builtin_interfaces/Time at
geometry_msgs/Point position
string frame
float64[] more
================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
================
MSG: geometry_msgs/Point
float64 x
float64 y
"""


def ros_file(file: Path, values: list[float]) -> None:
    with file.open("wb") as out:
        writer = Ros2Writer(out)
        schema = writer.register_msgdef("uwb_msgs/msg/Stamped", STAMPED)
        for step, x in enumerate(values):
            at = START + step * STEP
            message = {"at": {"sec": 1, "nanosec": 2}, "position": {"x": x, "y": 0.5}, "frame": "map", "more": [1.0, x]}
            writer.write_message("/tag/7/pose", schema, message, at, at)
        writer.finish()


def protobuf_file(file: Path, values: list[float]) -> None:
    point = DescriptorProto(name="Point", field=[FieldDescriptorProto(name="x", number=1, type=1, label=1)])
    frame = FieldDescriptorProto(name="frame", number=2, type=9, label=1)
    place = FieldDescriptorProto(name="position", number=1, type=11, label=1, type_name=".uwb.Point")
    count = FieldDescriptorProto(name="n", number=3, type=3, label=1)
    stamped = DescriptorProto(name="Stamped", field=[place, frame, count])
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto(name="uwb.proto", package="uwb", syntax="proto3", message_type=[point, stamped]))
    make = GetMessageClass(pool.FindMessageTypeByName("uwb.Stamped"))
    with file.open("wb") as out:
        writer = ProtobufWriter(out)
        for step, x in enumerate(values):
            at = START + step * STEP
            writer.write_message("/tag/7/pose", make(position={"x": x}, frame="map", n=2**53 + step), at, at)
        writer.finish()


@pytest.mark.parametrize("write", [ros_file, protobuf_file])
def test_other_encodings(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "robot.mcap", [0.0, 1.5, 7.25])
    events, _ = read_events(mapped_recording([tmp_path / "robot.mcap"], mappings_of(POSES)), EventTypes([Pose]))
    assert [(event.x, event.frame, event.ts) for event in events if isinstance(event, Pose)] == [
        (x, "map", START + step * STEP) for step, x in enumerate([0.0, 1.5, 7.25])
    ]
    found = guessed(tmp_path / "robot.mcap")
    kinds = {name: field.type for name, field in found.fields.items()}
    assert kinds.items() >= {"position_x": "float", "frame": "str", **({"n": "int"} if write is protobuf_file else {})}.items()


def test_no_number_is_a_gap(tmp_path: Path) -> None:
    ros_file(tmp_path / "robot.mcap", [1.5, math.nan])
    fields = {"volts": {"column": "position.x", "type": "float", "optional": True}}
    mapping = BATTERY | {"topics": ["/tag/7/pose"], "fields": fields}
    events, _ = read_events(mapped_recording([tmp_path / "robot.mcap"], mappings_of(mapping)), EventTypes([Battery]))
    assert [event.volts for event in events if isinstance(event, Battery)] == [1.5, None]


def test_a_message_that_is_none_costs_no_other(tmp_path: Path) -> None:
    file = tmp_path / "robot.mcap"
    with file.open("wb") as out:
        writer = Writer(out)
        writer.start()
        channel = writer.register_channel("/battery", "json", writer.register_schema("any", "jsonschema", b"{}"))
        for step in range(5):
            writer.add_message(channel, START + step, b'{"volts": ' if step == 2 else b'{"volts": 1}', START + step)
        writer.finish()  # type: ignore[no-untyped-call]
    for mapping in (mappings_of(BATTERY), [guessed(file)]):
        types = EventTypes([event_type(mapping[0].type, {"volts": float | None})])
        events, read = read_events(mapped_recording([file], mapping), types)
        assert [event.ts - START for event in events] == [0, 1, 3, 4] and read.bad.count == 1


@pytest.mark.parametrize("encoding", ["cdr", "protobuf"])
def test_a_damaged_message_or_schema_is_reported(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "robot.mcap"
    kind = {"cdr": "ros2msg"}.get(encoding, encoding)
    whole, damaged = ("uwb/msg/X", b"string frame", "/tag/7/pose at "), ("X", b"\xff\x01(", "the schema of /tag/7/pose")
    for name, printed, message in (whole, damaged):
        with file.open("wb") as out:
            writer = Writer(out)
            writer.start()
            if encoding == "protobuf" and printed == b"string frame":
                text = FieldDescriptorProto(name="frame", number=1, type=9, label=1)
                made = FileDescriptorProto(name="x", syntax="proto3", message_type=[DescriptorProto(name="X", field=[text])])
                name, printed = "X", FileDescriptorSet(file=[made]).SerializeToString()
            channel = writer.register_channel("/tag/7/pose", encoding, writer.register_schema(name, kind, printed))
            writer.add_message(channel, START, b"\x0a\x7f\x00\x00\xff", START)
            writer.finish()  # type: ignore[no-untyped-call]
        with pytest.raises(TraceError, match=message):
            run(file, [Distances()], mapping=POSES)


def test_a_file_that_is_cut_off_or_something_else_is_reported(robot: Path) -> None:
    whole = robot.read_bytes()
    for content in (whole[:900], b"no MCAP at all, but long enough to be one"):
        robot.write_bytes(content)
        with pytest.raises(TraceError, match="cannot be read as MCAP"):
            run(robot, [Distances()], mapping=POSES)


def test_what_is_hardly_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_bytes(b"\x89MCAP")
    with pytest.raises(TraceError, match="cannot be read as MCAP"):
        guessed(tmp_path / "a.mcap")
