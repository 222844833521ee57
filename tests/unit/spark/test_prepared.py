"""When the trace that was prepared before is still that of a scenario, and when it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from detectors.soccer.events import Position
from middleware.model.errors import TraceError
from middleware.recordings.files.recording import Recording
from middleware.recordings.prepare.delays import Delays, parse_delays
from middleware.recordings.traces import DESCRIPTION
from middleware.runtime.scenario import load_scenario
from middleware.spark.prepare import prepared
from middleware.spark.prepare.prepared import prepared_trace, trace_version
from tests.unit.recordings.test_traces import finish, write

NODES = """
name = "cellar"
detectors = ["detectors.soccer.ball_play.ball:BallHits"]
[recording]
files = ["cellar.csv"]
mapping = "cellar.toml"
[[nodes]]
name = "here"
detectors = ["*"]
"""
MAPPING = 'type = "soccer.Position"\nts = { column = "t", unit = "s" }\nsource = { column = "s" }\n[fields]\n' + "".join(
    f'{name} = {{ column = "t", type = "{"int" if name == "sensor" else "float"}" }}\n'
    for name in Position.__struct_fields__[:-4]
)


@pytest.fixture
def cellar(tmp_path: Path) -> Path:
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "cellar.toml").write_text(MAPPING)
    (tmp_path / "cellar.csv").write_text("t,s\n1,a\n")
    return tmp_path


def version(folder: Path, delays: str | None = None) -> int:
    return trace_version(load_scenario(folder), parse_delays(delays) if delays else None)


def rewritten(file: Path, old: str, new: str) -> None:
    """Change a file, and let nothing but its content show it."""
    at = file.stat().st_mtime_ns
    file.write_text(file.read_text().replace(old, new))
    os.utime(file, ns=(at, at))


def test_another_mapping_is_another_trace(cellar: Path) -> None:
    before = version(cellar)
    rewritten(cellar / "cellar.toml", '"s" }\nsource', '"ms" }\nsource')
    assert version(cellar) != before


def test_a_mapping_that_was_only_touched_is_the_same(cellar: Path) -> None:
    before = version(cellar)
    os.utime(cellar / "cellar.toml", ns=(1, 1))
    assert version(cellar) == before


def test_another_recording_or_other_delays_are_another_trace(cellar: Path) -> None:
    versions = [version(cellar), version(cellar, "constant(3ms)"), version(cellar, "constant(4ms)")]
    rewritten(cellar / "cellar.csv", "1,a", "1,a\n2,b")
    versions.append(version(cellar))
    assert len(set(versions)) == len(versions)


def test_how_it_is_fed_makes_no_other_trace(cellar: Path) -> None:
    before = version(cellar)
    rewritten(cellar / "nodes.toml", "[recording]", '[recording]\nspeed = "20x"')
    assert version(cellar) == before


def test_delays_sampled_from_a_trace_that_has_changed_are_another_trace(cellar: Path, tmp_path_factory) -> None:
    measured = tmp_path_factory.mktemp("measured")
    write(measured, "Ping", [1, 2, 3])
    finish(measured)
    model = f"empirical({measured})"
    before = version(cellar, model)
    description = measured / "trace.json"
    rewritten(description, '"events":3', '"events":4')
    assert version(cellar, model) != before


def test_a_generator_counts_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "cellar_that_is_made_up.py"
    code.write_text("def rows(seed, seconds):\n    return {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nodes.toml").write_text(
        NODES.replace('files = ["cellar.csv"]\nmapping = "cellar.toml"', 'generate = "cellar_that_is_made_up:rows"')
    )
    before = version(tmp_path)
    rewritten(code, "{}", "{ }")
    assert version(tmp_path) != before


@pytest.fixture
def preparations(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that Spark was to write a trace to, which it does not do here."""
    folders: list[Path] = []

    def prepare(
        recording: Recording, folder: Path, delays: Delays | None, *, force: bool, progress: prepared.Progress, **how: object
    ) -> None:
        assert force, "what a preparation that was cut off has left is no obstacle"
        progress("reading")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DESCRIPTION).touch()
        folders.append(folder)

    monkeypatch.setattr(prepared, "prepare", prepare)
    return folders


def test_a_trace_is_prepared_once_and_anew_when_the_mapping_has_changed(cellar: Path, preparations: list[Path]) -> None:
    out, steps = cellar / "out", list[str]()
    first = prepared_trace(load_scenario(cellar), out, steps.append)
    assert first.parent == out / "cellar"
    assert prepared_trace(load_scenario(cellar), out, steps.append) == first
    assert preparations == [first]
    rewritten(cellar / "cellar.toml", '"s" }\nsource', '"ms" }\nsource')
    changed = prepared_trace(load_scenario(cellar), out, steps.append)
    assert changed != first
    assert preparations == [first, changed]
    assert steps == ["reading"] * 2


def test_a_trace_that_was_cut_off_is_prepared_again(cellar: Path, preparations: list[Path]) -> None:
    folder = prepared_trace(load_scenario(cellar), cellar / "out")
    (folder / DESCRIPTION).unlink()
    assert prepared_trace(load_scenario(cellar), cellar / "out") == folder
    assert preparations == [folder, folder]


def test_a_mapping_that_is_not_there_is_reported(cellar: Path) -> None:
    (cellar / "cellar.toml").unlink()
    with pytest.raises(TraceError, match=r"cellar\.toml cannot be read"):
        version(cellar)
