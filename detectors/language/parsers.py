"""Parsers whose tables are kept, as Python keeps its bytecode: those of CQL take a second to compute, and 60 ms to read."""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path

import lark
from lark import Lark


def parser_of(grammar: str, home: str, start: str = "start") -> Lark:
    """The parser of a grammar (LALR).

    ``home``: the file of the module that it belongs to. Its tables are kept beside that module's bytecode; where nothing can be
    written, or Python writes no bytecode, they are computed anew. O(tables) if they are there.
    """
    kept = _place(grammar, home)
    try:
        with kept.open("rb") as file:
            return Lark.load(file)
    except (OSError, EOFError, pickle.UnpicklingError):  # not there, or a disk was full
        made = Lark(grammar, parser="lalr", start=start, maybe_placeholders=True)
    if not sys.dont_write_bytecode:
        with suppress(OSError):
            _keep(made, kept)
    return made


def _place(grammar: str, home: str) -> Path:
    """Where the tables are: other rules, or another version of lark, have another place."""
    digest = sha256(f"{lark.__version__}\n{grammar}".encode()).hexdigest()[:16]
    return Path(cache_from_source(home)).with_suffix(f".{digest}.lark")


def _keep(parser: Lark, place: Path) -> None:
    own = place.with_suffix(f".{os.getpid()}")  # nobody reads half of it
    with own.open("wb") as file:
        parser.save(file)
    own.replace(place)
