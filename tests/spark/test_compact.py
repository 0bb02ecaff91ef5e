"""Compaction on real services: a bucket, a catalog, a report, and a consumer that runs meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType

from local.services import postgres
from local.services import streams as stream_programs
from local.services.minio import ROOT_USER
from local.stack.stack import wait_until
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import Head
from sluice.clients.lake.snapshots import rewrites as compaction
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import ENTRY_POINT
from sluice.core.tables.batches import Snapshot
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.storage import REWRITE_ID
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake import clock, tables
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.writer_lease import run_with_lease
from spark_jobs.common.maintenance.compact import compact
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_files import CommitConflict
from spark_jobs.common.maintenance.staged_rewrite import StagedRewrite
from spark_jobs.common.spark.session import catalog_options
from tests.support.changes import Change, Changes
from tests.support.lakehouse import Stream
from tests.support.raising import raising
from tests.support.services import Services

# Days of Changes: the second one begins an hour after its BEGIN.
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
HOUR = 3600
SECONDS = 240
Partition = tuple[date, str]

_numbers = count()


@pytest.fixture
def changes(spark: SparkSession, services: Services) -> Changes:
    services.minio, services.postgres  # noqa: B018
    return Changes(spark, services, f"compact_{next(_numbers)}")


def publish_three(changes: Changes) -> None:
    """Batches with rows of two servers on the first date, of a third in one of them, and of the second
    date."""
    for number in range(3):
        few = [Change(number, "Ann", server="a"), Change(5, None, server="b"), Change(HOUR + number)]
        changes.publish([*few, Change(9, "Cy", server="c")] if number == 1 else few)


def files(spark: SparkSession, table: str) -> dict[Partition, list[str]]:
    """Partition -> the files that ``main`` has there."""
    found: dict[Partition, list[str]] = {}
    for partition, path in spark.sql(f"SELECT partition, file_path FROM {table}.files").collect():
        found.setdefault((partition[0], partition[1]), []).append(path)
    return found


def counts(spark: SparkSession, table: str) -> dict[Partition, int]:
    return {partition: len(paths) for partition, paths in files(spark, table).items()}


def rows(changes: Changes) -> list[str]:
    return sorted(str(row) for row in changes.spark.table(changes.table).collect())


def newest(changes: Changes) -> Snapshot:
    return next(changes.source().snapshots(MAIN))


def head(changes: Changes) -> Head:
    return Lake.open(changes.platform).heads(changes.spec.table)[changes.spec.table]


def bucket(services: Services) -> tuple[set[tuple[str, str]], int]:
    """The keys and versions that there are, and how many delete markers."""
    found, markers = set(), 0
    for page in services.minio.get_paginator("list_object_versions").paginate(Bucket="warehouse"):
        found |= {(version["Key"], version["VersionId"]) for version in page.get("Versions", [])}
        markers += len(page.get("DeleteMarkers", []))
    return found, markers


def meanwhile(do: Callable[[], None]) -> type[StagedRewrite]:
    """A rewrite that does something before its publish."""

    class Meanwhile(StagedRewrite):
        def publish(self, properties: Mapping[str, str]) -> None:
            do()
            super().publish(properties)

    return Meanwhile


class AnswerLost(StagedRewrite):
    """Its update of the catalog is repeated as if it had not been made."""

    def _swap(self, transaction: Any) -> None:
        super()._swap(transaction)
        super()._swap(transaction)


class Losing(StagedRewrite):
    """Leaves a file that was written out of what would be published."""

    def _removed_and_added(self) -> tuple[list[Any], list[Any]]:
        removed, added = super()._removed_and_added()
        return removed, added[1:]


def test_closed_dates_get_one_file_a_partition_with_the_same_rows(
    changes: Changes, services: Services
) -> None:
    """Also to a reader without Spark, and a second time there is nothing to do."""
    publish_three(changes)
    before, base, (objects, earlier) = rows(changes), head(changes), bucket(services)
    alone = files(changes.spark, changes.table)[FIRST, "c"]
    assert counts(changes.spark, changes.table)[FIRST, "a"] == 3

    assert compact(changes.spark, changes.spec.table, SECOND)
    assert rows(changes) == before
    there = files(changes.spark, changes.table)
    assert {partition: len(paths) for partition, paths in there.items()} == {
        (FIRST, "a"): 1, (FIRST, "b"): 1, (FIRST, "c"): 1, (SECOND, "en.wikipedia.org"): 3,
    }  # fmt: skip
    assert there[FIRST, "c"] == alone
    snapshot = newest(changes)
    assert snapshot.summary["operation"] == "replace"
    assert snapshot.summary["maintenance"] == "compaction of the dates before 2026-03-02"
    found = compaction.since(Lake.open(changes.platform).table(changes.spec.table), base)
    assert [(one.problems(), one.removed.files, one.added.files) for one in found] == [
        ([], 6, 2), ([], 0, 0),
    ]  # fmt: skip
    after, markers = bucket(services)
    assert objects < after
    assert markers == earlier, "nothing is deleted"

    assert not compact(changes.spark, changes.spec.table, SECOND)
    assert newest(changes).id == snapshot.id
    assert bucket(services)[0] == after


@pytest.mark.exhaustive
def test_a_rewrite_is_named_by_the_table_in_its_own_commit(changes: Changes) -> None:
    """Also one that publishes when its run has ended: what deletes files asks for its verification."""

    def named() -> Rewrites:
        return Rewrites.of(Lake.open(changes.platform).table(changes.spec.table).properties)

    publish_three(changes)
    with raising(RowsDiffer):
        compact(changes.spark, changes.spec.table, SECOND, rewrite_class=Losing)
    assert named() == Rewrites(), "nothing was published"
    publish = partial(changes.publish, [Change(3, "Ann", server="a")])
    assert compact(changes.spark, changes.spec.table, SECOND, rewrite_class=meanwhile(publish))
    own = newest(changes).summary[REWRITE_ID]
    assert named() == Rewrites(1, (own,))
    late = compaction.since(Lake.open(changes.platform).table(changes.spec.table), head(changes), also=[own])
    assert {(one.id, *one.problems()) for one in late} == {(own,)}
    publish_three(changes)
    assert compact(changes.spark, changes.spec.table, SECOND)
    assert named() == Rewrites(2, (own, newest(changes).summary[REWRITE_ID]))


def test_a_table_without_rows_has_nothing_to_do(changes: Changes) -> None:
    assert not compact(changes.spark, changes.spec.table, SECOND)
    assert changes.source().head(MAIN) is None


def test_files_that_would_not_be_fewer_stay(changes: Changes) -> None:
    """They are small as they are compressed, and would not be."""
    for begin in (0, 4000):
        changes.publish([Change(0, f"{number:0300d}") for number in range(begin, begin + 4000)])
    changes.spark.sql(
        f"ALTER TABLE {changes.table} SET TBLPROPERTIES ('write.parquet.compression-codec' = 'uncompressed', "
        "'write.target-file-size-bytes' = '150000')"
    )
    base = newest(changes).id
    assert not compact(changes.spark, changes.spec.table, SECOND)
    assert newest(changes).id == base


def test_rows_that_were_there_twice_before_are_named_and_nothing_is_published(changes: Changes) -> None:
    publish_three(changes)
    doubled = changes.spark.table(changes.table).where("server_name = 'b' AND title = '2'")
    changes.append(doubled)
    base = newest(changes).id
    with raising(RowsDiffer, "1 rows", "partition 1 offset", "has 2 rows before and 2 after the rewrite"):
        compact(changes.spark, changes.spec.table, SECOND)
    assert newest(changes).id == base


def test_rows_that_are_lost_by_rewriting_are_never_seen(changes: Changes) -> None:
    publish_three(changes)
    before, base = rows(changes), newest(changes).id
    with raising(RowsDiffer, "has 1 rows before and 0 after the rewrite"):
        compact(changes.spark, changes.spec.table, SECOND, rewrite_class=Losing)
    assert (newest(changes).id, rows(changes)) == (base, before)
    assert compact(changes.spark, changes.spec.table, SECOND)
    assert rows(changes) == before


def test_of_two_at_once_one_is_refused(changes: Changes) -> None:
    publish_three(changes)
    before, inner = rows(changes), list[bool]()
    other = meanwhile(lambda: inner.append(compact(changes.spark, changes.spec.table, SECOND)))
    with pytest.raises(CommitConflict):
        compact(changes.spark, changes.spec.table, SECOND, rewrite_class=other)
    assert inner == [True]
    assert rows(changes) == before
    assert counts(changes.spark, changes.table)[FIRST, "a"] == 1
    assert not compact(changes.spark, changes.spec.table, SECOND)


def test_a_rewrite_that_was_suspended_until_its_files_may_be_gone_is_not_published(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_three(changes)
    before = files(changes.spark, changes.table)
    monkeypatch.setattr(clock, "MAX_WRITE_AGE", timedelta(0))
    with raising(CommitConflict, "ago", "run it again"):
        compact(changes.spark, changes.spec.table, SECOND)
    assert files(changes.spark, changes.table) == before


def test_a_commit_whose_answer_is_lost_is_published_and_its_files_stay(
    changes: Changes, services: Services
) -> None:
    """The catalog refuses its repetition, which tells Iceberg that it failed; nothing may be deleted."""
    publish_three(changes)
    before, base, earlier = rows(changes), newest(changes).id, bucket(services)[1]
    root = {".s3.access-key-id": ROOT_USER, ".s3.secret-access-key": services.stack.secrets["minio_root"]}
    mine = catalog_options(changes.platform)
    manager = changes.spark._jsparkSession.sessionState().catalogManager()
    try:
        for key, value in root.items():
            changes.spark.conf.set(f"spark.sql.catalog.{CATALOG}{key}", value)
        manager.reset()
        assert compact(changes.spark, changes.spec.table, SECOND, rewrite_class=AnswerLost)
        assert rows(changes) == before
        assert newest(changes).id != base
        table = changes.source()._table
        table.io().deleteFile(table.currentSnapshot().manifestListLocation())
        assert bucket(services)[1] == earlier, "though these users may delete"
        assert rows(changes) == before
        assert not compact(changes.spark, changes.spec.table, SECOND)
    finally:
        for key in root:
            name = f"spark.sql.catalog.{CATALOG}{key}"
            changes.spark.conf.set(name, mine[name])
        manager.reset()


class Days(Stream):
    """A stream whose records are a day and a server, and whose table is partitioned by them."""

    def __init__(self, spark: SparkSession, services: Services, name: str, root: str) -> None:
        super().__init__(spark, services, name, root)
        self.spec = replace(self.spec, table=f"raw.{name}_days", partition_by=["day", "server"])
        self.table = f"{CATALOG}.{self.spec.table}"
        record = StructType([StructField("day", DateType()), StructField("server", StringType())])
        tables.ensure(spark, self.spec, record)

    def writer(self, kind: Callable[..., StreamWriter] = StreamWriter) -> StreamWriter:
        writer = super().writer(kind)
        writer.rows_of = self.rows_of(_day_and_server)
        return writer

    def send_days(self, *texts: str) -> None:
        """Each into both partitions of the topic."""
        bodies = [text.encode() for text in texts]
        self.services.send(self.spec.topic.name, {0: bodies, 1: bodies})

    def await_each(self, each: int) -> None:
        """Until so many of both are published."""

        def published() -> bool:
            snapshot = next(IcebergTable(self.spark, self.spec.table).snapshots(MAIN), None)
            return snapshot is not None and snapshot.summary.get("total-records") == str(2 * each)

        wait_until(f"{each} records of each partition", published, SECONDS, 0.2)


def _day_and_server(records: DataFrame) -> DataFrame:
    words = F.split(F.col("value").cast("string"), " ")
    record = F.struct(words[0].cast("date").alias("day"), words[1].alias("server"))
    return records.select("*", record.alias("record"), F.lit(None).cast("string").alias("reason"))


@pytest.fixture
def days(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Days]:
    services.minio, services.postgres  # noqa: B018
    made = Days(spark, services, f"days_{next(_numbers)}", str(tmp_path))
    yield made
    made.stop()


@pytest.mark.exhaustive
def test_a_running_consumer_acquires_the_lease_again_and_late_rows_are_there_once(days: Days) -> None:
    """Rows of the closed date come while its files are rewritten, and go in beside them."""
    writer, stop, epoch_starts = days.writer(), threading.Event(), list[dict[int, int]]()
    before: Counter[Partition] = Counter()
    after: Counter[Partition] = Counter()

    def consume() -> None:
        epoch_starts.append(writer.acquire())
        days.consume(writer, epoch_starts[-1]).until(stop)

    def late() -> None:
        before.update(counts(days.spark, days.table))
        days.send_days("2026-03-01 a", "2026-03-01 late")
        days.await_each(8)
        after.update(counts(days.spark, days.table))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_with_lease, writer, consume)
        try:
            for number in range(3):
                days.send_days("2026-03-01 a", "2026-03-02 b")
                days.await_each(2 * number + 2)
            assert compact(days.spark, days.spec.table, SECOND, rewrite_class=meanwhile(late))
            days.assert_exact(8)
            assert before[FIRST, "a"] >= 3
            assert after[FIRST, "late"] >= 1  # a send may come in two batches
            one_for_many = before[FIRST, "a"] - 1
            assert counts(days.spark, days.table) == after - Counter({(FIRST, "a"): one_for_many})
            days.send_days("2026-03-01 late", "2026-03-02 b")
            days.await_each(10)
            days.assert_exact(10)
            assert epoch_starts == [{0: 0, 1: 0}, {0: 8, 1: 8}]
            assert compact(days.spark, days.spec.table, SECOND)
        finally:
            stop.set()
        running.result(SECONDS)
    days.assert_exact(10)
    assert [partition for partition, n in counts(days.spark, days.table).items() if n > 1] == [(SECOND, "b")]
    lake = Lake.open(days.platform)
    rewrites = [one for one in compaction.since(lake.table(days.spec.table), None) if one.added.files]
    assert [(rewrite.problems(), rewrite.added.records) for rewrite in rewrites] == [([], 6), ([], 12)]
    assert [s["epoch"] for s in days.summaries() if s["kind"] == "epoch-start"] == ["2", "1"]


def test_what_the_proof_sees(spark: SparkSession) -> None:
    columns = "_kafka_partition INT, _kafka_offset BIGINT, first STRING, second STRING"

    def against(*after: tuple[int, int, str | None, str | None]) -> str:
        before = spark.createDataFrame([(0, 0, "x", None), (0, 1, None, None), (1, 0, "y", "z")], columns)
        return compare(before, spark.createDataFrame(list(after), columns)).message()

    x, empty, y = (0, 0, "x", None), (0, 1, None, None), (1, 0, "y", "z")
    wrong = "1 rows are missing, duplicated or have other values: partition"
    assert against(y, empty, x) == "3 rows, the same, each once"
    assert against(x, empty) == f"{wrong} 1 offset 0 has 1 rows before and 0 after the rewrite"
    assert against(x, x, empty, y) == f"{wrong} 0 offset 0 has 1 rows before and 2 after the rewrite"
    assert (
        against(x, empty, y, (1, 1, "x", "x"))
        == f"{wrong} 1 offset 1 has 0 rows before and 1 after the rewrite"
    )
    assert against((0, 0, None, "x"), empty, y) == f"{wrong} 0 offset 0 has other values after the rewrite"
    assert against(x, empty, (1, 0, "y", "Z")) == f"{wrong} 1 offset 0 has other values after the rewrite"
    assert against(x, (0, 1, "", None), y) == f"{wrong} 0 offset 1 has other values after the rewrite"
    assert against((0, 1, "x", None), (0, 0, None, None), y).startswith("2 rows")


@pytest.fixture
def submit(services: Services, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the job as Airflow does, in a process group of its own."""
    context = services.stack.context
    stream_programs.prepare(context)
    started: list[subprocess.Popen[str]] = []

    def submit(*arguments: str) -> subprocess.Popen[str]:
        command = [str(Path(context.python).parent / "spark-submit"), str(ENTRY_POINT), "compact", *arguments]
        with (tmp_path / "log").open("w") as log:
            started.append(
                subprocess.Popen(
                    command,
                    env=context.job_environment(),
                    stderr=log,
                    stdout=log,
                    text=True,
                    start_new_session=True,
                )
            )
        return started[-1]

    yield submit
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def holding_the_catalog(services: Services) -> Iterator[Callable[[], list[int]]]:
    """No writer can commit. Gives what says which of PostgreSQL's backends wait to; those are ended at the
    end, before they could."""
    connection = postgres.connect(services.stack.context, "lake")
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("lock table iceberg_tables in exclusive mode")

            def waiting() -> list[int]:
                cursor.execute("select pid from pg_locks where not granted")
                return [pid for (pid,) in cursor.fetchall()]

            yield waiting
            for pid in waiting():
                cursor.execute("select pg_terminate_backend(%s, 5000)", (pid,))
    finally:
        connection.close()


@pytest.mark.exhaustive
def test_a_job_of_a_stream_without_tables_has_nothing_to_do(
    services: Services, submit: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    services.minio, services.postgres  # noqa: B018
    assert submit("nyc_taxi", "--before", "2026-03-02").wait(SECONDS) == 0
    assert (tmp_path / "log").read_text().count("nothing to compact") == 2


def test_a_job_that_dies_in_its_commit_changes_nothing_and_can_be_run_again(
    spark: SparkSession, services: Services, submit: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    services.minio, services.postgres  # noqa: B018
    changes = Changes(spark, services, "wiki_changes")
    try:
        publish_three(changes)
        before, base = rows(changes), newest(changes).id
        with holding_the_catalog(services) as waiting:
            process = submit("wiki_changes", "--before", "2026-03-02")
            wait_until("its commit", lambda: bool(waiting()) or process.poll() is not None, SECONDS, 0.2)
            assert process.poll() is None, (tmp_path / "log").read_text()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert (newest(changes).id, rows(changes)) == (base, before)

        # By the job itself: tests/integration/test_wiki.py.
        assert compact(spark, changes.spec.table, SECOND)
        assert rows(changes) == before
        assert counts(spark, changes.table)[FIRST, "a"] == 1
    finally:
        changes.drop()
