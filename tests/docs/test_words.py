"""One word for one thing: what decision 038 renamed is not called by its former name anywhere."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WORDS = {
    "affliction": "fault",
    "Advance": "Watermark",
    "at_places": "select",
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
    "PlainRunner|plain_runner": "LoglessRunner",
    "promised? progress": "promise a watermark",
    "is_resting": "is_idle",
    "resting": "idle",
    "rival": "baseline",
    r"spark[./](travel|places)": "spark.by_value, spark.spark_hash",
    "stand_in|stood_in|StoodIn": "idle_promise",
}

ROOMS = r"(middleware|tests|scenarios/soccer)/.*|detectors/(?!window/|cql/(query_operators|partitions)/).*"
"""Rooms that are rid of the words below, which are plain English elsewhere, or are still to be replaced there."""

ROOM_WORDS = {
    "told|untold|said|heard": "reported, announced, received; or the very message",
    "goes on|go on|going on|went on": "resumes, continues",
    "left out|leaves? out|turned away": "skipped, omitted, rejected",
    "give up|gives up|given up|gave up": "drop, expire",
    "excused?": "exempt",
    "doubts?": "warning; clock_in_doubt",
    "on behalf": "a promise for an idle source",
    "parted": "partitioned, split",
    "travels?|travelled": "by value, sent",
    "wanted": "expected, subscribed, or what it is",
    "standing": "provisional",
    "calm|prompt": "the condition",
}

_KEY = "a key or a column of what is stored, or a name of another room"
ROOM_EXCEPT = {
    r"middleware/recordings/traces\.py": ("doubts", _KEY),
    r"middleware/broker/watermarks/(generations|waiting)\.py": ("said|on_behalf", _KEY),
    r"middleware/runtime/storage/late_ledger\.py": ("told", _KEY),
    r"middleware/(runtime/clients/publisher|testing/(simulation/network|exploration/publishers))\.py": ("said", _KEY),
    r"middleware/(broker/broker|link/link|runtime/node|runtime/clients/subscriber)\.py": ("said", "Bye says goodbye"),
    r"middleware/cli/queries/.*": ("prompt", "where people type"),
    r"middleware/cli/main\.py": ("prompt", "where people type"),
    r"tests/unit/(broker/test_(broker|link)|observe/test_metric_families)\.py": ("said", "the message Bye says goodbye"),
    r"tests/system/test_(restart_in_order|status)\.py": ("said", "the message Bye says goodbye"),
    r"tests/system/test_view\.py": ("heard", "an element of the page"),
    r"(detectors/soccer/players/player|tests/unit/soccer/test_soccer)_running\.py": ("standing", "a pace of players"),
    r"(detectors/cql/planning|tests/property/cql)/(test_)?(fuzz|recognize)\.py": (
        "prompt|go on",
        "a module where people type; a message",
    ),
    r"tests/docs/test_words\.py": (".*", "this list"),
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


@pytest.mark.parametrize("word", ROOM_WORDS)
def test_a_room_is_rid_of_a_word(word: str) -> None:
    pattern = re.compile(rf"(?<![\w-])_?({word})(?!\w)")
    found = []
    for path in files():
        where = str(path.relative_to(ROOT))
        if re.fullmatch(ROOMS, where) and path.suffix == ".py":
            allowed = [words for paths, (words, _) in ROOM_EXCEPT.items() if re.fullmatch(paths, where)]
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                hits = {hit[1] for hit in pattern.finditer(line)}
                if any(not any(re.fullmatch(words, hit) for words in allowed) for hit in hits):
                    found.append(f"{where}:{number}")
    assert not found, f"{word}: say {ROOM_WORDS[word]} (house, section 5): {', '.join(found[:20])}"


NOUNLESS = re.compile(r"(?:^|(?<=[.?!]\s))(?:What|Whatever|The same|Of)\b[^.?!]*[.:!]")
"""The beginnings of sentences without a noun as their subject; a question may begin so."""

NOUNLESS_ROOMS = r"middleware/(broker|runtime/(node|transport))|detectors/(window|cql/(query_operators|partitions))"
"""Where such sentences still are."""


def test_a_docstring_says_what_it_speaks_of() -> None:
    found = []
    for path in files():
        where = str(path.relative_to(ROOT))
        if path.suffix != ".py" or where.startswith(("tests", "docs", "tools", "scenarios")) or re.match(NOUNLESS_ROOMS, where):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                paragraphs = re.split(r"\n\s*\n", node.value.value)
                if any(NOUNLESS.search(" ".join(paragraph.split())) for paragraph in paragraphs):
                    found.append(f"{where}:{node.lineno}")
    assert not found, f"give these sentences a noun as their subject (house, section 6): {', '.join(found[:20])}"


def test_no_former_word_names_a_file() -> None:
    names = re.compile(
        r"(advance|books|frozen|gate|horizon|journal|keeper|lasting|progress|rivals?|found_by|hunt_units|travel|going_on|said|face|doubts)(_.*)?"
    )
    assert [str(path) for path in files() if names.fullmatch(path.stem.removeprefix("test_"))] == []
