"""The live page, with real nodes, real browsers, and visitors that are not welcome."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from slackline_benchmarks.browser import chromium, lacking, sized, troubles
from slackline_benchmarks.screenshots import disordered
from test_network import DEADLINE, node_thread, poll_until
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from middleware.cli.main import application
from middleware.cli.meshes.view import following
from middleware.cli.output import ExitCode
from middleware.model.errors import KeyFileError, NetworkError, SlacklineError
from middleware.model.event import EventTypes
from middleware.observe.view.board import Board
from middleware.observe.view.mesh_watch import MeshWatch
from middleware.observe.view.server import FRAME_EVERY, MOST_PAGES, Page
from middleware.runtime.clients import Publisher
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import load_scenario
from middleware.runtime.transport.keys import Keys, new_keys

pytestmark = pytest.mark.system

_SECONDS = 4.0


@pytest.fixture(scope="module")
def browser() -> None:
    if why := lacking():
        pytest.skip(why)


def live(page: Page, query: str = "", origin: str | None = None) -> connect:
    url = page.url.split("?")[0].replace("http", "ws") + "live" + query
    return connect(url, origin=Origin(origin) if origin is not None else None, ping_interval=None, close_timeout=0.1)


def stalled(page: Page) -> socket.socket:
    """A page that has sent Hello and never reads again, with hardly any room for what is on its way."""
    host, _, port = page.url.removeprefix("http://").strip("/").partition(":")
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.connect((host, int(port)))
    headers = {"Host": f"{host}:{port}", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers["Sec-WebSocket-Key"] = "c2xhY2tsaW5lLXN0YWxscw=="
    lines = ["GET /live HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    one.sendall("\r\n".join(lines).encode())
    return one


def status_of(url: str, headers: dict[str, str] | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=DEADLINE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.usefixtures("browser")
def test_a_running_match_in_a_browser_and_a_node_that_is_killed() -> None:
    with (
        Cluster(load_scenario("soccer"), alpha=0.0, durability="disk") as cluster,
        closing(Page("127.0.0.1:0")) as page,
        chromium() as driver,
    ):
        page.start()
        ask: Callable[[str], Any] = driver.execute_script

        def words(of: str) -> str:
            return str(ask(f"return document.getElementById('{of}').textContent"))

        with Publisher(cluster.addresses["field"], name="match") as publisher, following(page, cluster, "live"):
            driver.get(page.url)
            poll_until(lambda: words("nodes").count("up") == 2, "both nodes are up")
            slices = disordered(_SECONDS)
            for _ in range(30):
                publisher.publish(next(slices))
            publisher.flush(DEADLINE)
            poll_until(lambda: "early" in words("found"), "a result is early")
            before = words("counts")
            rates = words("graph")
            for slice_ in slices:
                publisher.publish(slice_)
            publisher.flush(DEADLINE)
            poll_until(lambda: words("counts") != before and words("graph") != rates, "numbers move")
            poll_until(lambda: "final" in words("found"), "a result is final")
            poll_until(lambda: "corrected" in words("graph"), "corrections are seen")
            clock = "return parseFloat(document.getElementById('clock').textContent)"
            poll_until(lambda: ask(clock) > 3, "the pitch moves")
            assert ask("return document.getElementById('scrub').max") != "0"
            ask("const s = document.getElementById('scrub'); s.value = 0; s.dispatchEvent(new Event('input'))")
            assert ask(clock) < 3
            assert ask("return document.getElementById('play').getAttribute('aria-pressed')") == "false"

            cluster.kill("match")
            down = "return document.querySelectorAll('#nodes [data-state=down]').length"
            poll_until(lambda: ask(down) == 1, "the killed node is shown as down")
            assert ask("return document.querySelectorAll('#graph .box.down').length") > 80
            cluster.start("match")
            poll_until(lambda: ask(down) == 0, "it is shown as up again")

            for width, height, dark in ((1440, 1000, False), (1024, 1000, True), (390, 800, False)):
                sized(driver, width, height, dark=dark)
                assert ask("return document.documentElement.scrollWidth") <= width, "the page is wider than the screen"
            unnamed = """return [...document.querySelectorAll('button, input, [role], section, canvas')].filter((one) =>
                !(one.textContent.trim() || one.ariaLabel || one.getAttribute('aria-labelledby'))
                && !['status'].includes(one.getAttribute('role')) && one.id !== 'heard').map((one) => one.outerHTML)"""
            assert ask(unnamed) == []
            tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
            labels = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]}
            named = {("heading", "Results"), ("region", "Hierarchy"), ("list", "Nodes"), ("slider", "Frame of the replay")}
            assert named <= labels
            assert any(role == "button" and "Motions on field" in name and "alpha" in name for role, name in labels)
            assert not [role for role, name in labels if role in ("button", "slider", "region", "img") and not name]
            ask("document.querySelector('#graph .box').focus()")
            ask("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
            poll_until(lambda: "final up to" in words("detail-body"), "the page shows what a unit waits for")
            assert ask("return document.getElementById('detail').open")
        assert troubles(driver) == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(load_scenario("bookstore")) as cluster:
        yield cluster


def test_stalled_pages_and_many_pages_hold_nobody_up(cluster: Cluster) -> None:
    with closing(Page("127.0.0.1:0")) as page, ExitStack() as stack:
        page.start()
        stack.enter_context(following(page, cluster, "live"))
        asleep = [stack.enter_context(closing(stalled(page))) for _ in range(10)]
        many = [stack.enter_context(live(page)) for _ in range(MOST_PAGES - len(asleep))]
        with pytest.raises(ConnectionClosed, match="pages are open already"), live(page) as one_more:
            one_more.recv(DEADLINE)
        for each in many:
            news = json.loads(each.recv(DEADLINE))
            while "mesh" not in news or not news["mesh"]["units"]:
                news = json.loads(each.recv(DEADLINE))
        assert [(node["up"], node["slow"]) for node in news["mesh"]["nodes"]] == [(True, [])]


def test_a_page_gets_ten_frames_a_second_at_most() -> None:
    watch = MeshWatch([], board := Board("x", []), EventTypes())
    over = threading.Event()

    def change() -> None:
        while not over.wait(0.005):
            with watch.lock:
                board.take_status("tcp://a", None, time.time_ns())

    changing = threading.Thread(target=change)
    changing.start()
    with closing(Page("127.0.0.1:0")) as page:
        page.start()
        page.show(watch)
        with live(page) as one:
            began = time.monotonic()
            for _ in range(12):
                one.recv(DEADLINE)
            assert 2 + (time.monotonic() - began) / FRAME_EVERY >= 12
    over.set()
    changing.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_a_signal_ends_it(cluster: Cluster, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "middleware.cli.main", "view", *cluster.addresses.values()]
    command += ["--scenario", "bookstore", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            url = process.stdout.readline().rpartition(" ")[2].strip()
            with connect(url.replace("http", "ws") + "live", ping_interval=None, close_timeout=0.1) as page:
                while "mesh" not in (news := json.loads(page.recv(DEADLINE))) or not news["mesh"]["units"]:
                    pass
            process.send_signal(number)
            assert process.wait(DEADLINE) == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
        finally:
            process.kill()  # or a failure here would wait for it for ever
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ([], "give the addresses of the nodes, or --scenario"),
        (["--scenario", "soccer"], "are not fixed in"),
        (["tcp://127.0.0.1:9", "--bind", "0.0.0.0:0"], "give --token"),
        (["tcp://127.0.0.1:9", "--bind", "here"], "write HOST:PORT"),
    ],
)
def test_what_the_command_is_given_wrongly_is_refused(words: list[str], labels: str) -> None:
    answer = CliRunner().invoke(application(), ["view", *words])
    assert answer.exit_code == ExitCode.BAD_INPUT
    assert labels in " ".join(answer.stderr.replace("│", " ").split())


def test_a_mesh_with_keys_is_watched_under_its_names(tmp_path: Path) -> None:
    pairs = [new_keys(name, tmp_path / f"{name}.key") for name in ("a", "b", "me")]
    (tmp_path / "allowed.txt").write_text("".join(f"{pair.public} {pair.name}\n" for pair in pairs))
    keys = {pair.name: Keys.load(tmp_path / f"{pair.name}.key", tmp_path / "allowed.txt") for pair in pairs}
    board = Board("x", [])
    with node_thread("a", "tcp://127.0.0.1:*", keys=keys["a"]) as node:
        watch = MeshWatch([node.address], board, EventTypes(), keys=keys["me"], names=["a"])
        watch.start()
        poll_until(lambda: [status.node for status in board.statuses] == ["a"], "it answers")
        watch.close()
    with pytest.raises(KeyFileError, match="the list has several keys"):
        MeshWatch(["tcp://127.0.0.1:9"], board, EventTypes(), keys=keys["me"])
    with pytest.raises(SlacklineError, match="2 names of nodes are given for 1 addresses"):
        MeshWatch(["tcp://127.0.0.1:9"], board, EventTypes(), keys=keys["me"], names=["a", "b"])


def test_who_is_not_admitted() -> None:
    with closing(Page("127.0.0.1:0", "s3cret")) as page:
        page.start()
        plain = page.url.split("?")[0]
        poll_until(lambda: status_of(page.url) == 200, "the page is served")
        assert [status_of(plain), status_of(plain + "?token=wrong"), status_of(plain + "film")] == [401] * 3
        for query in ("", "?token=s3cre"):
            with pytest.raises(InvalidStatus), live(page, query):
                pass
        with pytest.raises(InvalidStatus), live(page, "?token=s3cret", "http://elsewhere.example"):
            pass
        with live(page, "?token=s3cret", plain.strip("/")):
            pass


def test_no_other_site_can_lead_here_and_only_this_machine_is_served() -> None:
    with closing(Page("127.0.0.1:0")) as page:
        page.start()
        poll_until(lambda: status_of(page.url) == 200, "the page is served")
        assert status_of(page.url, {"Host": "rebound.example"}) == 403
        assert status_of(page.url + "../../etc/passwd") == 404
        with pytest.raises(NetworkError, match="give another --bind"):
            Page(page.url.removeprefix("http://").strip("/"))
    with pytest.raises(SlacklineError, match="give --token"):
        Page("0.0.0.0:0")
    with pytest.raises(SlacklineError, match="write HOST:PORT"):
        Page("localhost")
