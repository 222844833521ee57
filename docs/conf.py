"""The documentation as a site, by Sphinx: `make site`, then open out/site/index.html."""

from docutils import nodes
from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.testing import CliRunner

from middleware import __version__
from middleware.cli.main import application, commands

project = "Slackline"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["images"]
html_theme = "furo"
html_title = f"Slackline {release}"
myst_heading_anchors = 3
default_role = "literal"  # docstrings name code in single backquotes
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}


class CommandHelp(SphinxDirective):
    """The help of every command, a section each, as a terminal shows it."""

    def run(self) -> list[Node]:
        cli, runner = application(), CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})
        sections: list[Node] = []
        for name in sorted(commands()):
            text = runner.invoke(cli, [name, "--help"], prog_name="slackline").output.strip()
            title = f"slackline {name}"
            shown = nodes.literal_block(text, text, language="text")
            section = nodes.section("", nodes.title(title, title), shown, ids=[nodes.make_id(title)], names=[title])
            self.state.document.note_implicit_target(section)
            sections.append(section)
        return sections


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""
    app.add_directive("command-help", CommandHelp)
