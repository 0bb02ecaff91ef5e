"""Compaction of tables without closed dates, and beside the writers of every table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, timedelta
from itertools import count
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.snapshots import rewrites as compaction
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.offsets.quarantine import Rejections
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.storage import KEEP_REWRITES, REWRITE_ID
from sluice.loads.sources import read
from sluice.loads.verification import checks
from sluice.loads.verification.checks import LoadFiles
from sluice.loads.written.inventory import written_since
from spark_jobs.common.lake import source_quarantine
from spark_jobs.common.lake.iceberg import HOUR_MS, MAIN, IcebergTable
from spark_jobs.common.lake.quarantine import BatchQuarantine
from spark_jobs.common.lake.writer_lease import now_ms
from spark_jobs.common.maintenance import staged_rewrite
from spark_jobs.common.maintenance.compact import compact
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_files import CommitConflict
from spark_jobs.common.maintenance.staged_rewrite import StagedRewrite
from tests.spark.test_quarantine import picky, published, quarantined, send
from tests.support.lakehouse import Stream
from tests.support.raising import raising

ANY = date(2026, 3, 1)
COLUMNS = "number BIGINT, text STRING, others MAP<STRING, STRING>, value BINARY"

_numbers = count()


@pytest.fixture
def table(spark: SparkSession, stream: Stream) -> Iterator[str]:
    """Without partitions; files of less than 75 kB are small, and compressed as they are."""
    name = f"raw.open_{next(_numbers)}"
    spark.sql(
        f"CREATE TABLE {CATALOG}.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version' = '2', "
        "'write.target-file-size-bytes' = '100000', 'write.parquet.compression-codec' = 'uncompressed')"
    )
    yield name
    spark.sql(f"DROP TABLE {CATALOG}.{name}")


def append(spark: SparkSession, table: str, number: int, size: int = 10) -> None:
    """One file of one row."""
    row = (number, os.urandom(size // 2).hex(), {"b": str(number), "a": "x"}, None)
    spark.createDataFrame([row], COLUMNS).coalesce(1).writeTo(f"{CATALOG}.{table}").append()


def files(spark: SparkSession, table: str) -> set[str]:
    return {row[0] for row in spark.sql(f"SELECT file_path FROM {CATALOG}.{table}.files").collect()}


def rewrites(stream: Stream, table: str) -> list[tuple[list[str], int, int]]:
    """Problems and files of the table's compactions, as the check without Spark finds them."""
    with closing(Lake.open(stream.platform)) as lake:
        columns = compaction.without_binary(lake.table(table))
        found = compaction.since(lake.table(table), None, columns)
    return [
        (one.problems(), one.removed.files, one.added.files)
        for one in found
        if one.operation == "replace" and (one.removed.files or one.problems())
    ]


@pytest.mark.exhaustive
def test_a_backlog_is_rewritten_in_parts(
    spark: SparkSession, stream: Stream, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run takes the rest."""
    monkeypatch.setattr(staged_rewrite, "MAX_FILES", 3)
    for number in range(8):
        append(spark, table, number)
    before = sorted(map(str, spark.table(f"{CATALOG}.{table}").collect()))
    assert compact(spark, table, ANY, ())
    assert len(files(spark, table)) == 6
    while compact(spark, table, ANY, ()):
        pass
    assert len(files(spark, table)) < 5
    assert sorted(map(str, spark.table(f"{CATALOG}.{table}").collect())) == before
    assert {(tuple(problems), added) for problems, _, added in rewrites(stream, table)} == {((), 1)}
    assert max(removed for _, removed, _ in rewrites(stream, table)) == 3


class Reading(StagedRewrite):
    """Remembers the files whose rows are compared."""

    compared: list[set[str]]

    def rows(self, files: Sequence[Any]) -> DataFrame:
        found = super().rows(files)
        read = {row[0] for row in found.select(F.input_file_name()).distinct().collect()}
        Reading.compared.append(read)
        return found


@pytest.mark.exhaustive
def test_only_small_files_are_rewritten_and_read(spark: SparkSession, stream: Stream, table: str) -> None:
    append(spark, table, 0, 100_000)
    for number in range(1, 5):
        append(spark, table, number)
    large = next(path for path in files(spark, table) if is_large(spark, table, path))
    assert not compact(spark, table, ANY, ()), "four are not worth a rewrite"
    append(spark, table, 5)
    small, Reading.compared = files(spark, table) - {large}, []
    before = sorted(map(str, spark.table(f"{CATALOG}.{table}").collect()))
    assert compact(spark, table, ANY, (), Reading)
    added = files(spark, table) - {large}
    assert (len(added), Reading.compared) == (1, [small, added])
    assert large in files(spark, table)
    assert sorted(map(str, spark.table(f"{CATALOG}.{table}").collect())) == before
    assert not compact(spark, table, ANY, ())


def is_large(spark: SparkSession, table: str, path: str) -> bool:
    found = spark.sql(f"SELECT file_size_in_bytes FROM {CATALOG}.{table}.files WHERE file_path = '{path}'")
    return bool(found.collect()[0][0] > 75_000)


def ordered(spark: SparkSession, columns: str, *rows: dict[str, Any]) -> DataFrame:
    """Maps with their entries in this order, which Python's dicts lose on their way to Spark."""
    texts = spark.createDataFrame([(json.dumps(row),) for row in rows], "row STRING")
    return texts.select(F.from_json("row", columns).alias("row")).select("row.*")


@pytest.mark.exhaustive
def test_rows_without_offsets_are_compared_as_often_as_they_are(spark: SparkSession) -> None:
    columns = "_kafka_offset BIGINT, text STRING, others MAP<STRING, STRING>"
    a, b = (None, "a", {"x": "1", "y": "2"}), (None, "b", None)
    names = ("_kafka_offset", "text", "others")

    def frame(*rows: tuple[Any, ...]) -> DataFrame:
        return ordered(spark, columns, *(dict(zip(names, row, strict=True)) for row in rows))

    before = frame(a, a, b)

    def against(*rows: tuple[Any, ...]) -> str:
        return compare(before, frame(*rows), ()).message()

    assert against((None, "a", {"y": "2", "x": "1"}), b, a) == "3 rows, the same, each once"
    wrong: list[tuple[list[Any], str]] = [
        ([a, b, b], "2 rows are missing"),
        ([a, b], "has 2 rows before and 1 after"),
        ([a, a, b, b], "has 1 rows before and 2 after"),
        ([a, a, (None, "b", {})], "2 rows are missing"),
        ([a, a, (0, "b", None)], "2 rows are missing"),
        ([a, (None, "a", {"x": "2", "y": "1"}), b], "2 rows are missing"),
    ]
    for other, words in wrong:
        assert words in against(*other), other


def test_maps_inside_other_values_are_compared_in_any_order(spark: SparkSession) -> None:
    columns = "inner STRUCT<some: ARRAY<STRUCT<of: MAP<STRING, MAP<STRING, INT>>>>>"

    def frame(*entries: Any) -> DataFrame:
        return ordered(spark, columns, *({"inner": value} for value in entries))

    def one(of: Any) -> Any:
        return {"some": [{"of": of}, None]}

    before = frame(one({"a": {"x": 1, "y": 2}, "b": None}), one(None), None)
    same = frame(None, one(None), one({"b": None, "a": {"y": 2, "x": 1}}))
    assert compare(before, same, ()).message() == "3 rows, the same, each once"
    other = frame(None, one(None), one({"b": None, "a": {"y": 1, "x": 2}}))
    assert "2 rows are missing" in compare(before, other, ()).message()


@pytest.mark.exhaustive
def test_snapshots_that_expire_during_a_rewrite_do_not_stop_it(
    spark: SparkSession, stream: Stream, table: str
) -> None:
    """A writer lets the one that the rewrite has read expire after two minutes."""
    for number in range(5):
        append(spark, table, number)
    small = files(spark, table)

    class Expiring(StagedRewrite):
        def publish(self, properties: Any) -> None:
            for number in range(5, 8):
                append(spark, table, number)
            expire(spark, table)
            super().publish(properties)

    assert compact(spark, table, ANY, (), Expiring)
    assert len(files(spark, table)) == 1 + 3
    assert not files(spark, table) & small


@pytest.mark.exhaustive
def test_a_batch_that_is_published_while_a_rewrite_commits_stays(
    spark: SparkSession, stream: Stream, table: str
) -> None:
    """Both snapshots are made again on top of it; the manifest of the file that stays lists no removed
    ones, as a query needs that begins there."""
    append(spark, table, 7, 100_000)
    for number in range(5):
        append(spark, table, number)
    spark.sql(f"CALL {CATALOG}.system.rewrite_manifests(table => '{table}', use_caching => false)")

    raced = list[bool]()

    class Raced(StagedRewrite):
        def _rewrite_manifests(self, transaction: Any, properties: Any) -> bool:
            done = super()._rewrite_manifests(transaction, properties)
            if not raced:
                raced.append(True)
                append(spark, table, 5)
            return done

    assert compact(spark, table, ANY, (), Raced)
    assert rewrites(stream, table) == [([], 5, 1)]
    append(spark, table, 6)
    found = IcebergTable(spark, table)
    assert found.streamable_files(next(found.snapshots(MAIN))) == len(files(spark, table)) == 4
    numbers = spark.table(f"{CATALOG}.{table}").select("number").collect()
    assert sorted(row[0] for row in numbers) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_manifests_whose_commit_gets_no_answer_do_not_take_back_what_is_published_meanwhile(
    spark: SparkSession, table: str
) -> None:
    for number in range(3):
        append(spark, table, number)
    spark.sql(f"DELETE FROM {CATALOG}.{table} WHERE number = 0")

    class AnswerLost(StagedRewrite):
        def _swap(self, transaction: Any) -> None:
            super()._swap(transaction)
            append(spark, table, 3)
            super()._swap(transaction)

    assert compact(spark, table, ANY, (), AnswerLost)
    numbers = spark.table(f"{CATALOG}.{table}").select("number").collect()
    assert sorted(row[0] for row in numbers) == [1, 2, 3]


@pytest.mark.exhaustive
def test_a_rewrite_that_is_raced_too_often_is_a_conflict(spark: SparkSession, table: str) -> None:
    for number in range(5):
        append(spark, table, number)

    class Raced(StagedRewrite):
        def _swap(self, transaction: Any) -> None:
            append(spark, table, 5)
            super()._swap(transaction)

    with raising(CommitConflict, table, "5 times", "nothing was published"):
        compact(spark, table, ANY, (), Raced)
    assert len(files(spark, table)) == 5 + 5


def expire(spark: SparkSession, table: str, keep: int = 1, before: int = 2**62) -> None:
    found = IcebergTable(spark, table)
    found.change_refs({}, {}, found.expirable(keep, before))


@pytest.mark.exhaustive
def test_a_compaction_is_kept_for_its_check_though_a_writer_expires_what_is_around_it(
    spark: SparkSession, stream: Stream, table: str
) -> None:
    for number in range(5):
        append(spark, table, number)
    with closing(Lake.open(stream.platform)) as lake:
        head = lake.heads(table)[table]
    assert compact(spark, table, ANY, ())
    for number in range(3):
        append(spark, table, number)
        expire(spark, table, 1, now_ms() + HOUR_MS + 1)
    with closing(Lake.open(stream.platform)) as lake:
        found = compaction.since(lake.table(table), head, ["number", "text"])
    assert [(one.total_before, one.removed.files, one.added.files) for one in found[:2]] == [
        (None, 5, 1), (5, 0, 0),
    ]  # fmt: skip
    assert not [problem for one in found[:2] for problem in one.problems()]
    kept_ms = KEEP_REWRITES // timedelta(milliseconds=1)
    expire(spark, table, 1, now_ms() + kept_ms + HOUR_MS)
    kept = IcebergTable(spark, table)._table.snapshots()
    assert not [snapshot for snapshot in kept if REWRITE_ID in dict(snapshot.summary())]


def test_row_level_deletes_of_others_are_not_overwritten(
    spark: SparkSession, stream: Stream, table: str
) -> None:
    for number in range(5):
        append(spark, table, number)
    spark.sql(f"ALTER TABLE {CATALOG}.{table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")

    class Deleting(StagedRewrite):
        def publish(self, properties: Any) -> None:
            spark.createDataFrame([(number, "x", None, None) for number in (8, 9)], COLUMNS).coalesce(
                1
            ).writeTo(f"{CATALOG}.{table}").append()
            spark.sql(f"DELETE FROM {CATALOG}.{table} WHERE number = 8")
            super().publish(properties)

    with raising(CommitConflict, table, "row-level deletes"):
        compact(spark, table, ANY, (), Deleting)
    assert spark.table(f"{CATALOG}.{table}").count() == 6


def test_a_quarantine_is_compacted_with_the_producers_rows(stream: Stream) -> None:
    """They have no offsets, and two of them may be equal but for their time."""
    name, spec = stream.spec.quarantine_table, stream.spec
    for number in range(5):
        row = ("o", "s", number // 2, 5, "a,b", "no number")
        rows = stream.spark.createDataFrame(
            [row], "object string, source_id string, row long, line long, text string, reason string"
        )
        source_quarantine.quarantine_rows(stream.spark, stream.platform, spec, rows, [])
    before = sorted(map(str, stream.spark.table(f"{CATALOG}.{name}").collect()))
    assert compact(stream.spark, name, ANY, ())
    assert len(files(stream.spark, name)) == 1
    assert sorted(map(str, stream.spark.table(f"{CATALOG}.{name}").collect())) == before
    assert rewrites(stream, name) == [([], 5, 1)]

    class Losing(StagedRewrite):
        def _removed_and_added(self) -> tuple[list[Any], list[Any]]:
            removed, added = super()._removed_and_added()
            return removed[1:], added

    for _ in range(5):
        source_quarantine.quarantine_rows(stream.spark, stream.platform, spec, rows, [])
    with raising(RowsDiffer, "rows before and"):
        compact(stream.spark, name, ANY, (), Losing)


@pytest.mark.exhaustive
@pytest.mark.parametrize("moment", [pytest.param("staged", marks=pytest.mark.exhaustive), "batch published"])
def test_rejected_records_are_quarantined_once_if_the_quarantine_is_compacted_meanwhile(
    stream: Stream, moment: str
) -> None:
    name, writer, done = stream.spec.quarantine_table, picky(stream), list[bool]()
    running = stream.run(writer)
    for _ in range(5):
        send(stream, b"bad", b"good")
        running.query.processAllAvailable()
    assert len(files(stream.spark, name)) == 5
    stage = writer.quarantine.stage

    def rewrite() -> None:
        if not done:
            done.append(compact(stream.spark, name, ANY, ()))

    def staged(*given: Any) -> list[str]:
        paths = stage(*given)
        rewrite()
        return paths

    def publish(branch: str, rejected: Rejections) -> None:
        rewrite()
        BatchQuarantine.publish(writer.quarantine, branch, rejected)

    vars(writer.quarantine)["stage" if moment == "staged" else "publish"] = (
        staged if moment == "staged" else publish
    )
    send(stream, b"bad", b"good")
    running.query.processAllAvailable()
    assert done == [True]
    send(stream, b"bad", b"good")
    running.query.processAllAvailable()
    assert quarantined(stream) == [0, 2, 4, 6, 8, 10, 12]
    assert published(stream) == [1, 3, 5, 7, 9, 11, 13]
    assert len(files(stream.spark, name)) == 3
    assert rewrites(stream, name) == [([], 5, 1)]
    running.query.stop()
    stream.run(picky(stream))
    assert quarantined(stream) == [0, 2, 4, 6, 8, 10, 12], "the next writer finds nothing to settle"


def test_a_load_is_verified_though_its_table_and_quarantine_are_compacted_meanwhile(stream: Stream) -> None:
    """Two of each five small files are of an earlier load, and one comes behind the compaction."""
    spec, writer = stream.spec, picky(stream)
    running = stream.run(writer)
    for _ in range(2):
        send(stream, b"good", b"bad")
        running.query.processAllAvailable()
    with closing(Lake.open(stream.platform)) as lake:
        heads = lake.heads(spec.table, spec.quarantine_table)
    main = {name: head.__dict__ for name, head in heads.items()}
    source = read({"source_id": "s", "start_offsets": {"0": 4, "1": 0}, "main": main})
    for _ in range(3):
        send(stream, b"good", b"bad")
        running.query.processAllAvailable()
    running.query.stop()
    for name in (spec.table, spec.quarantine_table):
        assert compact(stream.spark, name, ANY, ())
        assert len(files(stream.spark, name)) == 1
    send(stream, b"good", b"bad")
    stream.run(picky(stream))
    expected = OffsetRanges.of({0: [(4, 12)]})
    with closing(Lake.open(stream.platform)) as lake:
        load = LoadFiles.plan(lake, spec, [source], expected)
        check = checks.check_offsets(load)
        assert (check.verification.is_ok, check.quarantined.count) == (True, 4), check.message()
        for name, head in heads.items():
            objects = {one.uri for one in written_since(lake, name, head, is_restored=False).objects}
            assert len(files(stream.spark, name) & objects) == 2, "the compacted one, and that of the batch"
