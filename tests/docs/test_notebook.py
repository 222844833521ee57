"""The guide for tables is run as a notebook: each block a cell, and results shown as a notebook shows them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "tables.md"


def test_the_guide_runs_as_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output.get("data", {}).get("text/html", "") for cell in notebook.cells for output in cell.outputs]
    assert any("119 events" in html and "Speeding" in html for html in shown)  # the page of a run
    assert any("<table" in html and "speed" in html for html in shown)  # and a frame
