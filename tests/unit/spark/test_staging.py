"""Line numbers over chunks and files, durations, and the reasons that Spark's errors hide."""

import pytest

from middleware.model.errors import QuantityError
from middleware.model.quantities import format_duration, parse_duration
from middleware.recordings.files.recording import Recording
from middleware.recordings.files.tally import FIRST_BAD_LINES, BadLines, ChunkReport, FoundLines, bad_lines
from middleware.spark.session import literal_path, reason


def report(lines: int, bad: list[int]) -> ChunkReport:
    found = FoundLines()
    found.add([(line, "why") for line in bad])
    return ChunkReport({}, {}, lines, found, FoundLines())


def of_all(reports: list[ChunkReport], recording: Recording) -> BadLines:
    return bad_lines(reports, [each.bad for each in reports], recording)


def test_bad_lines_are_numbered_as_an_editor_does() -> None:
    recording = Recording("r", ["a", "b"], [0, 1, 2], iter, ["a", "a", "b"], header_lines=1)
    found = of_all([report(10, [0, 9]), report(5, [2]), report(3, [0])], recording)
    assert [(bad.file, bad.line) for bad in found.first] == [("a", 2), ("a", 11), ("a", 14), ("b", 2)]
    assert found.count == 4


def test_only_the_first_bad_lines_are_kept() -> None:
    recording = Recording("r", ["a"], [0, 1], iter, ["a", "a"])
    found = of_all([report(100, list(range(15))), report(100, list(range(15)))], recording)
    assert (found.count, len(found.first)) == (30, FIRST_BAD_LINES)
    assert found.first[15].line == 101


def test_durations() -> None:
    for text, number in (("5ms", 5_000_000), (" 1.5 s", 1_500_000_000), ("2min", 120 * 10**9), ("7ns", 7), ("250us", 250_000)):
        assert parse_duration(text) == number
        assert parse_duration(format_duration(number)) == number
    hour = 3_600 * 10**9
    for text, number in {"1h": hour, "2 days": 48 * hour, "1.5 Weeks": 252 * hour, "3 msecs": 3_000_000}.items():
        assert parse_duration(text) == number
    with pytest.raises(QuantityError, match=r"\(ns, us, ms, s, min, h, d, week\), such as 5ms; did you mean 3 hours\?"):
        parse_duration("3 huors")
    with pytest.raises(QuantityError, match="no duration"):
        parse_duration("5")


def test_reason_finds_what_a_worker_raised() -> None:
    text = """Job aborted due to stage failure: Task 0 failed:
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown: Traceback
  File "x.py", line 1, in y
    raise TraceError("a")
middleware.model.errors.TraceError: the disk is full: do this

\tat org.apache.spark.Foo"""
    assert reason(Exception(text)) == "the disk is full: do this"
    assert (
        reason(Exception(text.replace("middleware.model.errors.TraceError", "ZeroDivisionError")))
        == "ZeroDivisionError: the disk is full: do this"
    )
    assert reason(Exception("plain\nmore")) == "plain"
    of_spark = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Asked for too much\n\tat org.Foo"
    assert reason(Exception(of_spark)) == "Asked for too much"
    assert reason(KeyError()) == "KeyError"


def test_patterns_in_a_path_are_literal() -> None:
    from pathlib import Path

    assert literal_path(Path("/a[1]/b*")) == "file:///a\\[1\\]/b\\*"
