"""The documentation as a site: every page is in it, no link is dead, and the reference has every public name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import slackline

from middleware.cli.main import commands

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, made anew; a warning (a page in no list, a dead link, a docstring that cannot be read) is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        f"{out}/.trees",
        "docs",
        str(out),
    ]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return out


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text()
    public = set(slackline.__all__) - {"__version__"}
    described = set(re.findall(r'id="slackline\.(\w+)"', page))
    listed = set(re.findall(r"<span class=\"pre\">([A-Z_]+)</span>", page)) & public  # the aggregates, in a sentence
    assert described | listed == public


def test_every_command_is_shown_with_its_help(site: Path) -> None:
    page = (site / "commands.html").read_text()
    for name in commands():
        assert f'id="slackline-{name}"' in page
        assert f"Usage: slackline {name} " in page


def test_the_readme_is_the_first_page_and_leads_to_every_guide(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert "A detector in twenty lines" in page
    for guide in (ROOT / "docs/guide").glob("*.md"):
        assert f'href="guide/{guide.stem}.html"' in page
