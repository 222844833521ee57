"""The suite passes operators that keep the contract, and finds each way to break it."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.testing.operator_checks import check_operator

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

import sample_operators as samples  # noqa: E402


def test_a_good_operator_passes():
    assert {verdict.state for verdict in check_operator(samples.Good())} == {"pass"}


@pytest.mark.parametrize(
    ("kind", "check", "problem"),
    [
        (samples.DeafOperation, "any history", "not in the results"),
        (samples.CountingOperation, "any history", ""),
        (samples.UnstampedOperation, "takes its input", "not stamped"),
        (samples.ForgetfulOperation, "snapshot: round trip", ""),
        (samples.RaisingOperation, "takes its input", "ZeroDivisionError"),
    ],
)
def test_each_way_to_break_the_contract_is_found(kind, check, problem):
    verdicts = check_operator(samples.broken(kind))
    (failed,) = (verdict for verdict in verdicts if verdict.state == "fail")
    assert failed.check == check
    assert problem in failed.problem
    assert failed.example
    assert failed.advice


def test_an_operator_that_is_left_cold_is_pointed_out():
    assert check_operator(samples.Good(10**9))[-1].state == "warn"


def test_the_command_takes_operators_and_functions_that_make_them():
    runner, app = CliRunner(), application()
    result = runner.invoke(app, ["check", "sample_operators:Good", "--set", "limit=2", "--count", "5", "--json", "-"])
    assert result.exit_code == 0, result.output
    assert {verdict["state"] for verdict in json.loads(result.stdout)} == {"pass"}
    result = runner.invoke(app, ["check", "sample_operators:HERE"])
    assert result.exit_code == 2
    assert "has no HERE; its detectors: Good" in result.output
