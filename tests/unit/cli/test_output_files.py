"""Files that cannot be written are reported before the work begins."""

from pathlib import Path

import pytest

from middleware.cli.output import console
from middleware.model.errors import SlacklineError


@pytest.mark.parametrize(
    ("file", "message"), [("gone/result.json", "there is no folder"), (".", "it is a folder"), ("", "it is a folder")]
)
def test_what_cannot_be_written_is_reported_before_the_work_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SlacklineError, match=message):
        console(file)
    console("new.json")
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"
    console("/dev/null")
