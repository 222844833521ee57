"""SOURCE FILE of several streams in the shell: a tuple comes once the other files have got as far in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from middleware.cli.queries.result_view import View
from middleware.cli.queries.shell_session import ShellSession


def created(folder: Path, name: str, rows: list[tuple[int, int]]) -> str:
    (folder / f"{name}.csv").write_text("".join(f"{at},{n}\n" for at, n in rows))
    return f"CREATE STREAM {name} (at Int NOT NULL, n Int NOT NULL) TIMESTAMP at SOURCE FILE ('{name}.csv', ',')"


@pytest.mark.parametrize("lengths", [(5_000, 200), (200, 5_000), (3_000, 3_000), (1, 0), (0, 0)])
def test_no_tuple_is_late_only_as_another_file_was_read_before(tmp_path: Path, lengths: tuple[int, int]) -> None:
    rows = {name: [(at * 10_000 // count, at) for at in range(count)] for name, count in zip("AB", lengths, strict=True)}
    session = ShellSession(folder=tmp_path)
    session.add("; ".join(created(tmp_path, name, own) for name, own in rows.items()))
    window = "[SIZE 1000 seconds]"
    (stream,) = session.add(f"SELECT A.n AS n FROM A {window} JOIN B {window} ON A.n = B.n INTO Both")
    view = View(stream)
    finals = [event for batch in session.run(stream) for event in view.take(batch)[1]]
    windows = [{n: -(-at // 1_000) for at, n in own} for own in rows.values()]
    same = [n for n, window in windows[0].items() if windows[1].get(n) == window]
    assert session.late is None and sorted(event.n for event in finals) == same


def test_tuples_of_files_come_in_order_of_time(tmp_path: Path) -> None:
    """As far as they are in order in their files."""
    session = ShellSession(folder=tmp_path)
    session.add(created(tmp_path, "A", [(n, n) for n in range(0, 9_000, 3)]))
    session.add(created(tmp_path, "B", [(n, n) for n in range(0, 9_000, 2)]))
    session.add("CREATE STREAM Both (n Int NOT NULL); INSERT INTO Both SELECT n FROM A; INSERT INTO Both SELECT n FROM B")
    stream = session.script.catalog.find("Both")
    assert stream is not None
    feed = session.feed(session.upstream(stream), stream)
    times = [event.ts for batch in feed for delta in batch.deltas.values() for event in delta.inserts]
    by_batch = [max(event.ts for delta in batch.deltas.values() for event in delta.inserts) for batch in feed if batch.deltas]
    assert len(times) == 7_500 and by_batch == sorted(by_batch)
