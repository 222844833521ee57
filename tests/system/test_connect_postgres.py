"""The PostgreSQL sink against a real server: exactly once, by transactions, whatever is killed."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import psycopg
import pytest
from slackline_benchmarks.servers import Postgres, until
from test_network import DEADLINE, TYPES, Hit, hits, node_thread

from middleware.connect.postgres import PostgresSink
from middleware.model.change import Change, Insert, Retract, Revise
from middleware.model.errors import SinkError, SlacklineError, UnreachableError
from middleware.model.event import ORDER, Event
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.sinks.sink import deliver, open_sink
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


class Reading(Event):
    value: float | None
    tags: tuple[str, ...] = ()
    count: int = 0


class Other(Event):
    value: str


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def reading(number: int, value: float | None = 1.5, count: int = 0) -> Reading:
    return Reading(value, ("a", "b"), count, ts=1_000 + number, id=number, source="s", level=1)


def test_finals_are_rows_with_their_mark_in_one_transaction(server: Postgres) -> None:
    with closing(open_sink(server.address, "first", prefix="one_")) as sink:
        assert sink.position is None
        sink.take([reading(1), reading(2, None)])
        sink.take([reading(3, float("inf"))])
        assert sink.position == ORDER(reading(3))
    assert server.rows("SELECT value, tags, count, ts, id, source, level FROM one_reading ORDER BY ts") == [
        (1.5, ["a", "b"], 0, 1_001, 1, "s", 1),
        (None, ["a", "b"], 0, 1_002, 2, "s", 1),
        (float("inf"), ["a", "b"], 0, 1_003, 3, "s", 1),
    ]
    with closing(open_sink(server.address, "first", prefix="one_")) as sink:
        assert sink.position == ORDER(reading(3))


class Timed(Event):
    time: str


def test_a_column_has_the_time_for_people_where_ts_is_unix_time(server: Postgres) -> None:
    moments = [1_700_000_000_123_456_789, 4_102_444_799_999_999_999, 631_152_000_000_000_000, 1_000]
    with closing(open_sink(server.address, "times", prefix="time_")) as sink:
        sink.take([Reading(1.0, ts=ts, id=number, source="s") for number, ts in enumerate(moments)])
        sink.take([Timed("noon", ts=moments[0], id=9, source="s")])
    assert server.rows("SELECT ts, time AT TIME ZONE 'UTC' FROM time_reading ORDER BY id") == [
        (moments[0], datetime(2023, 11, 14, 22, 13, 20, 123456)),
        (moments[1], datetime(2099, 12, 31, 23, 59, 59, 999999)),
        (moments[2], datetime(1990, 1, 1)),
        (moments[3], None),
    ]
    assert server.rows("SELECT time, ts FROM time_timed") == [("noon", moments[0])], "the type has a field of that name"


def test_changes_are_upserts_and_deletions_and_may_be_repeated(server: Postgres) -> None:
    changes = [
        Insert(reading(1)),
        Insert(reading(2)),
        Revise(reading(2, 9.0), reading(2)),
        Retract(reading(1)),
        Insert(reading(3)),
    ]
    with closing(PostgresSink(server.address, "early", prefix="two_")) as sink:
        for start in (0, 3, 0, 2):  # as from a reader that was killed now and then
            sink.apply(changes[start:])
            assert server.rows("SELECT id, value FROM two_reading ORDER BY id") == [(2, 9.0), (3, 1.5)]
        assert sink.position is None


def test_what_the_database_refuses_is_listed_and_the_others_are_stored(server: Postgres) -> None:
    events = [reading(1), reading(2, count=2**63), reading(3), Other("a\0b", ts=1_004, id=4), Other("fine", ts=1_005, id=5)]
    with closing(PostgresSink(server.address, "odd", prefix="three_")) as sink:
        sink.take(events)
        assert sink.position == ORDER(events[-1])
    assert server.rows("SELECT id FROM three_reading ORDER BY id") == [(1,), (3,)]
    assert server.rows("SELECT value FROM three_other") == [("fine",)]
    rejected = server.rows("SELECT type, id, reason FROM slackline_rejected WHERE sink = 'odd' ORDER BY id")
    assert [(kind, number) for kind, number, _ in rejected] == [("Reading", 2), ("Other", 4)]
    assert "out of range" in rejected[0][2] and "NUL" in rejected[1][2]


def test_no_source_is_tried_for_ever_or_ends_the_output(server: Postgres) -> None:
    """An index takes 2,704 bytes, and no text has a NUL: that is for the database to refuse, whatever becomes of the event."""
    letters = random.Random(1).choices(string.ascii_letters, k=2 * 4_000)
    long, longer, null = "".join(letters[:4_000]), "".join(letters), "a\0b"
    odd = [Reading(1.5, ts=1_000, id=1, source=source) for source in (long, longer, null)]
    with closing(PostgresSink(server.address, "wide", prefix="eight_")) as sink:
        sink.take([*odd, reading(2)])
        sink.apply([Revise(each, each) for each in odd])
        sink.apply([Retract(each) for each in odd])
    assert server.rows("SELECT id FROM eight_reading") == [(2,)]
    rejected = server.rows("SELECT length(record) FROM slackline_rejected WHERE sink = 'wide' ORDER BY 1 DESC")
    assert len(rejected) == 3 and rejected[0][0] > 8_000


def test_what_a_refused_revision_replaces_stands_no_more(server: Postgres) -> None:
    versions = [Other(text, ts=1, id=1, source="s") for text in ("first", "a\0", "b\0", "last")]
    with closing(PostgresSink(server.address, "revised", prefix="nine_")) as sink:
        sink.apply([Insert(versions[0])])
        for old, new in pairwise(versions):
            sink.apply([Revise(new, old)])
            stands = server.rows("SELECT value FROM nine_other")
            assert stands == ([("last",)] if new is versions[-1] else [])
    ((record,),) = server.rows("SELECT record FROM slackline_rejected WHERE sink = 'revised'")
    assert "b\\u0000" in record


def test_an_identity_that_changes_its_type_leaves_its_table(server: Postgres) -> None:
    """It is withdrawn of one type, and comes of another, in one batch, in either order."""
    other = Other("x", ts=1_001, id=1, source="s")
    changes: list[Change] = [Retract(reading(1)), Insert(other)]
    for prefix in ("ten_", "ten_b_"):
        with closing(PostgresSink(server.address, "moving", prefix=prefix)) as sink:
            sink.apply([Insert(reading(1))])
            sink.apply(changes)
        changes.reverse()
        assert server.rows(f"SELECT id FROM {prefix}reading") == []
        assert server.rows(f"SELECT id FROM {prefix}other") == [(1,)]


def test_a_table_that_does_not_fit_is_refused_by_name(server: Postgres) -> None:
    with closing(PostgresSink(server.address, "fitting", prefix="four_")) as sink:
        sink.take([reading(1)])
    with psycopg.connect(server.address) as connection:
        connection.execute("ALTER TABLE four_reading DROP COLUMN tags")
    misfit = pytest.raises(SinkError, match=r"public.four_reading does not fit Reading: column tags is missing")
    with closing(PostgresSink(server.address, "fitting", prefix="four_")) as sink, misfit:
        sink.take([reading(2)])
    assert server.rows("SELECT id FROM four_reading") == [(1,)]


def test_a_table_that_changes_under_a_running_sink_is_named(server: Postgres) -> None:
    with closing(PostgresSink(server.address, "changing", prefix="five_")) as sink:
        sink.take([reading(1)])
        server.do("ALTER TABLE five_reading RENAME COLUMN tags TO labels")
        with pytest.raises(SinkError, match=r'"tags".*was changed while output \'changing\' wrote to it'):
            sink.take([reading(2)])
        server.do(
            "ALTER TABLE five_reading RENAME COLUMN labels TO tags",
            "ALTER TABLE five_reading ADD who text NOT NULL DEFAULT ''",
            "ALTER TABLE five_reading ALTER who DROP DEFAULT",
        )
        sink.take([reading(2)])
        assert sink.position == ORDER(reading(2))
    assert server.rows("SELECT id FROM five_reading") == [(1,)]
    ((number, reason),) = server.rows("SELECT id, reason FROM slackline_rejected WHERE sink = 'changing'")
    assert number == 2 and 'column "who"' in reason


def test_a_name_that_would_be_cut_is_refused(server: Postgres) -> None:
    """PostgreSQL keeps 63 bytes, silently: two tables would be one, and the next start would find neither."""
    long = pytest.raises(SinkError, match=r"the table \w{64} of output 'long' has 64 bytes, and names have at most 63")
    with closing(PostgresSink(server.address, "long", prefix="x" * 57)) as sink, long:
        sink.take([reading(1)])
    for number in (1, 2):  # each under a name of its own: the server may not have seen yet that a connection has ended
        with closing(PostgresSink(server.address, f"long_{number}", prefix="x" * 56)) as sink:
            sink.take([reading(number)])
    wide: Any = msgspec.defstruct("Wide", [("ä" * 32, int)], bases=(Event,), frozen=True)
    with closing(PostgresSink(server.address, "long_3")) as sink, pytest.raises(SinkError, match=r"the column ä+ of output"):
        sink.take([wide(1, ts=1, id=1)])
    with pytest.raises(SinkError, match=r"the schema y+ of output"):
        PostgresSink(server.address, "long_4", schema="y" * 64)


def test_a_full_disk_passes_and_nothing_is_lost(server: Postgres) -> None:
    with closing(PostgresSink(server.address, "full", prefix="six_")) as sink:
        sink.take([reading(1)])
        server.do(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$",
            "CREATE TRIGGER full_disk BEFORE INSERT ON six_reading FOR EACH ROW EXECUTE FUNCTION full_disk()",
        )
        with pytest.raises(UnreachableError, match="could not extend file"):
            sink.take([reading(2), reading(3)])
    server.do("DROP TRIGGER full_disk ON six_reading")
    with closing(PostgresSink(server.address, "full", prefix="six_")) as sink:
        assert sink.position == ORDER(reading(1))
        sink.take([reading(2), reading(3)])
    assert server.rows("SELECT id FROM six_reading ORDER BY id") == [(1,), (2,), (3,)]


def test_who_is_refused_is_notified_at_once() -> None:
    """Trying again would not help; a server that starts, or is full, is tried again."""
    with Postgres() as server:
        server.do("CREATE ROLE app LOGIN PASSWORD 'right'")
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text("host all tests 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n")
        server.do("SELECT pg_reload_conf()")
        place = f"127.0.0.1:{server.port}"
        right = f"postgresql://app:right@{place}/postgres"
        until(lambda: isinstance(_refusal(f"postgresql://nobody@{place}/postgres"), SinkError), "the rules are read")
        for address, why in (
            (right.replace("right", "wrong"), "password authentication failed"),
            (right.replace(":right", ""), "no password supplied"),
            (f"postgresql://nobody@{place}/postgres", "no pg_hba.conf entry"),
            (f"postgresql://tests@{place}/none", 'database "none" does not exist'),
            (f"postgresql://tests@{place}/postgres?sslmode=require", "server does not support SSL"),
            (right, "permission denied for schema public"),
        ):
            refusal = _refusal(address)
            assert isinstance(refusal, SinkError), refusal
            assert why in str(refusal)
            assert "right" not in str(refusal)
        server.do("ALTER DATABASE postgres CONNECTION LIMIT 0", "GRANT ALL ON SCHEMA public TO app")
        assert isinstance(_refusal(right), UnreachableError)


def _refusal(address: str) -> SlacklineError | None:
    try:
        PostgresSink(address, "refused").close()
    except SlacklineError as error:
        return error
    return None


def test_a_second_sink_of_the_same_name_waits_its_turn(server: Postgres) -> None:
    with closing(PostgresSink(server.address, "alone")), pytest.raises(UnreachableError, match="another connection writes"):
        PostgresSink(server.address, "alone")
    PostgresSink(server.address, "alone").close()


def test_sinks_that_begin_at_once_make_their_tables_once(server: Postgres) -> None:
    """Seen in CI: CREATE TABLE IF NOT EXISTS in two connections at a time, "type slackline_marks already exists"."""

    def begin(name: str, schema: str, gate: Barrier) -> None:
        gate.wait()
        with closing(PostgresSink(server.address, name, schema=schema)) as sink:
            gate.wait()
            sink.take([reading(ord(name))])

    with psycopg.connect(server.address, autocommit=True) as connection, ThreadPoolExecutor(4) as pool:
        for number in range(10):
            connection.execute(f"CREATE SCHEMA fresh_{number}".encode())
            gate = Barrier(4)
            for done in [pool.submit(begin, name, f"fresh_{number}", gate) for name in "abcd"]:
                done.result(60)
            assert server.rows(f"SELECT count(*) FROM fresh_{number}.reading, fresh_{number}.slackline_marks") == [(16,)]


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("postgresql://127.0.0.1:1/none", UnreachableError),
        ("postgresql://127.0.0.1/none?colour=red", SinkError),
        ("postgresql://tests@127.0.0.1:abc", SinkError),
        ("postgresql://tests@127.0.0.1:99999/none", SinkError),
        ("postgresql://127.0.0.1/none?sslmode=maybe", SinkError),
    ],
)
def test_an_address_without_a_server_is_an_error(address: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        open_sink(address)


def test_an_option_that_it_does_not_have_is_refused(server: Postgres) -> None:
    with pytest.raises(SinkError, match="colour"):
        open_sink(server.address, colour="red")


def test_each_final_is_a_row_once_though_the_server_is_killed(server: Postgres, tmp_path: Path) -> None:
    """The server dies between two batches; a new reader of that name begins behind the mark."""
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=Store(tmp_path / "state", "a")) as node,
        Publisher(node.address, types=[Hit]) as publisher,
    ):
        with Subscriber(node.address, Hit, consistency="final", resume="hits") as first:
            first.wait_ready(DEADLINE)  # from now on the node keeps what comes for this name
        publisher.publish(hits(1, 500))
        publisher.flush()
        for end in (200, 350, 500):
            publisher.advance(Hit, 1_000 + end)
            sink = open_sink(server.address, "hits")
            with (
                Subscriber(node.address, Hit, consistency="final", resume="hits", after=sink.position) as subscriber,
                closing(sink),
            ):
                deliver(subscriber, sink, until=1_000 + end)
                assert server.rows("SELECT count(*), max(id) FROM hit") == [(end, end)]
                server.kill()
                with pytest.raises(UnreachableError):
                    sink.take(hits(end + 1, 1))
            server.start()
        until(lambda: server.rows("SELECT count(*), count(DISTINCT id) FROM hit") == [(500, 500)], "all rows are there")
