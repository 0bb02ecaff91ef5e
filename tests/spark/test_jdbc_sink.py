"""Counts in a real PostgreSQL and a real MariaDB: each batch once, whatever happens to the database."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from airflow.sdk import Connection
from pyspark.sql import DataFrame, SparkSession

from local.services import airflow
from sluice.clients.databases import results as databases
from sluice.config.connection import Database, from_connection
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from sluice.core.errors import Missing, Refused, Unreachable
from spark_jobs.common.sinks import fence, jdbc
from spark_jobs.common.sinks.base import SinkWriteFailed, Target
from spark_jobs.common.sinks.jdbc import CHUNK_ROWS, JdbcSink
from spark_jobs.common.spark.failures import Fenced
from tests.support.databases import BOTH_SERVERS, Postgres, Server, kill_within, run, while_dead
from tests.support.raising import raising
from tests.support.services import Services

TABLE = "hits"
SINK = Sink("jdbc", connection="sluice_results", table=TABLE)
QUERY = Query([SINK], ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10)
TYPES = {"zipcode": "string", "window_start": "timestamp", "hits": "bigint", "version": "bigint"}
NOON = datetime(2026, 3, 29, 12, 2, tzinfo=UTC)
Open = Callable[..., JdbcSink]


@pytest.fixture
def opened(server: Server) -> Iterator[Open]:
    """Opens sinks of a table that was provisioned, which try again for 10 seconds."""
    databases.provision(server.database, TABLE, QUERY, TYPES)
    made: list[JdbcSink] = []

    def one(
        database: Database | None = None,
        stop: threading.Event | None = None,
        stall_timeout_seconds: float = 10.0,
        kind: type[JdbcSink] = JdbcSink,
    ) -> JdbcSink:
        target = Target("isp", "windows", QUERY, SINK, stop or threading.Event(), stall_timeout_seconds)
        made.append(kind(target, TYPES, database or server.database))
        return made[-1]

    yield one
    for sink in made:
        sink.close()


@pytest.fixture
def frame(spark: SparkSession) -> Iterator[Callable[[dict[str, int]], DataFrame]]:
    """Rows of one window, zipcode -> hits; kept, as the caller of a sink does."""
    made: list[DataFrame] = []

    def one(hits: dict[str, int]) -> DataFrame:
        # Without Python's workers, which take seconds to start.
        query = (
            "select key zipcode, timestamp_seconds(:noon) window_start, value hits "
            "from explode(from_json(:hits, 'map<string, bigint>'))"
        )
        rows = spark.sql(query, args={"noon": int(NOON.timestamp()), "hits": json.dumps(hits)})
        made.append(rows.persist())
        return made[-1]

    yield one
    for rows in made:
        rows.unpersist()


Frame = Callable[[dict[str, int]], DataFrame]


def results(server: Server, query: Query = QUERY) -> list[dict[str, Any]]:
    """Rows by column; a time without a zone (MySQL) as UTC."""
    names = [*query.keys, *query.aggregates, "version"]
    return [
        {
            name: value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
            for name, value in zip(names, row, strict=True)
        }
        for row in databases.counts(server.database, TABLE, query)
    ]


def there(server: Server) -> dict[str, tuple[int, int]]:
    """Zipcode -> hits and version, as a validation reads them."""
    found = results(server)
    assert all(row["window_start"] == NOON for row in found)
    assert len({row["zipcode"] for row in found}) == len(found)
    return {row["zipcode"]: (row["hits"], row["version"]) for row in found}


def at_upsert(sink: JdbcSink, number: int, act: Callable[[], None]) -> None:
    """Do something once, before the sink's so-and-so-many-eth statement that writes rows."""
    seen: list[int] = []

    def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.lower().startswith(f"insert into {TABLE}"):
            seen.append(1)
            if len(seen) == number:
                act()

    sa.event.listen(sink.engine, "before_cursor_execute", before)


def behind_deletes(sink: JdbcSink, act: Callable[[], None]) -> None:
    """Do something once, after the sink's second statement that deletes rows, in its transaction."""
    seen: list[str] = []

    def after(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.lower().startswith(f"delete from {TABLE}"):
            seen.append(statement)
            if len(seen) == 2:
                act()

    sa.event.listen(sink.engine, "after_cursor_execute", after)


class Never(threading.Event):
    """The stop of a sink that has nothing to wait for: what no waiting fixes is said at once."""

    def wait(self, timeout: float | None = None) -> bool:
        raise AssertionError("it is tried again")


@BOTH_SERVERS
def test_counts_are_put_in_place_of_older_ones_and_a_replayed_batch_changes_nothing(
    server: Server, opened: Open, frame: Frame
) -> None:
    sink = opened()
    assert sink.open(1) is None
    assert sink.write(0, frame({"10001": 1, "10002": 5}))
    assert sink.write(1, frame({"10001": 3, "ACME": 1, "Acme": 2, "Acme ": 3, "ß%s'\\": 4}))
    expected = {
        "10001": (3, 1),
        "10002": (5, 0),
        "ACME": (1, 1),
        "Acme": (2, 1),
        "Acme ": (3, 1),
        "ß%s'\\": (4, 1),
    }
    assert there(server) == expected
    assert not sink.write(1, frame({"10001": 99}))
    assert not sink.write(0, frame({"10002": 99}))
    assert there(server) == expected
    assert databases.last_batch(server.database, "isp", "windows") == 1
    assert databases.last_batch(server.database, "isp", "other") is None
    assert sink.write(2, frame({})), "a batch without rows counts as well"
    assert opened().open(2) == 2


def test_a_whole_result_leaves_no_other_row(server: Server, opened: Open, frame: Frame) -> None:
    zombie, sink = opened(), opened()
    zombie.open(1)
    assert zombie.write(0, frame({"1": 1, "2": 1, "3": 1}), is_whole=True)
    # By hand; no batch has such a version.
    run(server, f"update {TABLE} set version = 99 where zipcode = '3'")
    assert sink.open(2) == 0
    seen: list[dict[str, tuple[int, int]]] = []
    behind_deletes(sink, lambda: seen.append(there(server)))
    assert sink.write(1, frame({"1": 5, "4": 1}), is_whole=True)
    assert seen == [{"1": (1, 0), "2": (1, 0), "3": (1, 99)}], "until then a reader has all of before"
    assert there(server) == {"1": (5, 1), "4": (1, 1)}
    with raising(Fenced, "newer epoch 2"):
        zombie.write(2, frame({}), is_whole=True)
    assert not sink.write(1, frame({}), is_whole=True), "a batch that is there removes nothing"
    assert sink.write(2, frame({"4": 2}))
    assert there(server) == {"1": (5, 1), "4": (2, 2)}
    assert sink.write(3, frame({}), is_whole=True)
    assert there(server) == {}


def test_a_database_that_is_killed_behind_the_deletes_of_a_whole_result_has_all_or_nothing_of_it(
    server: Server, opened: Open, frame: Frame
) -> None:
    sink = opened(stall_timeout_seconds=30.0)
    sink.open(1)
    assert sink.write(0, frame({f"{n:02}": 1 for n in range(40)}))

    def write(kill: Callable[[], None]) -> bool:
        behind_deletes(sink, kill)
        return sink.write(1, frame({"07": 2}), is_whole=True)

    assert kill_within(server, 0.2, write)
    assert there(server) == {"07": (2, 1)}


def test_no_row_of_an_earlier_query_is_in_a_whole_result(server: Server, opened: Open, frame: Frame) -> None:
    """The fence does not know its batch, and the versions are those of any batch."""
    earlier = opened()
    earlier.open(1)
    for batch, zipcode in enumerate("123", start=56):
        assert earlier.write(batch, frame({zipcode: 1, "4": 1}))
    sink = JdbcSink(Target("isp", "other", QUERY, SINK, threading.Event()), TYPES, server.database)
    try:
        assert sink.open(1) is None
        assert sink.write(57, frame({"4": 2}), is_whole=True)
        assert there(server) == {"4": (2, 57)}
    finally:
        sink.close()


@BOTH_SERVERS
def test_all_types_of_keys_come_back_as_they_were(spark: SparkSession, server: Server) -> None:
    types = {"name": "string", "day": "date", "whole": "int", "large": "bigint", "yes": "boolean"}
    types |= {"at": "timestamp", "local": "timestamp_ntz", "users": "bigint", "version": "bigint"}
    query = Query([SINK], ["name", "day", "whole", "large", "yes", "at", "local"], {"users": "distinct user"})
    assert str(databases.provision(server.database, TABLE, query, types)).endswith(
        "created sluice_fence and hits"
    )
    moment = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
    rows = spark.sql(
        "select 'x' name, date'2024-02-29' day, -7 whole, 9007199254740993l large, true yes, "
        "timestamp'2024-02-29 23:59:59.999999' at, timestamp_ntz'2024-02-29 23:59:59.999999' local, 3l users"
    )
    sink = JdbcSink(Target("isp", "types", query, SINK, threading.Event()), types, server.database)
    sink.open(1)
    assert sink.write(4, rows)
    sink.close()
    (row,) = results(server, query)
    assert list(row.values()) == ["x", moment.date(), -7, 9007199254740993, True, moment, moment, 3, 4]


def test_a_fenced_writer_writes_nothing(server: Server, opened: Open, frame: Frame) -> None:
    zombie, successor = opened(), opened()
    zombie.open(1)
    assert zombie.write(0, frame({"1": 1}))
    assert successor.open(2) == 0
    with raising(Fenced, "isp/windows", "writer epoch 1, newer epoch 2"):
        zombie.write(1, frame({"1": 66}))
    with pytest.raises(Fenced):
        zombie.open(1)
    assert successor.write(1, frame({"1": 2}))
    assert there(server) == {"1": (2, 1)}


def test_a_database_that_is_killed_between_batches_and_within_one_loses_and_doubles_nothing(
    server: Server,
    opened: Open,
    frame: Frame,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jdbc, "CHUNK_ROWS", 10)
    sink = opened(stall_timeout_seconds=30.0)
    sink.open(1)
    assert sink.write(0, frame({f"{n:02}": 1 for n in range(40)}))
    rows = frame({f"{n:02}": 2 for n in range(40)})
    with caplog.at_level(logging.WARNING, "spark_jobs.common.sinks.base"):
        # Long enough for a busy machine: the write is to find it away.
        assert while_dead(server, 3.0, lambda: sink.write(1, rows))
    (told,) = caplog.messages  # one line as long as the same is wrong
    assert f"results at 127.0.0.1:{server.database.port}" in told

    def write(kill: Callable[[], None]) -> bool:
        at_upsert(sink, 3, kill)
        return sink.write(2, frame({f"{n:02}": 3 for n in range(40)}))

    assert kill_within(server, 0.2, write)
    assert there(server) == {f"{n:02}": (3, 2) for n in range(40)}


def test_a_commit_whose_answer_was_lost_counts_once(
    server: Server, opened: Open, frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened()
    sink.open(1)
    commit = sink.engine.dialect.do_commit
    lost: list[Any] = []

    def losing(connection: Any) -> None:
        commit(connection)
        # Only after the transaction that wrote.
        if writing and not lost:
            lost.append(connection)
            connection.close()
            raise sink.engine.dialect.loaded_dbapi.OperationalError(*answer)

    words = "server closed the connection unexpectedly"
    answer = (words,) if server.database.kind == "postgresql" else (2013, words)
    writing: list[bool] = []
    at_upsert(sink, 1, lambda: writing.append(True))
    monkeypatch.setattr(sink.engine.dialect, "do_commit", losing)
    assert sink.write(0, frame({"1": 1})), "it was this call that wrote it"
    assert lost
    assert there(server) == {"1": (1, 0)}
    assert sink.write(1, frame({"1": 2}))


@pytest.mark.parametrize("server", ["postgresql"], indirect=True)
def test_a_closed_port_is_waited_for_no_longer_than_patience_and_stop_ends_the_waiting(
    server: Server, opened: Open
) -> None:
    closed = replace(server.database, port=1)
    with raising(SinkWriteFailed, "jdbc hits", "results at 127.0.0.1:1"):
        began = time.monotonic()
        opened(closed, stall_timeout_seconds=0.3).open(1)
    assert time.monotonic() - began < 10
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with raising(SinkWriteFailed, "asked to stop"):
        opened(closed, stall_timeout_seconds=1000.0, stop=stop).open(1)


def test_a_table_that_is_missing_or_dropped_is_said_at_once(
    server: Server, opened: Open, frame: Frame
) -> None:
    sink = opened(stop=Never())
    sink.open(1)
    assert sink.write(0, frame({"1": 1}))
    run(server, f"drop table {TABLE}")
    missing = ("jdbc hits", "table hits", f"results at 127.0.0.1:{server.database.port}", "provision_sinks")
    with raising(SinkWriteFailed, *missing):
        sink.write(1, frame({"1": 2}))
    with raising(SinkWriteFailed, *missing):
        opened(stop=Never()).open(2)
    databases.provision(server.database, TABLE, QUERY, TYPES)
    assert sink.write(1, frame({"1": 2})), "nothing of it was there"
    run(server, "drop table sluice_fence")
    with raising(SinkWriteFailed, "sluice_fence"):
        sink.write(2, frame({"1": 3}))


def test_a_table_without_its_key_or_a_column_is_refused(server: Server, opened: Open) -> None:
    sink = opened()
    columns = "zipcode varchar(255) not null, window_start timestamp not null, hits bigint"
    run(server, f"drop table {TABLE}", f"create table {TABLE} ({columns}, version bigint)")
    if server.database.kind == "postgresql":
        run(server, f"grant all on {TABLE} to results")
    with raising(SinkWriteFailed, "table hits", "key ()", "zipcode", "provision_sinks"):
        sink.open(1)
    run(server, f"alter table {TABLE} drop column hits")
    with raising(SinkWriteFailed, "table hits", "has no column hits"):
        sink.open(1)


def test_what_no_waiting_fixes_is_said_at_once_and_without_the_password(
    server: Server, opened: Open, frame: Frame, caplog: pytest.LogCaptureFixture
) -> None:
    right = server.database
    wrong = replace(right, password="hunter2-secret")
    said: list[str] = []

    def refused(sink: JdbcSink, *data: str) -> None:
        with raising(SinkWriteFailed, *data) as caught:
            sink.open(1)
        said.extend([str(caught.value), repr(caught.value.__cause__), repr(sink), repr(sink.engine)])

    refused(opened(wrong, stop=Never()), "login", "sluice_results")
    refused(opened(replace(right, database="nowhere"), stop=Never()), "nowhere")
    sink = opened(stop=Never())
    sink.open(1)
    # MariaDB looks at a session's rights on a database when it begins.
    sink.close()
    who = "results" if right.kind == "postgresql" else "results@'127.0.0.1'"
    run(server, f"revoke all on {'hits from ' if right.kind == 'postgresql' else 'results.* from '}{who}")
    owner = "alter table hits owner to " + ("sluice" if right.kind == "postgresql" else "results")
    try:
        if right.kind == "postgresql":
            run(server, owner, "revoke all on hits from results")
        with raising(SinkWriteFailed, "right", "sluice_results"):
            sink.write(0, frame({"1": 1}))
    finally:
        if right.kind == "postgresql":
            run(server, "alter table hits owner to results")
        else:
            run(server, f"grant all on results.* to {who}")
    said += [record.getMessage() for record in caplog.records]
    for password in ("hunter2-secret", right.password):
        assert not [text for text in said if password in text]
    argv = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in argv if right.password.encode() in line]


class Telling(threading.Event):
    """The stop of a sink; ``waited`` is set when it waits to try again."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.set()
        return super().wait(timeout)


def test_a_lock_that_another_session_holds_is_waited_for(
    server: Server, opened: Open, frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "LOCK_SECONDS", 1)
    stop = Telling()
    sink = opened(stop=stop)
    sink.open(1)
    assert sink.write(0, frame({"1": 1}))
    engine = sa.create_engine(**server.database.sqlalchemy())
    with engine.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute(sa.text(f"select * from {TABLE} where zipcode = '1' for update"))
        writing = pool.submit(sink.write, 1, frame({"1": 2}))
        assert stop.waited.wait(30)
        other.rollback()
        assert writing.result(30)
    engine.dispose()
    assert there(server) == {"1": (2, 1)}


def test_a_full_disk_is_waited_for_and_nothing_of_the_batch_is_there_before(
    spark: SparkSession, server: Server, opened: Open
) -> None:
    sink = opened(stall_timeout_seconds=0.3)
    with disk(server) as free:
        sink.open(1)
        rows = spark.range(30_000).selectExpr(
            "rpad(cast(id as string), 200, 'x') zipcode", "timestamp_seconds(0) window_start", "id hits"
        )
        with raising(SinkWriteFailed, "jdbc hits", "no room"):
            sink.write(0, rows)
        assert len(results(server)) == 0
        assert databases.last_batch(server.database, "isp", "windows") is None
        free()
        assert sink.write(0, rows)
        assert len(results(server)) == 30_000


class disk:  # noqa: N801
    """Puts the table onto a file system of 6 MB; gives what makes that larger. Only root can: skips else."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-disk-"))

    def _mount(self, options: str) -> bool:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "sluice-test", str(self.folder)], capture_output=True
        )
        return done.returncode == 0

    def __enter__(self) -> Callable[[], None]:
        if not self._mount("size=6m,mode=777"):
            self.folder.rmdir()
            pytest.skip("no file system of its own can be mounted here, so none can be full")
        place = self.folder / "data"
        place.mkdir()
        folder = str(place)
        ddl = (
            f"{''} (zipcode varchar(255) not null, window_start %s not null, hits bigint not null, "
            "version bigint not null, primary key (zipcode, window_start))"
        )
        owner = "postgres" if self.server.database.kind == "postgresql" else "nobody"
        shutil.chown(place, owner)
        run(self.server, f"drop table {TABLE}")
        if self.server.database.kind == "postgresql":
            run(
                self.server,
                f"create tablespace small location '{folder}'",
                f"create table {TABLE}{ddl % 'timestamptz'} tablespace small",
                f"alter table {TABLE} owner to results",
                "alter index hits_pkey set tablespace small",
            )
        else:
            run(
                self.server,
                f"create table {TABLE}{ddl % 'datetime(6)'} engine=InnoDB data directory='{folder}' "
                "character set utf8mb4 collate utf8mb4_nopad_bin",
            )

        def larger() -> None:
            subprocess.run(["mount", "-o", "remount,size=200m", str(self.folder)], check=True)

        return larger

    def __exit__(self, *_: object) -> None:
        run(self.server, f"drop table {TABLE}")
        if self.server.database.kind == "postgresql":
            run(self.server, "drop tablespace small")
        subprocess.run(["umount", str(self.folder)], check=True)
        self.folder.rmdir()


@BOTH_SERVERS
def test_values_that_do_not_fit_are_refused_and_not_cut_off(
    spark: SparkSession, server: Server, opened: Open, frame: Frame
) -> None:
    sink = opened(stop=Never())
    sink.open(1)
    with raising(SinkWriteFailed, "jdbc hits", "value"):
        sink.write(0, frame({"x" * 256: 1}))
    nothing = spark.sql("select string(null) zipcode, timestamp_seconds(0) window_start, 1l hits")
    with raising(SinkWriteFailed, "zipcode", "key"):
        sink.write(0, nothing)
    if server.database.kind == "postgresql":
        with raising(SinkWriteFailed, "jdbc hits", "NUL"):
            sink.write(0, frame({"a\0b": 1}))
    assert there(server) == {}
    assert sink.write(0, frame({"1": 1}))


def test_a_key_that_became_wider_is_written_as_it_is_or_refused(spark: SparkSession, server: Server) -> None:
    """The stream's column is declared as INT, and its table has followed a BIGINT."""
    query = Query([SINK], ["status"], {"hits": "count"}, mode="complete")
    types = {"status": "int", "hits": "bigint", "version": "bigint"}
    databases.provision(server.database, TABLE, query, types)
    rows = spark.sql(f"select {2**40}l status, 3l hits")
    target = Target("isp", "statuses", query, SINK, Never())
    sink = JdbcSink(target, types, server.database)
    sink.open(1)
    assert sink.write(0, rows)
    assert results(server, query) == [{"status": 2**40, "hits": 3, "version": 0}]
    # Made by a person: a column of whole numbers fits what is declared.
    is_postgres = server.database.kind == "postgresql"
    narrow = "alter column status type int" if is_postgres else "modify status int not null"
    run(server, f"delete from {TABLE}", f"alter table {TABLE} {narrow}")
    with raising(SinkWriteFailed, "jdbc hits", "Fix:", "make the column wider"):
        sink.write(1, rows)
    assert results(server, query) == []
    sink.close()


class Chunked(JdbcSink):
    """Remembers what it writes in one statement."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.chunks: list[list[tuple[Any, ...]]] = []

    def _chunks(self, rows: DataFrame) -> Iterator[list[tuple[Any, ...]]]:
        for chunk in super()._chunks(rows):
            self.chunks.append(chunk)
            yield chunk


def test_many_rows_take_few_statements_and_bounded_memory(
    spark: SparkSession, server: Server, opened: Open
) -> None:
    rows = spark.range(12_000).selectExpr(
        "cast(id as string) zipcode", "timestamp_seconds(0) window_start", "id hits"
    )
    sink = opened(kind=Chunked)
    assert isinstance(sink, Chunked)
    sink.open(1)
    sent: list[bool] = []
    sa.event.listen(sink.engine, "before_cursor_execute", lambda *given: sent.append(given[5]))
    before = inserts(server)
    assert sink.write(0, rows)
    # Row by row it takes four times as long.
    if server.database.kind == "postgresql":
        assert not any(sent), "the driver's lists are row by row"
    else:
        assert 0 < inserts(server) - before < 100
    assert all(chunk == sorted(chunk) for chunk in sink.chunks), "one order of locks"
    sizes = [len(chunk) for chunk in sink.chunks]
    assert max(sizes) <= CHUNK_ROWS
    assert sum(sizes) == len(results(server)) == 12_000


def inserts(server: Server) -> int:
    """How many statements MariaDB was sent that insert."""
    if server.database.kind == "postgresql":
        return 0
    with server.engine().connect() as connection:
        found = connection.execute(sa.text("show global status like 'Com_insert'")).one()
    return int(found[1])


def test_one_connection_at_most(server: Server, opened: Open, frame: Frame) -> None:
    sink = opened()
    sink.open(1)
    sink.write(0, frame({"1": 1}))
    pool = sink.engine.pool
    assert isinstance(pool, sa.QueuePool)
    assert (pool.size(), server.database.sqlalchemy()["max_overflow"]) == (1, 0)
    with sink.engine.connect() as connection:
        asked = "show timezone" if server.database.kind == "postgresql" else "select @@session.time_zone"
        assert connection.execute(sa.text(asked)).scalar_one() in ("UTC", "+00:00")


@BOTH_SERVERS
def test_provisioning_is_repeatable_and_refuses_what_differs(server: Server) -> None:
    database = server.database
    with raising(Missing, "sluice_fence"):
        databases.last_batch(database, "isp", "windows")
    with raising(Missing, "table hits", "database results"):
        list(databases.counts(database, TABLE, QUERY))
    ends: list[str] = []
    assert not databases.is_provisioned(database, TABLE, QUERY, TYPES)

    def make() -> None:
        ends.append(str(databases.provision(database, TABLE, QUERY, TYPES)))

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(ends) == 3, "two at once do no harm"
    assert databases.provision(database, TABLE, QUERY, TYPES).made == ()
    assert databases.is_provisioned(database, TABLE, QUERY, TYPES)
    run(server, f"alter table {TABLE} add column who int", f"alter table {TABLE} drop column version")
    with raising(Refused, "column version (bigint)", "column who"):
        databases.provision(database, TABLE, QUERY, TYPES)
    with raising(Refused, "version"):
        list(databases.counts(database, TABLE, QUERY))
    moment = "timestamptz" if database.kind == "postgresql" else "datetime(6)"
    exact = "" if database.kind == "postgresql" else " character set utf8mb4 collate utf8mb4_nopad_bin"

    def rebuild(zipcode: str, rest: str, hits: str = "bigint") -> None:
        run(
            server,
            f"drop table {TABLE}",
            f"create table {TABLE} (zipcode {zipcode} not null, window_start {moment} not null, "
            f"hits {hits} not null, version bigint not null, {rest})",
        )

    key = "primary key (zipcode, window_start)"
    differences: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (
            ("varchar(255)" + exact, "primary key (zipcode)"),
            ("(zipcode)", "(zipcode, window_start)"),
        ),
        (("varchar(5)" + exact, key), ("zipcode", "VARCHAR(5)", "255")),
        (("varchar(255)" + exact, key, "int"), ("hits", "INT", "bigint")),
        (("varchar(255)" + exact, f"{key}, unique (hits)"), ("unique", "(hits)")),
    ]
    if database.kind == "mysql":
        differences += [
            (
                ("varchar(255) character set utf8mb4", key),
                ("utf8mb4_general_ci",),
            ),
            (("varchar(255)" + exact, f"{key}) engine=Aria comment=('x'"), ("Aria",)),
        ]
    for made, words in differences:
        if "Aria" in made[1]:
            rebuild(made[0], key)
            run(server, f"alter table {TABLE} engine=Aria")
        else:
            rebuild(*made)
        with raising(Refused, *words):
            databases.provision(database, TABLE, QUERY, TYPES)
        assert not databases.is_provisioned(database, TABLE, QUERY, TYPES)
    with raising(Refused, "zipcode", "double"):
        databases.provision(database, TABLE, QUERY, TYPES | {"zipcode": "double"})


def test_questions_to_a_database_that_does_not_answer_or_refuses(server: Server) -> None:
    with raising(Unreachable, "results at 127.0.0.1:1"):
        databases.last_batch(replace(server.database, port=1), "isp", "windows")
    with raising(Refused, "login", "connection") as caught:
        databases.provision(replace(server.database, password="hunter2"), TABLE, QUERY, TYPES)
    assert "hunter2" not in str(caught.value)


def test_the_embedded_stack_s_database_is_its_user_s_and_no_other_is(services: Services) -> None:
    given = json.loads(airflow.environment(services.stack.context)["AIRFLOW_CONN_SLUICE_RESULTS"])
    made = from_connection(Connection(conn_id="sluice_results", **given), "sluice_results")
    assert made == Postgres(services).database
    with sa.create_engine(**made.sqlalchemy()).connect() as connection:
        rights = "has_database_privilege(current_user, 'results', 'create')"
        assert connection.execute(sa.text(f"select {rights}")).scalar_one() is False
    with pytest.raises(sa.exc.OperationalError, match="permission denied for database"):
        sa.create_engine(**replace(made, database="lake").sqlalchemy()).connect()
