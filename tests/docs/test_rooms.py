"""A folder of the product has at most 16 modules: beyond that, sub-folders name its ideas."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 16


def test_no_folder_has_too_many_modules() -> None:
    folders = {file.parent for top in ("middleware", "detectors") for file in (ROOT / top).rglob("*.py")}
    counts = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > MOST} == {}, "give sub-folders the names of ideas"
