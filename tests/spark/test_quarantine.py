"""A batch's rejected records are in the quarantine once, and only if the batch is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.snapshots import rewrites as compaction
from sluice.core.offsets.quarantine import Rejections
from spark_jobs.common.consumer.writer import StreamWriter, VerificationFailed
from spark_jobs.common.kafka import offsets
from spark_jobs.common.lake import clock, source_quarantine
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.quarantine import BatchQuarantine, of_stage
from spark_jobs.common.lake.source_quarantine import SourceQuarantine
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.spark.failures import Fenced, Unrecoverable
from tests.support.lakehouse import Stream
from tests.support.raising import raising


class Interrupted(Exception):
    """Where the process ends, in place of a kill."""


def rejecting(rows: DataFrame) -> DataFrame:
    record = F.struct(F.col("value").cast("string").alias("text"))
    reason = F.when(F.col("value").cast("string").eqNullSafe("bad"), "it is bad").cast("string")
    return rows.select("*", record.alias("record"), reason.alias("reason"))


def picky(stream: Stream) -> StreamWriter:
    """A writer whose schema rejects "bad"; that of ``stream.writer()`` accepts it."""
    writer = stream.writer()
    writer.rows_of = stream.rows_of(rejecting)
    return writer


def send(stream: Stream, *values: bytes) -> None:
    stream.services.send(stream.spec.topic.name, {0: list(values)})


def quarantined(stream: Stream) -> list[int]:
    rows = stream.spark.table(f"lake.{stream.spec.quarantine_table}").where("stage = 'consumer'")
    return sorted(row["_kafka_offset"] for row in rows.collect())


def published(stream: Stream) -> list[int]:
    return [offset for _, offset in stream.record_offsets()]


def branches(stream: Stream) -> list[str]:
    return IcebergTable(stream.spark, stream.spec.quarantine_table).branches()


def interrupt(*_: object) -> None:
    raise Interrupted


def instead_of_publishing(writer: StreamWriter, do: Callable[..., None]) -> None:
    """Between the publish of a batch and that of its rejected records."""
    vars(writer.quarantine)["publish"] = do


def test_a_file_is_written_by_one_task_and_its_rows_are_computed_by_all(spark: SparkSession) -> None:
    records = spark.range(8, numPartitions=4)
    rows = of_stage(cast("Any", SimpleNamespace(table=lambda name: records)), "t", records, "consumer")
    assert rows.rdd.getNumPartitions() == 1
    plan = str(cast("Any", rows)._jdf.queryExecution().executedPlan())
    # A coalesce has one task for everything before it.
    assert ("Exchange SinglePartition" in plan, "Coalesce" in plan) == (True, False)


def test_rejected_records_are_quarantined_once_with_their_bytes(stream: Stream) -> None:
    send(stream, b"good", b"bad", b"bad", b"good")
    writer = picky(stream)
    running = stream.run(writer)
    send(stream, b"bad", b"good")
    running.query.processAllAvailable()
    assert (published(stream), quarantined(stream)) == ([0, 3, 5], [1, 2, 4])
    assert branches(stream) == [MAIN]
    row = stream.spark.table(f"lake.{stream.spec.quarantine_table}").first()
    assert row is not None
    assert (row["stage"], row["reason"], bytes(row["value"])) == ("consumer", "it is bad", b"bad")
    assert writer.state.rejected.count == 3


@pytest.mark.exhaustive
def test_what_an_attempt_rejected_that_was_never_published_does_not_count(stream: Stream) -> None:
    """A newer schema accepts the record: it is in the table, and in the table alone."""
    send(stream, b"good", b"bad")
    writer = picky(stream)
    positions = writer.acquire()

    class Ended(offsets.Topic):
        def id(self) -> str:
            raise Interrupted

    writer.topic = Ended(stream.platform.kafka, stream.spec.topic.name)
    with raising(Interrupted):
        stream.await_end(stream.consume(writer, positions))
    assert branches(stream) == [writer.branch], "it was staged"
    stream.run(stream.writer())
    assert (published(stream), quarantined(stream)) == ([0, 1], [])
    assert branches(stream) == []


def test_a_writer_that_ended_between_the_two_publishes_is_finished_by_the_next(stream: Stream) -> None:
    send(stream, b"good", b"bad")
    writer = picky(stream)
    positions = writer.acquire()
    instead_of_publishing(writer, interrupt)
    with raising(Interrupted):
        stream.await_end(stream.consume(writer, positions))
    assert (published(stream), quarantined(stream)) == ([0], [])
    # One that ends again, between the lease and the quarantine.
    second = picky(stream)
    vars(second.quarantine)["settle"] = interrupt
    with raising(Interrupted):
        second.acquire()
    send(stream, b"bad")
    stream.run(picky(stream))
    assert (published(stream), quarantined(stream)) == ([0], [1, 2])
    assert branches(stream) == [MAIN]


def test_a_zombie_does_not_publish_again_what_its_successor_published(stream: Stream) -> None:
    send(stream, b"good", b"bad")
    zombie = picky(stream)
    positions = zombie.acquire()

    def successor(branch: str, rejected: Rejections) -> None:
        send(stream, b"bad")
        stream.run(picky(stream)).query.stop()
        BatchQuarantine.publish(zombie.quarantine, branch, rejected)

    instead_of_publishing(zombie, successor)
    with pytest.raises((Fenced, ConcurrentCommit)):
        stream.await_end(stream.consume(zombie, positions))
    with raising(Fenced):
        zombie.check_lease()
    assert (published(stream), quarantined(stream)) == ([0], [1, 2])


def rejected_row(stream: Stream) -> DataFrame:
    return stream.spark.createDataFrame(
        [("o", "s", 4, 5, "a,b", "no number")],
        "object string, source_id string, row long, line long, text string, reason string",
    )


def rewrites(stream: Stream) -> list[int]:
    """What the check of compactions takes for one in the quarantine."""
    with closing(Lake.open(stream.platform)) as lake:
        table = lake.table(stream.spec.quarantine_table)
        return [one.snapshot_id for one in compaction.since(table, None)]


@pytest.mark.exhaustive
def test_of_two_producers_of_a_source_one_quarantines_its_row(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, first = SourceQuarantine._publish, list[bool]()

    def raced(self: SourceQuarantine, *given: Any) -> bool:
        if not first:
            first.append(True)
            source_quarantine.quarantine_rows(
                stream.spark, stream.platform, stream.spec, rejected_row(stream), ["s"]
            )
        return publish(self, *given)

    monkeypatch.setattr(SourceQuarantine, "_publish", raced)
    source_quarantine.quarantine_rows(stream.spark, stream.platform, stream.spec, rejected_row(stream), ["s"])
    assert stream.spark.table(f"lake.{stream.spec.quarantine_table}").count() == 1
    assert branches(stream) == [MAIN]


@pytest.mark.exhaustive
def test_a_producer_that_was_suspended_for_hours_publishes_nothing_and_the_next_removes_its_branch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine = f"lake.{stream.spec.quarantine_table}"
    with monkeypatch.context() as patch:
        patch.setattr(clock, "MAX_WRITE_AGE", timedelta(0))
        with raising(ConcurrentCommit, "written", "ago"):
            source_quarantine.quarantine_rows(
                stream.spark, stream.platform, stream.spec, rejected_row(stream), ["s"]
            )
    assert stream.spark.table(quarantine).count() == 0
    (left,) = branches(stream)
    monkeypatch.setattr(source_quarantine, "MAX_WRITE_AGE", timedelta(0))
    source_quarantine.quarantine_rows(stream.spark, stream.platform, stream.spec, rejected_row(stream), ["s"])
    assert stream.spark.table(quarantine).count() == 1
    assert left not in branches(stream)


@pytest.mark.exhaustive
def test_rows_of_the_producer_in_between_are_kept(stream: Stream) -> None:
    send(stream, b"good", b"bad")
    writer = picky(stream)

    def late(branch: str, rejected: Rejections) -> None:
        rows = rejected_row(stream)
        source_quarantine.quarantine_rows(stream.spark, stream.platform, stream.spec, rows, ["s"])
        source_quarantine.quarantine_rows(stream.spark, stream.platform, stream.spec, rows, ["s"])
        BatchQuarantine.publish(writer.quarantine, branch, rejected)

    instead_of_publishing(writer, late)
    stream.run(writer)
    table = stream.spark.table(f"lake.{stream.spec.quarantine_table}")
    assert sorted(row["stage"] for row in table.collect()) == ["consumer", "producer"]
    assert (published(stream), quarantined(stream), branches(stream)) == ([0], [1], [MAIN])
    assert not rewrites(stream)
    stream.run(picky(stream))
    assert quarantined(stream) == [1]


@pytest.mark.exhaustive
def test_a_stream_that_was_restored_alone_quarantines_each_record_once(stream: Stream) -> None:
    send(stream, b"good", b"bad")
    stream.run(picky(stream)).query.stop()
    before = stream.metadata_location()
    send(stream, b"bad", b"good")
    stream.run(picky(stream)).query.stop()
    assert quarantined(stream) == [1, 2]
    stream.restore_catalog(before)
    stream.writer().acquire()
    assert (published(stream), quarantined(stream)) == ([0], [1]), "what the table lost is read again"
    assert not rewrites(stream)
    stream.run(picky(stream))
    assert (published(stream), quarantined(stream)) == ([0, 3], [1, 2])


@pytest.mark.exhaustive
def test_a_quarantine_that_was_restored_alone_is_named(stream: Stream) -> None:
    send(stream, b"bad")
    stream.run(picky(stream)).query.stop()
    before = stream.metadata_location(stream.spec.quarantine_table)
    send(stream, b"bad", b"bad")
    running = picky(stream)
    stream.run(running).query.stop()
    stream.restore_catalog(before, stream.spec.quarantine_table)
    send(stream, b"bad")
    with raising(ConcurrentCommit, stream.spec.quarantine_table, 1, 3):
        three = running.state.rejected
        running.quarantine.stage([], running.branch, three, three.more(1, "b"))
    with raising(Unrecoverable, stream.spec.quarantine_table, "has 1", "stream 3"):
        stream.writer().acquire()


@pytest.mark.exhaustive
def test_a_quarantine_of_another_history_is_named(stream: Stream) -> None:
    send(stream, b"good", b"bad")
    stream.run(picky(stream)).query.stop()
    before = stream.metadata_location()
    send(stream, b"bad")
    stream.run(picky(stream)).query.stop()
    other = stream.metadata_location(stream.spec.quarantine_table)
    stream.restore_catalog(before)
    stream.run(stream.writer()).query.stop()
    assert (published(stream), quarantined(stream)) == ([0, 2], [1])
    stream.restore_catalog(other, stream.spec.quarantine_table)
    # Offset 2 is quarantined there, and published here.
    with raising(Unrecoverable, stream.spec.quarantine_table, "2 rejected records"):
        stream.writer().acquire()


def test_a_batch_whose_rejected_records_are_not_staged_is_not_published(stream: Stream) -> None:
    send(stream, b"good", b"bad")
    writer = picky(stream)
    positions = writer.acquire()
    stage = writer.quarantine.stage

    def none_of_them(files: Sequence[DataFile], *more: Any) -> list[str]:
        return stage([], *more)

    vars(writer.quarantine)["stage"] = none_of_them
    with pytest.raises(VerificationFailed, match="gap"):
        stream.await_end(stream.consume(writer, positions))
    assert (published(stream), quarantined(stream)) == ([], [])
