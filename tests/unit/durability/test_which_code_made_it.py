"""A final result that former code made stays as it was delivered, and why says which code that was."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from lives import Life
from test_upgrade import TYPES, Sum, Sums, SumsInCents, Tick

from middleware.model.code_identity import code_identity
from middleware.model.detector import Detector
from middleware.model.event import Event
from middleware.provenance.known_past import Past
from middleware.provenance.why import Why, explain
from middleware.runtime.storage.past import LoggedPast


class Doubled(SumsInCents):
    """The next version comes to other sums."""

    version: ClassVar[int] = 3

    def on_event(self, event: Tick) -> Sum:
        self.cents += 200 * event.price
        return Sum(self.cents // 100, ts=event.ts)


def life(folder: Path, detector: Detector, rebuild: bool = False) -> Life:
    return Life(folder, TYPES, {"Sums": detector}, wants=["Sum"], raw=["Tick"], rebuild=rebuild)


def ticks(*times: int) -> list[Event]:
    return [Tick(1, ts=ts, id=ts, source="market") for ts in times]


def answers(folder: Path, detector: Detector) -> list[Why]:
    """Why each result came, in total order, as asked with the code of this detector."""
    past = Past(Sum, {"Sums": detector})
    past.code = {"Sums": code_identity(detector)}
    past.take(LoggedPast(folder).steps(TYPES, {"Sum", "Tick"}))
    return [explain(event, past) for event in sorted(past.results(), key=lambda event: event.ts)]


def test_a_final_of_before_a_rebuild_names_the_code_that_made_it_and_what_the_present_code_gives(tmp_path: Path) -> None:
    first = life(tmp_path, Sums())
    first.feed(*ticks(*range(1, 11)))
    final = first.hierarchy.units[0].final  # type: ignore[union-attr]
    first.kill()
    assert all(each.stands and not each.made_by for each in answers(tmp_path, Sums()))
    second = life(tmp_path, Doubled(), rebuild=True)
    second.feed(*ticks(11, 12))
    second.kill()
    found = answers(tmp_path, Doubled())
    assert [each.event.ts for each in found] == list(range(1, 13))
    for each in found:
        was_delivered = each.event.ts <= final
        assert bool(each.made_by) == was_delivered != each.stands, each.event
        if was_delivered:
            assert isinstance(each.instead, Sum) and isinstance(each.event, Sum)
            assert each.instead.total == 2 * each.event.total
            text = str(each)
            assert "made by former code (Sums: version 1, code " in text and "now version 3, code " in text
            assert "the present code comes to another content" in text and "does not stand" not in text


def test_the_log_names_the_code_once_for_as_long_as_it_runs(tmp_path: Path) -> None:
    for number, detector in enumerate((Sums(), Sums(), Doubled(), Doubled())):
        there = life(tmp_path, detector, rebuild=number == 2)
        there.feed(*ticks(number + 1))
        there.kill()
    codes = [step.code["Sums"] for step in LoggedPast(tmp_path).steps(TYPES, {"Tick"})]
    assert codes == [code_identity(Sums())] * 2 + [code_identity(Doubled())] * 2


def test_code_is_known_by_version_settings_and_what_its_class_holds() -> None:
    class Sums2(Sums):
        limit = 3

    class Sums3(Sums):
        limit = 4

    texts = {code_identity(Sums()), code_identity(Sums(), {"limit": "90"}), code_identity(Sums2()), code_identity(Sums3())}
    assert len(texts) == 4 and code_identity(Sums()) == code_identity(Sums())
    assert code_identity(Sums(), {"limit": "90"}).startswith("version 1, limit=90, code ")
