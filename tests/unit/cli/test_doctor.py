"""The doctor: finds what is there, and what is not."""

import json
import os
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from middleware import installation
from middleware.cli.checks import doctor
from middleware.cli.main import application
from middleware.cli.output import ExitCode


def fake_java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "ok"),
        ('openjdk version "21" 2023-09-19', "ok"),
        ('java version "1.8.0_392"', "missing"),
        ('openjdk version "11.0.2" 2019-01-15', "missing"),
        ("no such thing", "missing"),
    ],
)
def test_java_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, state: str) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (finding,) = doctor.java(required=True)
    assert finding.state == state
    assert bool(finding.advice) == (state != "ok")


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [finding.state for finding in doctor.java(required=True)] == ["missing"]
    assert [finding.state for finding in doctor.java(required=False)] == ["optional"]


def test_packages_too_old_or_absent_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name == "msgspec":
            return "0.1"
        if name in {"pyzmq", "pyspark"}:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    core, *extras = doctor.packages()
    (spark,) = (each for each in extras if each.name == "packages [spark]")
    assert core.state == "missing"
    assert "msgspec 0.1" in core.detail
    assert "pyzmq" in core.detail
    assert "typer" not in core.detail
    assert spark.state == "optional"


def test_sockets_carry_encrypted_messages() -> None:
    assert [finding.state for finding in doctor.sockets()] == ["ok", "ok"]


def test_loopback_that_cannot_be_bound() -> None:
    (finding,) = doctor.sockets("192.0.2.1")  # reserved for documents (RFC 5737): never an address of ours
    assert finding.state == "missing"


def test_data_folder(tmp_path: Path) -> None:
    (finding,) = doctor.data_folder(tmp_path / "not" / "yet")
    assert finding.state in {"ok", "optional"}  # optional: there, but little room
    (tmp_path / "file").write_text("")
    (finding,) = doctor.data_folder(tmp_path / "file")
    assert finding.state == "missing"


def test_data_folder_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for all but root, in a folder that is not theirs
    (finding,) = doctor.data_folder(tmp_path / "out")
    assert finding.state == "missing"


def test_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLACKLINE_DATA", raising=False)
    assert [finding.state for finding in doctor.recordings()] == ["optional"]
    monkeypatch.setenv("SLACKLINE_DATA", str(tmp_path))
    assert [finding.state for finding in doctor.recordings()] == ["ok"]
    monkeypatch.setenv("SLACKLINE_DATA", str(tmp_path / "none"))
    assert [finding.state for finding in doctor.recordings()] == ["missing"]


@pytest.mark.parametrize(("state", "code"), [("ok", ExitCode.OK), ("optional", ExitCode.OK), ("missing", ExitCode.FAILED)])
def test_exit_code_and_json(monkeypatch: pytest.MonkeyPatch, state: doctor.State, code: ExitCode) -> None:
    found = [doctor.Finding("Java", state, "[none]", "install it")]
    monkeypatch.setattr(doctor, "examine", lambda start_spark, data, master: found)
    result = CliRunner().invoke(application(), ["doctor", "--json", "-"])
    assert result.exit_code == code
    assert json.loads(result.stdout) == [{"name": "Java", "state": state, "detail": "[none]", "advice": "install it"}]
    assert "[none]" in result.stderr


def test_this_environment_is_examined_in_full(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in doctor.examine(start_spark=False, data=tmp_path)}
    assert {"Python", "packages", "Java", "Spark", "loopback", "ZeroMQ", "machine", "data folder"} <= set(found)
    assert found["Python"].state == found["packages"].state == "ok"


@pytest.mark.parametrize(
    ("package", "extra"),
    [
        ("pyarrow", "tables"),
        ("pyspark", "spark"),
        ("opentelemetry", "otlp"),
        ("opentelemetry.exporter", "otlp"),
        ("open", None),
        ("no_such", None),
    ],
)
def test_a_package_that_is_missing_is_found_in_its_extra(package: str, extra: str | None) -> None:
    assert installation.extra_with(package) == extra


def test_advice_is_for_a_checkout_only_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "make env" in installation.install("spark")
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    assert installation.install("spark") == "pip install 'slackline-cep[spark]'"
    assert installation.install() == "pip install 'slackline-cep'"
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: ["nonesuch>=1", "none-such>=2; extra == 'spark'"])
    found = list(doctor.packages())
    assert not [finding for finding in found if "make env" in finding.advice]
