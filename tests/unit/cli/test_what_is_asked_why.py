"""Which result is meant by the words of ``slackline why``."""

from __future__ import annotations

import pytest
import typer

from middleware.cli.questions.why_command import ResultFilter, moment_of
from middleware.model.event import Event
from middleware.model.time import SECOND
from middleware.provenance.known_past import Past

DATED = 1_715_587_206 * SECOND


class Far(Event):
    x: float


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2024-05-13T08:00:06.7", DATED + 700_000_000),
        ("2024-05-13T10:00:06.499999999+02:00", DATED + 499_999_999),
        ("1969-12-31T23:59:59.5", -SECOND // 2),
        ("1715587206.000000001", DATED + 1),
        ("08:00:06.7", (8 * 3600 + 6) * SECOND + 700_000_000),
        ("7.5s", 15 * SECOND // 2),
    ],
)
def test_a_moment_is_what_was_written(text: str, ns: int) -> None:
    assert moment_of(text) == ns


@pytest.mark.parametrize("text", ["inf", "nan", "soon", ""])
def test_what_is_no_moment_is_reported(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time"):
        moment_of(text)


@pytest.mark.parametrize("words", [["x=5.1234567"], ["x=5.12346"], ["x=512.34567e-2"], ["before", "08:00:06.7"], []])
def test_a_result_is_found_by_its_fields(words: list[str]) -> None:
    asked, event = ResultFilter(Far, words), Far(5.1234567, ts=DATED, id=1, source="s")
    assert asked.fits(event, Past(Far, {})) and asked.needs(event.ts, 0)


def test_others_do_not_fit() -> None:
    event = Far(5.1234567, ts=DATED, id=1, source="s")
    for words in (["x=5.1234568"], ["x=five"], ["after", "2024-05-13T08:00:06.1"]):
        assert not ResultFilter(Far, words).fits(event, Past(Far, {}))
    asked = ResultFilter(Far, ["before", "2024-05-13T08:00:05"])
    assert asked.needs(event.ts, SECOND) and not asked.needs(event.ts + 1, SECOND)
