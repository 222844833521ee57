"""Numbers at their limits, names of any alphabet, and which streams a script shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from slackline import Event, run
from typer.testing import CliRunner

from detectors.cql import compile_cql
from detectors.language.query_errors import QueryError
from middleware.cli.main import application


class Point(Event):
    x: float
    größe: int = 0  # noqa: PLC2401


def value(expression: str, x: float = 0.0) -> object:
    script = compile_cql(f"SELECT {expression} AS v FROM Point INTO Found", [Point])
    (found,) = run([Point(x, ts=1, id=1)], script.operators).finals["Found"]
    return found.v  # type: ignore[attr-defined]


@pytest.mark.parametrize("window", ["SIZE 10 seconds", "LANDMARK EVERY 10 seconds"])
def test_sums_and_ranges_beyond_64_bits_are_null_in_any_window(window: str) -> None:
    script = compile_cql(
        "CREATE STREAM Tick (symbol String NOT NULL, quantity Int NOT NULL); "
        f"SELECT sum(quantity) AS total, range(quantity) AS spread FROM Tick [{window}] INTO Bar"
    )
    tick = script.types["Tick"]
    ticks = [tick("IBM", q, ts=n * 10**9, id=n, source="N") for n, q in enumerate([2**63 - 1] * 3 + [-5], 1)]
    assert [(bar.total, bar.spread) for bar in run(ticks, script.operators).finals["Bar"]] == [(None, None)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("x", "whole"), [(0.49999999999999994, 0.0), (4503599627370497.0, 4503599627370497.0), (2.5, 3.0), (-2.5, -3.0)]
)
def test_a_number_is_rounded_once(x: float, whole: float) -> None:
    assert value("round(x)", x) == whole


def test_the_least_whole_number_is_one_and_the_next_is_none() -> None:
    assert value("-9223372036854775808") == -(2**63)
    for text in ("9223372036854775808", "1 + 9223372036854775808", "-9223372036854775809"):
        with pytest.raises(QueryError, match="too large for a Long"):
            value(text)


def test_names_have_letters_of_any_alphabet() -> None:
    assert value("größe + 1") == 1
    assert value("`größe`") == 0


def test_all_streams_that_nothing_reads_are_shown(tmp_path: Path) -> None:
    (tmp_path / "cs.csv").write_text("ts,a\n1000,1\n2000,2\n")
    text = "SELECT a FROM cs INTO P; SELECT a + 1 AS a FROM cs INTO Q; SELECT a FROM P INTO R"
    out = tmp_path / "all.jsonl"
    result = CliRunner().invoke(
        application(), ["sql", "--from", str(tmp_path / "cs.csv"), "--results", str(out), "--final", "-e", text]
    )
    assert result.exit_code == 0, result.output
    assert [line.split('"')[3] for line in out.read_text().splitlines()] == ["Q", "Q", "R", "R"]
