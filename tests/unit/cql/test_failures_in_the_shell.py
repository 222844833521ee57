"""``slackline sql`` says on standard error what failed, and does not end as if all were well."""

import json

import pytest
import typer

from detectors.cql.query_operators.tuple_operator import MappingOperation
from middleware.cli.output import ExitCode
from middleware.cli.queries.sql_command import sql

LINES = "k,x\na,1.5\nb,1e200\nc,2.5\n"


def statements(folder):
    (folder / "tuples.csv").write_text(LINES)
    stream = f"CREATE STREAM S (k String, x Double NOT NULL) SOURCE FILE ('{folder / 'tuples.csv'}', ',');"
    return [f"{stream} SELECT k, CAST(x * x AS Int) AS n FROM S; SELECT k AS other FROM S"]


def shown(capsys):
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_nothing_fails(tmp_path, capsys):
    sql(None, statements(tmp_path), final=True)
    out, err = shown(capsys)
    assert "k=b  n=NULL" in out
    assert "3 final" in out
    assert err == ""


def failing(monkeypatch, fails):
    """The first query meets an error at the tuple b, in a way of its own."""
    apply = MappingOperation.apply

    def broken(self, delta, emitted, final):
        for event in delta.inserts:
            if event.k == "b" and self.name == "Query1":
                fails(self, event)
        return apply(self, delta, emitted, final)

    start = MappingOperation.__init__

    def named(self, plan, name, level):
        start(self, plan, name, level)
        self.name = name

    monkeypatch.setattr(MappingOperation, "__init__", named)
    monkeypatch.setattr(MappingOperation, "apply", broken)


def test_a_query_that_stops_is_told_and_the_others_run(monkeypatch, tmp_path, capsys):
    def fails(operation, event):
        raise ValueError("no such thing")

    failing(monkeypatch, fails)
    with pytest.raises(typer.Exit) as ended:
        sql(None, statements(tmp_path), final=True)
    out, err = shown(capsys)
    assert ended.value.exit_code == ExitCode.FAILED
    assert err.count("error:") == 1
    assert "Query1 has stopped: ValueError: no such thing" in err
    assert "Query1: 0 published" in out
    assert "other=c" in out


def test_an_event_that_fails_is_told(monkeypatch, tmp_path, capsys):
    failing(monkeypatch, lambda operation, event: operation.fail(event, "Traceback\nKeyError: 'b'"))
    with pytest.raises(typer.Exit) as ended:
        sql(None, statements(tmp_path), final=True)
    assert ended.value.exit_code == ExitCode.FAILED
    out, err = shown(capsys)
    assert "Query1: 1 event failed and skipped, at last by KeyError: 'b'" in err
    assert "3 final" in out


def test_a_file_of_results_has_those_of_all_queries(tmp_path):
    sql(None, statements(tmp_path), final=True, results=str(tmp_path / "all.jsonl"))
    found = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [(each["type"], each.get("k", each.get("other"))) for each in found] == [
        *(("Query1", key) for key in "abc"), *(("Query2", key) for key in "abc")
    ]  # fmt: skip
