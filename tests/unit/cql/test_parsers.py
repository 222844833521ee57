"""Tables of parsers are kept beside bytecode, and are computed anew where they are damaged or cannot be kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lark import Lark

from detectors.language.parsers import parser_of

GRAMMAR = """
start: (WORD | NUMBER)+
WORD: /[a-z]+/
NUMBER: /[0-9]+/
%ignore " "
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return str(tmp_path / "parser.py")


def kept(home: str) -> list[Path]:
    return sorted((Path(home).parent / "__pycache__").iterdir())


def words(parser: Lark) -> list[str]:
    return [str(token) for token in parser.parse("a 12 b").children]


def test_tables_are_computed_once(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert words(parser_of(GRAMMAR, home)) == ["a", "12", "b"]
    assert [path.suffix for path in kept(home)] == [".lark"]
    monkeypatch.setattr(Lark, "__init__", None)  # whoever computes them calls it
    assert words(parser_of(GRAMMAR, home)) == ["a", "12", "b"]


def test_another_grammar_has_other_tables(home: str) -> None:
    parser_of(GRAMMAR, home)
    assert words(parser_of(GRAMMAR.replace("/[a-z]+/", '"a" | "b"'), home)) == ["a", "12", "b"]
    assert len(kept(home)) == 2


@pytest.mark.parametrize("left", [0, 1, 500, -1])
def test_damaged_tables_are_computed_anew(home: str, left: int) -> None:
    parser_of(GRAMMAR, home)
    (place,) = kept(home)
    whole = place.read_bytes()
    place.write_bytes(whole[:left])
    assert words(parser_of(GRAMMAR, home)) == ["a", "12", "b"]
    assert len(place.read_bytes()) == len(whole)
    assert kept(home) == [place]


def test_no_folder_or_no_bytecode_does_no_harm(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert words(parser_of(GRAMMAR, str(tmp_path / "nowhere" / "parser.py"))) == ["a", "12", "b"]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert words(parser_of(GRAMMAR, home)) == ["a", "12", "b"]
    assert kept(home) == []
