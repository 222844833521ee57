"""Files that ``run`` takes: folders and patterns of them, several types of which some are read, and with broken rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slackline import Detector, Event, run
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.model.errors import TraceError
from middleware.recordings.files.text import existing


class Ping(Event):
    x: int
    y: float | None


class Seen(Event):
    x: int
    y: float | None


class Seeing(Detector):
    subscribes, publishes = (Ping,), (Seen,)

    def on_event(self, event: Ping) -> Seen:
        return Seen(event.x, event.y, ts=event.ts)


def written(folder: Path, name: str, *rows: str) -> Path:
    (folder / name).write_text("ts,x,y\n" + "".join(f"170000000{row}\n" for row in rows))
    return folder / name


def mapping(*types: str) -> dict[str, Any]:
    fields = {"x": {"column": "x", "type": "int"}, "y": {"column": "y", "type": "float", "optional": True}}
    common = {"ts": {"column": "ts", "unit": "s"}, "source": {"value": "one"}, "fields": fields}
    return {"events": [{"type": name, "files": [f"{name}*.csv"], **common} for name in types]}


@pytest.mark.parametrize(
    "paths", [lambda folder: folder, lambda folder: str(folder / "Ping*.csv"), lambda folder: [folder / "Ping*.csv", folder]]
)
def test_folders_and_patterns_stand_for_their_files(tmp_path: Path, paths: Callable[[Path], Any]) -> None:
    written(tmp_path, "Ping-2.csv", "2,2,0.5")
    written(tmp_path, "Ping-1.csv", "1,1,0.5")
    (tmp_path / ".hidden").write_text("no recording")
    assert [seen.x for seen in run(paths(tmp_path), [Seeing()], mapping=mapping("Ping")).of(Seen)] == [1, 2]


def test_several_files_of_one_type_need_no_mapping(tmp_path: Path) -> None:
    files = [written(tmp_path, f"part-{n}.csv", f"{n},{n},0.5") for n in (1, 2)]
    for paths in (files, tmp_path, tmp_path / "part-?.csv"):
        assert [seen.x for seen in run(paths, [Seeing()]).of(Seen)] == [1, 2]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    file = written(tmp_path, "a[1].csv", "1,1,0.5")
    written(tmp_path, "a1.csv", "2,2,0.5")
    assert existing([file]) == [file.resolve()]


def test_a_pattern_or_a_folder_without_files_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no file matches the pattern"):
        existing([tmp_path / "*.csv"])
    with pytest.raises(TraceError, match="there is no file in the folder"):
        existing([tmp_path])


def test_only_types_that_somebody_reads_are_read(tmp_path: Path) -> None:
    written(tmp_path, "Ping.csv", "1,1,0.5")
    (tmp_path / "Pong.csv").write_text("nothing,that,fits\n")
    assert [seen.x for seen in run(tmp_path, [Seeing()], mapping=mapping("Ping", "Pong")).of(Seen)] == [1]
    with pytest.raises(TraceError, match="the mapping gives Pong, which no detector reads"):
        run(tmp_path, [Seeing()], mapping=mapping("Pong"))


def test_broken_rows_are_an_error_or_skipped_with_a_warning(tmp_path: Path) -> None:
    file = written(tmp_path, "Ping.csv", "1,1,0.5", "2,x,0.5", "3,3,n/a")
    with pytest.raises(TraceError, match=r'1 of 3 rows do not fit: line 3: x .*skip them \(broken="skip"\)'):
        run(file, [Seeing()])
    with pytest.warns(UserWarning, match="do not fit|cannot be read") as warned:
        found = run(file, [Seeing()], broken="skip")
    assert [(seen.x, seen.y) for seen in found.of(Seen)] == [(1, 0.5), (3, None)]
    assert (found.broken, found.lost_cells) == (1, 1)
    texts = [str(each.message) for each in warned]
    assert "1 of 3 rows do not fit: line 3: x (column x)" in texts[0]
    assert "1 cell that cannot be read is None: line 4: y (column y)" in texts[1]
    assert "1 broken rows skipped; 1 cells lost" in repr(found)


@pytest.mark.parametrize("source", ["", "Ping*.csv"])
def test_a_query_takes_folders_and_patterns(tmp_path: Path, source: str) -> None:
    written(tmp_path, "Ping.csv", "1,1,0.5", "2,2,0.5")
    query = "EVENT Ping a WITHIN 1 seconds RETURN Copy(x = a.x)"
    done = CliRunner().invoke(application(), ["query", query, str(tmp_path / source)])
    assert done.exit_code == 0 and "2 final" in done.output, done.output
