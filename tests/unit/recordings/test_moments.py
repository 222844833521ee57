"""Times in a wrong unit are found on the first rows of a recording, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.errors import TraceError
from middleware.recordings.files.moments import check_times
from middleware.recordings.readers import open_recording

NOW = 1_700_000_000
"""In 2023, seconds."""
LENGTHS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("true", LENGTHS)
@pytest.mark.parametrize("message", LENGTHS)
def test_every_wrong_unit_is_reported_with_the_likely_one(message: str, true: str) -> None:
    values = [str(NOW * LENGTHS[true] + number) for number in range(5)]
    if message == true:
        assert check_times("column time", message, values) is None
    elif LENGTHS[message] > LENGTHS[true]:
        warning = check_times("column time", message, values)
        assert warning is not None
        assert f'2023-11-14 in {true}; is unit = "{true}" meant?' in warning
        assert "is 1970-01-" in warning
    else:
        with pytest.raises(TraceError, match=f'the year [0-9,]+ in {message}, and 2023-11-14 in {true}: write unit = "{true}"'):
            check_times("column time", message, values)


@pytest.mark.parametrize(
    ("unit", "value"), [("s", 0), ("s", 12.5), ("ms", 90_000), ("us", 1), ("ns", 47), ("s", -3), ("ps", NOW)]
)
def test_a_recording_that_counts_from_its_own_start_gives_no_warning(unit: str, value: float) -> None:
    assert check_times("column time", unit, [value, "x", None]) is None


def mapping(folder: Path, unit: str, more: str = "") -> Path:
    file = folder / "map.toml"
    file.write_text(
        f'type = "Reading"\nts = {{ column = "time", unit = "{unit}" }}\nsource = {{ column = "who" }}\n{more}[fields]\n'
    )
    return file


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_mapping_is_held_against_its_file(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind == "csv":
        file.write_text(f"time,who\n{NOW},a\n{NOW + 1}.5,b\n")
    else:
        pq.write_table(pa.table({"time": [NOW, NOW + 1], "who": ["a", "b"]}), file)
    assert open_recording([file], mapping=mapping(tmp_path, "s")).warnings == ()
    (warning,) = open_recording([file], mapping=mapping(tmp_path, "ms")).warnings
    assert warning.startswith("the mapping map.toml: column time: 1,700,000,00")
    arrival = 'arrival = { column = "time", unit = "ms" }\n'
    assert len(open_recording([file], mapping=mapping(tmp_path, "s", arrival)).warnings) == 1
    assert open_recording([file], mapping=mapping(tmp_path, "s", arrival + "align = true\n")).warnings == ()
