"""One word for one thing: what decision 038 renamed is not called by its former name anywhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WORDS = {
    "affliction": "fault",
    "Advance": "Watermark",
    "Books": "WatermarkTracker",
    "Doings": "DurableEffects",
    "doings": "effects",
    "Gate": "Admission",
    "heard_at": "received_at",
    "Horizon": "Lateness",
    "horizon": "lateness, in prose allowed lateness",
    "Journal": "Log",
    "journal": "log",
    "Keeper": "DurableRunner",
    "keeper": "runner",
    "LastingBroker": "DurableBroker",
    "let_in": "admit",
    r"Promises(?=[(,:\]])": "CombinedWatermarks",
    r"(barrier|batch|change|changes|reader|subscription|unit)\.progress": "watermark, watermarks",
    "promised? progress": "promise a watermark",
    "is_resting": "is_idle",
    "resting": "idle",
    "rival": "baseline",
    "stand_in|stood_in|StoodIn": "idle_promise",
}

_SOCCER = "players rest, guard goals and have rivals"
EXCEPT = {
    r"CHANGELOG\.md|docs/decisions/03[68]-.*": (".*", "tell what was called how"),
    r"tests/docs/test_words\.py": (".*", "this list"),
    r"middleware/durability/(durable_core|recovery)\.py": ("journal", "a name in checkpoints, which stays"),
    r"middleware/runtime/storage/(store|trust)\.py|tests/unit/runtime/test_(store|trust)\.py": ("journal", "SQLite's own"),
    r"(detectors|scenarios)/soccer/.*|tests/unit/soccer/.*": ("keeper|resting|rival", _SOCCER),
    r"(detectors|scenarios|docs)/.*": ("resting|rival", "plain English"),
    r"scenarios/bookstore/.*|tests/unit/cli/test_summary\.py": ("Gate", "an event type, and an example's"),
    r"middleware/testing/simulation/.*": ("rival", "two events that claim one identity"),
}
"""By path: words that may stand there, and why."""


def files() -> list[Path]:
    tops = ("middleware", "detectors", "scenarios", "tests", "docs", "tools")
    found = [
        path for top in tops for path in (ROOT / top).rglob("*") if path.suffix in {".py", ".pyi", ".rs", ".md", ".toml", ".sh"}
    ]
    return [*(path for path in found if "target" not in path.parts), ROOT / "README.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("word", WORDS)
def test_a_former_word_is_not_used_any_more(word: str) -> None:
    pattern = re.compile(rf"(?<![\w-])_?(?:{word})s?(?!\w)")
    found = []
    for path in files():
        where = str(path.relative_to(ROOT))
        if not any(re.fullmatch(paths, where) and re.fullmatch(words, word) for paths, (words, _) in EXCEPT.items()):
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            found += [f"{where}:{number}" for number, line in lines if pattern.search(line)]
    assert not found, f"{word} is called {WORDS[word]} now (decision 038): {', '.join(found[:20])}"


def test_no_former_word_names_a_file() -> None:
    names = re.compile(r"(advance|books|frozen|gate|horizon|journal|keeper|lasting|progress|rivals?|found_by|hunt_units)(_.*)?")
    assert [str(path) for path in files() if names.fullmatch(path.stem.removeprefix("test_"))] == []
