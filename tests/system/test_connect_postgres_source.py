"""PostgreSQL as a source, against a real server: each row once, whatever is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from slackline_benchmarks.servers import Postgres, free_port, received, serving, until
from structlog.testing import capture_logs

from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import Messages, SourceSpec
from middleware.connect.postgres_source import PostgresSource
from middleware.model.errors import SourceError, UnreachableError
from middleware.model.event import Event, EventTypes
from middleware.recordings.schemas.types import event_type

pytestmark = pytest.mark.system


class Kept(Event):
    n: int


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def test_rows_come_as_they_were_committed_and_again_until_acknowledged(server: Postgres, tmp_path: Path) -> None:
    server.do(
        "CREATE TABLE place (id bigint PRIMARY KEY, tag text, x double precision, n numeric, ok boolean, more jsonb)",
        "CREATE TABLE other (a int)",
        "INSERT INTO place VALUES (0, 'before')",
    )
    spec = SourceSpec(server.address, "Rows-1", ["place"], tmp_path)
    with closing(PostgresSource(spec)) as source:
        server.do("INSERT INTO other VALUES (1)", "INSERT INTO place VALUES (1, 'é\t''', 1.5, 2.25, true, '{\"a\": [1]}')")
        with psycopg.connect(server.address) as connection:
            with connection.cursor() as cursor, cursor.copy("COPY place (id, tag) FROM STDIN") as copy:
                for number in (2, 3, 4):  # these share their place in the log
                    copy.write_row((number, None))
            with psycopg.connect(server.address) as sooner:  # what is committed first comes first
                sooner.execute("INSERT INTO place (id) VALUES (9)")
            connection.execute("UPDATE place SET tag = 'new' WHERE id = 2")
            connection.execute("DELETE FROM place WHERE id = 3")
        came = received(source, 6)
    assert [json.loads(each.body) for each in came] == [
        {"id": 1, "tag": "é\t'", "x": 1.5, "n": 2.25, "ok": True, "more": {"a": [1]}},
        *({"id": number, "tag": tag, "x": None, "n": None, "ok": None, "more": None} for number, tag in
          ((9, None), (2, None), (3, None), (4, None), (2, "new"))),
    ]  # fmt: skip
    assert [each.id for each in came] == [1, 2, 3, 4, 5, 6]
    assert {each.topic for each in came} == {"place"}
    assert sorted(each.at for each in came) == [each.at for each in came]
    with closing(PostgresSource(spec)) as source:
        assert received(source, 6) == came
        source.acknowledge(Messages.of(came))
        server.do("INSERT INTO place (id) VALUES (10)")
        assert [each.id for each in received(source, 1)] == [7]
        with pytest.raises(UnreachableError, match="another process serves this input"):
            PostgresSource(spec)
    with closing(PostgresSource(spec)) as source:
        assert [(each.id, json.loads(each.body)["id"]) for each in received(source, 1)] == [(7, 10)]


def test_values_are_written_alike_whatever_the_role_is_set_to(server: Postgres, tmp_path: Path) -> None:
    server.do(
        "CREATE ROLE german SUPERUSER LOGIN",
        "ALTER ROLE german SET datestyle = 'German'",
        "ALTER ROLE german SET bytea_output = 'escape'",
        "ALTER ROLE german SET extra_float_digits = -10",
        "ALTER ROLE german SET timezone = 'Asia/Kolkata'",
        "CREATE TABLE styled (at timestamptz, x double precision, b bytea)",
    )
    address = server.address.replace("tests@", "german@")
    with closing(PostgresSource(SourceSpec(address, "styled", ["styled"], tmp_path))) as source:
        server.do("INSERT INTO styled VALUES ('2026-03-01T12:00:00.25Z', 0.1234567890123456, 'a')")
        (came,) = received(source, 1)
    found = json.loads(came.body)
    assert datetime.fromisoformat(found["at"]) == datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)
    assert (found["x"], found["b"]) == (0.1234567890123456, "YQ==")


def test_the_slot_continues_while_others_write_and_a_table_made_anew_is_noticed(server: Postgres, tmp_path: Path) -> None:
    server.do("CREATE TABLE quiet (k int PRIMARY KEY)", "CREATE TABLE busy (a text)")
    place = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'slackline_quiet'"
    spec = SourceSpec(server.address, "quiet", ["quiet"], tmp_path)
    with closing(PostgresSource(spec)) as source:
        before = server.rows(place)
        server.do("INSERT INTO busy SELECT repeat('x', 100) FROM generate_series(1, 1000)")
        until(lambda: not source.receive(0.1) and server.rows(place) != before, "the slot to continue")
        server.do("INSERT INTO quiet VALUES (1)")
        source.acknowledge(Messages.of(received(source, 1)))
        server.do("DROP TABLE quiet", "CREATE TABLE quiet (k int PRIMARY KEY)")
        with pytest.raises(UnreachableError, match="made anew"):
            until(lambda: bool(source.receive(0.1)), "the new table to be noticed")
    with capture_logs() as logs, closing(PostgresSource(spec)) as source:
        server.do("INSERT INTO quiet VALUES (2)")
        assert json.loads(received(source, 1)[0].body) == {"k": 2}
    assert any("from now on" in each["event"] for each in logs)


def test_values_fit_the_fields_of_their_kind(server: Postgres, tmp_path: Path) -> None:
    server.do("CREATE TABLE kinds (at timestamptz, b bytea, i interval, n numeric(30, 2))")
    kinds = event_type("kinds", {"at": datetime, "b": bytes, "i": timedelta, "n": Decimal})
    with closing(PostgresSource(SourceSpec(server.address, "kinds", ["kinds"], tmp_path))) as source:
        server.do("INSERT INTO kinds VALUES ('2026-03-01T12:00:00Z', '\\x00ff', '1 day 2 hours', 12345678901234567.89)")
        events, unread = MessageReader({"kinds": "kinds"}, EventTypes([kinds])).read(received(source, 1))
    assert not unread
    found = events[0]
    values = (found.at, found.b, found.i, found.n)  # type: ignore[attr-defined]
    assert values == (
        datetime(2026, 3, 1, 12, tzinfo=UTC),
        b"\0\xff",
        timedelta(days=1, hours=2),
        Decimal("12345678901234567.89"),
    )


def test_log_that_the_server_has_thrown_away_is_reported(server: Postgres, tmp_path: Path) -> None:
    """It keeps max_slot_wal_keep_size at most. Without the slot it begins anew, and says so."""
    server.do("CREATE TABLE kept (k int PRIMARY KEY, note text)")
    spec = SourceSpec(server.address, "kept", ["kept"], tmp_path)
    PostgresSource(spec).close()
    server.do("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    lost = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'slackline_kept'"
    while server.rows(lost) != [("lost",)]:
        server.do("TRUNCATE kept", "INSERT INTO kept SELECT n, repeat('x', 500) FROM generate_series(1, 50000) AS n")
        server.do("SELECT pg_switch_wal()", "CHECKPOINT")
    server.do("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    message = r"thrown away log that was not read .* pg_drop_replication_slot\('slackline_kept'\)"
    with closing(PostgresSource(spec)) as source, pytest.raises(SourceError, match=message):
        source.receive(0.1)
    server.do("SELECT pg_drop_replication_slot('slackline_kept')")
    with capture_logs() as logs, closing(PostgresSource(spec)) as source:
        server.do("INSERT INTO kept VALUES (-1)")
        assert [json.loads(each.body)["k"] for each in received(source, 1)] == [-1]
    assert [each["slot"] for each in logs if each["event"].startswith("the slot is gone")] == ["slackline_kept"]


def test_who_writes_is_not_hindered_and_long_values_and_partitions_are_read_right(server: Postgres, tmp_path: Path) -> None:
    server.do(
        "CREATE TABLE plain (k int, note text)",
        "CREATE TABLE long (k int PRIMARY KEY, n int, note jsonb)",
        "ALTER TABLE long ALTER note SET STORAGE EXTERNAL",
        "CREATE TABLE part (k int PRIMARY KEY) PARTITION BY RANGE (k)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100)",
        "INSERT INTO plain VALUES (1, 'old')",
        "INSERT INTO long VALUES (1, 0, to_jsonb(repeat('x', 16000))), (2, 0, to_jsonb(repeat('y', 16000)))",
    )
    with closing(PostgresSource(SourceSpec(server.address, "plain", ["plain"], tmp_path / "plain"))) as source:
        server.do("UPDATE plain SET note = 'new'", "DELETE FROM plain", "INSERT INTO plain VALUES (2, 'two')")
        assert [json.loads(each.body) for each in received(source, 1)] == [{"k": 2, "note": "two"}]
    with pytest.raises(SourceError, match="plain has neither a primary key nor a replica identity"):
        PostgresSource(SourceSpec(server.address, "mixed", ["plain", "long"], tmp_path / "mixed"))
    with closing(PostgresSource(SourceSpec(server.address, "long", ["long", "part"], tmp_path / "long"))) as source:
        server.do("UPDATE long SET n = 1 WHERE k = 1", "ALTER TABLE long REPLICA IDENTITY FULL")
        server.do("UPDATE long SET n = 2 WHERE k = 2", "INSERT INTO part VALUES (7)")
        came = received(source, 3)
    unknown, whole, part = (json.loads(each.body) for each in came)
    assert (unknown["k"], unknown["n"]) == (1, 1) and "REPLICA IDENTITY FULL" in unknown["note"][0]
    kept, unread = MessageReader({"long": "Kept"}, EventTypes([Kept])).read(Messages.of([came[0]]))
    assert [each.n for each in kept] == [1] and not unread, "it does not ask for what is unknown"  # type: ignore[attr-defined]
    for kind in (str, Any, int, float, list[str], list[Any], dict[str, Any], str | None):
        noted = event_type("Noted", {"n": int, "note": kind})
        read, unread = MessageReader({"long": "Noted"}, EventTypes([noted])).read(Messages.of([came[0]]))
        assert not read and len(unread) == 1, kind
    assert whole == {"k": 2, "n": 2, "note": "y" * 16000}
    assert (came[2].topic, part) == ("part", {"k": 7})


def test_what_would_not_help_to_try_again_is_reported(server: Postgres, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match='relation "nowhere" does not exist'):
        PostgresSource(SourceSpec(server.address, "a", ["nowhere"], tmp_path))
    with pytest.raises(SourceError, match='database "none" does not exist; mend the address of input'):
        PostgresSource(SourceSpec(server.address.replace("/postgres", "/none"), "a", ["x"], tmp_path))
    with pytest.raises(UnreachableError):
        PostgresSource(SourceSpec("postgresql://127.0.0.1:1/none", "a", ["x"], tmp_path))


PLANT = """
from slackline import Detector, Event

class Payment(Event):
    account: str
    amount: int

class Balance(Event):
    account: str
    sum: int

class Balances(Detector):
    subscribes, publishes, key = (Payment,), (Balance,), "account"

    def __init__(self):
        self.sum = 0

    def on_event(self, event):
        self.sum += event.amount
        return Balance(event.account, self.sum, ts=event.ts)
"""

SCENARIO = """
name = "plant"
detectors = ["plant:Balances"]
[[nodes]]
name = "floor"
address = "tcp://127.0.0.1:{port}"
detectors = ["*"]
[[inputs]]
name = "payments"
from = "{database}"
types = {{ "public.payment" = "Payment" }}
unit = "s"
[[outputs]]
name = "balances"
to = "{database}"
types = ["Balance"]
"""


def test_from_a_table_into_a_table_each_once_whatever_is_killed(server: Postgres, tmp_path: Path) -> None:
    server.do("CREATE TABLE payment (account text, amount int, ts bigint)")
    total = "SELECT count(*), count(DISTINCT (source, id)) FROM balance"
    with serving(tmp_path, PLANT, SCENARIO.format(port=free_port(), database=server.address), ends=2) as running:
        for index, victim in enumerate(["connect", "database", "node", "nobody"]):
            first = index * 100
            server.do(
                "INSERT INTO payment SELECT 'a' || n % 3, n, 1700000000 + n "
                f"FROM generate_series({first}, {first + 99}) AS n ORDER BY n"
            )
            until(lambda first=first: (server.rows(total) or [(0, 0)])[0][0] >= first + 60, f"rows come before {victim}")  # type: ignore[misc]
            running.strike(victim, database=server)
        server.do("INSERT INTO payment VALUES ('end', 0, 1700009999)", "INSERT INTO payment VALUES ('end', NULL, 1700009999)")
        until(lambda: server.rows(total) == [(400, 400)], "all finals are there")
        assert running.finish("connect") == 143, running.output_of("connect")
    sums = [sum(n for n in range(400) if n % 3 == part) for part in range(3)]
    assert server.rows("SELECT account, max(sum), count(*) FROM balance GROUP BY account ORDER BY account") == [
        (f"a{part}", sums[part], len(range(part, 400, 3))) for part in range(3)
    ]


def test_texts_of_a_database_that_is_not_utf_8_are_read(server: Postgres, tmp_path: Path) -> None:
    server.do("CREATE DATABASE west TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    address = server.address.replace("/postgres", "/west")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE town (id bigint PRIMARY KEY, tag text)")
        with closing(PostgresSource(SourceSpec(address, "west", ["town"], tmp_path))) as source:
            connection.execute("INSERT INTO town VALUES (1, 'Zürich')")
            (came,) = received(source, 1)
    assert json.loads(came.body) == {"id": 1, "tag": "Zürich"}
