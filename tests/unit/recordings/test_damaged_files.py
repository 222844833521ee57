"""Files of columns whose bytes are damaged are read or refused: they never end the process, nor raise an error of a library."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.errors import TraceError
from middleware.recordings.files.formats import batches, head

CASES = 120
TABLE = pa.table(
    {
        "ts": pa.array(range(90)),
        "text": pa.array([f"text {number}" * (number % 4) for number in range(90)]),
        "place": pa.array([f"place {number % 7}" for number in range(90)]).dictionary_encode(),
        "path": pa.array([[number] * (number % 3) for number in range(90)]),
        "is_open": pa.array([number % 2 == 0 if number % 5 else None for number in range(90)]),
    }
)


def write(file: Path, kind: str) -> None:
    if kind == "parquet":
        pq.write_table(TABLE, file)
        return
    with (pa.ipc.new_file if kind == "arrow file" else pa.ipc.new_stream)(str(file), TABLE.schema) as writer:
        writer.write_table(TABLE, 30)


def check(folder: Path, kind: str) -> None:
    """Read damaged copies one after the other, in a process of their own: one that crashes is seen by its end.

    Raises what the reader raises, other than a TraceError that names the file.
    """
    file = folder / ("t.parquet" if kind == "parquet" else "t.arrow")
    write(file, kind)
    whole, rng, refused = file.read_bytes(), random.Random(kind), 0
    for case in range(CASES):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if case % 6 == 0:
            del damaged[rng.randrange(len(damaged)) :]
        file.write_bytes(damaged)
        try:
            head(file)
            for batch in batches(file):
                batch.to_pylist()
        except TraceError as error:
            if file.name not in str(error):
                raise
            refused += 1
    assert refused > CASES // 10


@pytest.mark.parametrize("kind", ["arrow file", "arrow stream", "parquet"])
def test_a_damaged_file_is_reported(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path), kind], capture_output=True, check=False, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("kind", ["arrow file", "arrow stream", "parquet"])
def test_a_text_that_is_none_is_reported_before_it_is_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / ("t.parquet" if kind == "parquet" else "t.arrow")
    texts = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"ab\xff\xfe"))
    table = pa.table({"text": texts})
    if kind == "parquet":
        pq.write_table(table, file)
    else:
        with (pa.ipc.new_file if kind == "arrow file" else pa.ipc.new_stream)(str(file), table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(TraceError, match="cannot be read as"):
        next(batches(file))


if __name__ == "__main__":
    check(Path(sys.argv[1]), sys.argv[2])
