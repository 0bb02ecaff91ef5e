"""A catalog put back to an earlier state under its writers: nothing is lost, doubled or published over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from local.stack.stack import wait_until
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect
from sluice.ledger.history import History
from sluice.ledger.known_tables import KnownTables
from spark_jobs.common.consumer import run
from spark_jobs.common.lake import known_tables, tables
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable, StagedSnapshot
from spark_jobs.common.lake.tables import TableLost, TableReplaced
from spark_jobs.common.lake.writer_lease import ConcurrentCommit, run_with_lease
from spark_jobs.common.spark.failures import Fenced
from tests.support.lakehouse import Stream, commit
from tests.support.raising import raising

ON_EACH_CATALOG = {
    "test_a_running_writer_publishes_again_what_a_restored_catalog_lost",
    "test_what_a_zombie_writes_to_its_removed_branch_is_not_published",
}


def published(stream: Stream, each: int) -> Callable[[], bool]:
    return lambda: stream.summaries()[0].get("end-offsets") == f'{{"0": {each}, "1": {each}}}'


@contextmanager
def restored_under_a_writer(stream: Stream) -> Iterator[None]:
    """Three records of each partition are published, and the catalog is put back to before them, under the
    consumer's loop, which acquires the lease again if it has to."""
    writer, stop = stream.writer(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loop = pool.submit(
            run_with_lease, writer, lambda: stream.consume(writer, writer.acquire()).until(stop)
        )
        try:
            wait_until("the lease", lambda: bool(stream.summaries()), 60, 0.1)
            before = stream.metadata_location()
            stream.send(3)
            wait_until("the first load", published(stream, 3), 60, 0.1)
            stream.restore_catalog(before)
            yield
        finally:
            stop.set()
        loop.result(60)


def test_a_running_writer_publishes_again_what_a_restored_catalog_lost(stream: Stream) -> None:
    with restored_under_a_writer(stream):
        stream.send(2)
        wait_until("both loads", published(stream, 5), 60, 0.1)
    stream.assert_exact(5)


def test_an_idle_writer_notices_that_the_catalog_was_restored(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CHECK_SECONDS", 0.1)
    with restored_under_a_writer(stream):
        wait_until("the load again", published(stream, 3), 60, 0.1)
    stream.assert_exact(3)


def test_an_epoch_that_is_issued_again_is_another_writers(stream: Stream) -> None:
    """The catalog is restored to before writer 1; another one gets its epoch, while it is suspended."""
    empty = stream.metadata_location()
    suspended = stream.writer()
    positions = suspended.acquire()
    stream.send(3)
    stream.restore_catalog(empty)
    successor = stream.writer()
    stream.run(successor).query.stop()
    assert (suspended.epoch, successor.epoch) == (1, 1)
    with raising(Fenced):
        stream.await_end(stream.consume(suspended, positions))
    stream.assert_exact(3)
    assert suspended.checkpoint.uri != successor.checkpoint.uri


def test_of_two_first_writers_of_a_table_the_slower_one_does_not_publish_again(stream: Stream) -> None:
    stream.send(3)
    faster, slower = stream.writer(), stream.writer()
    done: list[int] = []

    class Suspended(IcebergTable):
        def stage(self, *arguments: Any, **named: Any) -> StagedSnapshot:
            if not done:
                done.append(1)
                stream.run(faster).query.stop()
            return super().stage(*arguments, **named)

    slower.table = Suspended(stream.spark, stream.spec.table)
    stream.run(slower).query.processAllAvailable()
    stream.assert_exact(3)
    assert (faster.epoch, slower.epoch) == (1, 2)


def test_a_commit_to_a_branch_while_the_lease_is_acquired_costs_an_attempt(stream: Stream) -> None:
    """What was staged is older than that commit, and Iceberg cannot add it any more."""
    running, successor = stream.writer(), stream.writer()
    running.acquire()
    staged: list[StagedSnapshot] = []

    class Raced(IcebergTable):
        def stage(self, *arguments: Any, **named: Any) -> StagedSnapshot:
            staged.append(super().stage(*arguments, **named))
            if len(staged) == 1:
                commit(running.table, {"sluice.kind": "batch"}, running.branch)
            return staged[-1]

    successor.table = Raced(stream.spark, stream.spec.table)
    successor.acquire()
    successor.check_lease()
    assert (successor.epoch, successor.head) == (2, staged[1].id)
    assert successor.table.parent(successor.head) == running.published


def test_what_a_zombie_writes_to_its_removed_branch_is_not_published(stream: Stream) -> None:
    """Iceberg makes the branch again, from ``main``: a fast-forward would be accepted."""
    zombie = stream.writer()
    zombie.acquire()
    stream.send(3)
    stream.run(stream.writer()).query.stop()
    zombie.table.refresh()
    assert zombie.branch not in zombie.table.branches()
    rows = stream.spark.table(f"lake.{stream.spec.table}")
    with raising(Fenced):
        zombie.write_branch(rows, {"sluice.kind": "batch"})
    with raising(Fenced):
        zombie.stage_summary({"sluice.kind": "batch"})
    stream.assert_exact(3)


def test_maintenance_that_moved_main_is_no_later_writer(stream: Stream) -> None:
    writer = stream.writer()
    writer.acquire()
    writer.stage_summary({"sluice.kind": "batch"})
    commit(writer.table, {"maintenance": "a test"})
    with raising(ConcurrentCommit):
        writer.check_lease()
    with raising(ConcurrentCommit):
        writer._publish(1)
    assert "maintenance" in next(writer.table.snapshots(MAIN)).summary, "it is not taken back"
    stop = threading.Event()
    stop.set()
    stream.consume(writer, writer.acquire()).until(stop)


def forget(stream: Stream, table: str) -> None:
    """As a catalog that was lost, or restored to before the table; its files stay."""
    with closing(Lake.open(stream.platform)) as lake:
        lake.catalog.drop_table(table)


def test_a_table_that_the_catalog_lost_is_not_made_again_and_can_be_registered(stream: Stream) -> None:
    record = StructType([StructField("text", StringType())])
    stream.send(3)
    stream.run(stream.writer()).query.stop()
    newest = stream.metadata_location()
    forget(stream, stream.spec.table)
    with raising(TableLost, stream.spec.table, newest, "register"):
        tables.ensure(stream.spark, stream.spec, record)
    with closing(Lake.open(stream.platform)) as lake:
        assert lake.location(stream.spec.table) is None
        # As in docs/operating.md.
        lake.catalog.register_table(stream.spec.table, newest)
    tables.ensure(stream.spark, stream.spec, record)
    stream.send(2)
    stream.run(stream.writer()).query.stop()
    stream.assert_exact(5)


def test_a_table_that_the_ledger_knows_is_neither_made_again_nor_another_one(stream: Stream) -> None:
    """Without a file that would tell, by the consumer's own rights."""
    airflow, name = stream.services.on(stream.catalog, "airflow"), stream.spec.name
    record, both = (
        StructType([StructField("text", StringType())]),
        (stream.spec.table, stream.spec.quarantine_table),
    )

    def check() -> None:
        known_tables.check(stream.spark, stream.platform, name, *both)

    check()
    stream.send(3)
    stream.run(stream.writer()).query.stop()
    check()
    with closing(Lake.open(airflow)) as lake:
        tables_of_ledger = KnownTables(lake, History(connect(airflow.s3), airflow.lake.ledger, name))
        tables_of_ledger.note(*both)
        first = lake.table_uuid(stream.spec.table)
        empty = lake.table(stream.spec.table).metadata.metadata_log[0].metadata_file
    check()
    stream.restore_catalog(empty)
    with raising(TableLost, first, "no snapshot"):
        check()
    forget(stream, stream.spec.table)
    with raising(TableLost, "metadata.json", "not in the catalog", "Table lost by the catalog"):
        check()
    prefix = f"lake/raw/{name}/"
    for page in stream.services.minio.get_paginator("list_objects_v2").paginate(
        Bucket="warehouse", Prefix=prefix
    ):
        for found in page.get("Contents", []):
            stream.services.minio.delete_object(Bucket="warehouse", Key=found["Key"])
    with raising(TableLost, first):
        check()
    # Without its files a new one could be made, by whatever program.
    tables.ensure(stream.spark, stream.spec, record)
    with raising(TableReplaced, first, "Table replaced by another one"):
        check()


def test_a_creation_that_was_killed_before_its_commit_can_be_made_again(stream: Stream) -> None:
    table = f"{stream.spec.table}_other"
    tables.create(stream.spark, table, ["text STRING"])
    forget(stream, table)
    tables.create(stream.spark, table, ["text STRING"])
    stream.spark.sql(f"INSERT INTO lake.{table} VALUES ('a')")
    tables.create(stream.spark, table, ["text STRING"])
    forget(stream, table)
    with raising(TableLost, table):
        tables.create(stream.spark, table, ["text STRING"])
