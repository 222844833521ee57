"""What ``make env`` runs while the core is still being compiled needs nothing of Slackline."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

TRAINING = Path(__file__).parents[2] / "tools" / "train_spark.py"


def test_spark_is_trained_without_the_core() -> None:
    """Else the archive of classes is never made, and each start of Spark takes twice as long: only a line of output says so."""
    imported = set[str]()
    for node in ast.walk(ast.parse(TRAINING.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported <= {"pyspark", *sys.stdlib_module_names}
