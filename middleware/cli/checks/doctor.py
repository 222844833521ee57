"""``slackline doctor``: what is installed, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from packaging.requirements import Requirement

from middleware.cli.command_options import Master
from middleware.cli.output import ExitCode, JsonFile, console, write_json
from middleware.installation import DISTRIBUTION, declared, install, is_checkout

PYTHON = (3, 11)
JAVA = 17
MEMORY = 2 * 2**30
DISK = 2**30
LOOPBACK = "127.0.0.1"
State = Literal["ok", "missing", "optional"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report. ``missing``: required and not there; ``optional``: not there, and what one goes without."""

    name: str
    state: State
    detail: str
    advice: str = ""


def python() -> Iterator[Finding]:
    version = platform.python_version()
    good = sys.version_info >= PYTHON
    yield Finding(
        "Python", "ok" if good else "missing", f"{version} at {sys.executable}", "" if good else "install Python >= 3.11"
    )


def packages() -> Iterator[Finding]:
    """One finding for each set of packages that Slackline declares: the core, and each extra."""
    try:
        sets = declared()
    except metadata.PackageNotFoundError:
        yield Finding("packages", "missing", f"{DISTRIBUTION} itself is not installed", install())
        return
    if not is_checkout():
        sets.pop("dev", None)  # for who works on Slackline itself
    for extra_name, requirements in sets.items():
        yield _package_set(extra_name, requirements)


def _package_set(extra: str, requirements: list[Requirement]) -> Finding:
    there: list[str] = []
    wrong: list[str] = []
    for requirement in requirements:
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name}{requirement.specifier}")
        else:
            (there if requirement.specifier.contains(version) else wrong).append(f"{requirement.name} {version}")
    title = f"packages [{extra}]" if extra else "packages"
    if not wrong:
        return Finding(title, "ok", ", ".join(there))
    return Finding(title, "optional" if extra else "missing", f"missing or too old: {', '.join(wrong)}", install(extra))


def java(required: bool) -> Iterator[Finding]:
    """Java as Spark will find it: JAVA_HOME first, then PATH."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    state: State = "missing" if required else "optional"
    advice = f"Spark needs Java >= {JAVA}; on Debian, as root: apt-get install openjdk-17-jre-headless"
    if shutil.which(command) is None:
        yield Finding("Java", state, f"{command} not found" + (" (JAVA_HOME points there)" if home else ""), advice)
        return
    answer = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)[^"]*"', answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        yield Finding("Java", state, f"{command} does not run: {(answer.stderr or answer.stdout).strip()[:200]}", advice)
    elif int(version.group(1)) < JAVA:
        yield Finding("Java", state, f"{version.group()} is too old", advice)
    else:
        yield Finding("Java", "ok", f"{version.group()} at {shutil.which(command)}")


def spark(start: bool, master: str | None = None) -> Iterator[Finding]:
    """PySpark imports; with ``start`` also: a session counts to ten, and its executors say what they have."""
    advice = install("spark")
    try:
        version = import_module("pyspark").__version__
    except ImportError as error:
        yield Finding("Spark", "missing" if start else "optional", f"{error}", advice)
        return
    if not start:
        yield Finding("Spark", "ok", f"PySpark {version} imports (slackline doctor --spark also starts it)")
        return
    from middleware.spark.executors import executors
    from middleware.spark.jobs import interruptible
    from middleware.spark.session import reason, spark_session

    try:
        with spark_session(1, master=master) as session:
            counted = interruptible(session.range(10).count)
            found = interruptible(lambda: executors(session))
    except Exception as error:  # whatever stops Spark is what the user must see
        hint = "see the Java line above" if master is None else "executors need this Python and Slackline: slackline spark pack"
        yield Finding("Spark", "missing", f"does not start: {reason(error)[:300]}", hint)
        return
    yield Finding("Spark", "ok" if counted == 10 else "missing", f"PySpark {version} started and counted to {counted}")
    for each in found:
        yield Finding("executor", "ok" if each.is_fit else "missing", each.summary, each.advice)


def sockets(host: str = LOOPBACK) -> Iterator[Finding]:
    """A free port on loopback, and an encrypted ZeroMQ message over it."""
    try:
        with socket.create_server((host, 0)) as server:
            port = server.getsockname()[1]
    except OSError as error:
        yield Finding("loopback", "missing", f"cannot bind {host}: {error}", "nodes talk over TCP: allow binding on loopback")
        return
    yield Finding("loopback", "ok", f"bound a free port ({port}) on {LOOPBACK}")
    advice = "reinstall pyzmq from a wheel with libsodium: pip install --force-reinstall pyzmq"
    try:
        detail = _curve_round_trip()
    except Exception as error:  # an import that fails, a libzmq without CURVE, a handshake that does not end
        yield Finding("ZeroMQ", "missing", f"no encrypted message came through: {error}", advice)
    else:
        yield Finding("ZeroMQ", "ok", detail)


def _curve_round_trip(timeout_ms: int = 5_000) -> str:
    import zmq

    public, secret = zmq.curve_keypair()
    with zmq.Context() as context, context.socket(zmq.PULL) as server, context.socket(zmq.PUSH) as client:
        server.linger = client.linger = 0
        server.curve_server, server.curve_publickey, server.curve_secretkey = True, public, secret
        client.curve_serverkey, (client.curve_publickey, client.curve_secretkey) = public, zmq.curve_keypair()
        client.connect(f"tcp://{LOOPBACK}:{server.bind_to_random_port(f'tcp://{LOOPBACK}')}")
        client.send(b"hello")
        if not server.poll(timeout_ms):
            raise TimeoutError(f"nothing after {timeout_ms} ms")
        server.recv()
    return f"libzmq {zmq.zmq_version()}, pyzmq {zmq.__version__}; a CURVE message came through"


def machine() -> Iterator[Finding]:
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = psutil.virtual_memory()
    detail = f"{cores} cores; {memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB memory free"
    if memory.available >= MEMORY:
        yield Finding("machine", "ok", detail)
    else:
        yield Finding("machine", "optional", detail, "Spark and the demo want 2 GiB: close something, or use fewer workers")


def data_folder(folder: Path) -> Iterator[Finding]:
    """Whether traces can be written: the folder, or the nearest one above it that exists, is ours and has room."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        yield Finding("data folder", "missing", f"cannot write to {there}", "give another one: slackline doctor --data FOLDER")
        return
    free = shutil.disk_usage(there).free
    detail = f"{folder.absolute()}: writable, {free / 2**30:.1f} GiB free"
    if free >= DISK:
        yield Finding("data folder", "ok", detail)
    else:
        yield Finding("data folder", "optional", detail, "traces want 1 GiB: free some room, or give another folder")


def recordings() -> Iterator[Finding]:
    """The folder with real recordings, which only the scenarios that replay them need."""
    from middleware.runtime.scenario import DATA

    name, given = "recordings", os.environ.get(DATA)
    if not given:
        advice = f"set {DATA} to their folder"
        yield Finding(name, "optional", "none; scenarios that make up their recording run without", advice)
    elif Path(given).is_dir():
        yield Finding(name, "ok", f"{Path(given).resolve()} (from {DATA})")
    else:
        yield Finding(name, "missing", f"{DATA} names {given}, which is no folder", f"mend or unset {DATA}")


def examine(start_spark: bool, data: Path, master: str | None = None) -> list[Finding]:
    """All findings, in the order in which one would mend them."""
    needs_java = start_spark or find_spec("pyspark") is not None
    examinations: list[Callable[[], Iterator[Finding]]] = [
        python,
        packages,
        lambda: java(needs_java),
        lambda: spark(start_spark, master),
        sockets,
        machine,
        lambda: data_folder(data),
        recordings,
    ]
    return [finding for examination in examinations for finding in examination()]


def doctor(
    start_spark: Annotated[bool, typer.Option("--spark", help="Also start Spark (takes some seconds).")] = False,
    master: Master = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Where traces and results will be written.")] = Path("out"),
    json_file: JsonFile = None,
) -> None:
    """The installed and the missing parts, and what to do.

    Exit code 0 if everything required is there, else 1.

    Examples:

      [bold]slackline doctor[/]

      [bold]slackline doctor --spark --json -[/]

      [bold]slackline doctor --spark --master spark://host:7077[/]
    """
    findings = examine(start_spark or master is not None, data, master)
    if json_file is not None:
        write_json(findings, json_file)
    _report(findings, json_file)
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _report(findings: list[Finding], json_file: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    style = {"ok": "green", "missing": "bold red", "optional": "yellow"}
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        detail = Text(finding.detail)
        if finding.advice:
            detail.append(f"\n-> {finding.advice}", style="bold" if finding.state == "missing" else "")
        table.add_row(Text(finding.name), Text(finding.state, style=style[finding.state]), detail)
    console(json_file).print(table)
