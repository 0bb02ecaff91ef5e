"""Batches that Python alone reads, decodes and writes, on real services."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.kafka.log import range_reader
from sluice.clients.kafka.log.fetching import LogTruncated
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.decoding.decoder import Decoded, Malformed, OwnRecords, RawHeaders
from sluice.core.tables.batches import batches_of
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.direct import batch, killers, shuffle
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.direct.piece import DecodersDiffer
from spark_jobs.common.lake.data_files import parquet_file
from spark_jobs.common.lake.data_files.fitting import LosesColumns
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from tests.support.lakehouse import Stream, TextDecoder, accepting
from tests.support.services import Services

_numbers = count()


# By a decoder, or by the stream's own function in PySpark.
OWN = pytest.mark.parametrize(
    "is_own", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["decoder", "own"]
)


@pytest.fixture
def direct(stream: Stream, is_own: bool) -> Stream:
    stream.is_own = is_own
    return stream


@pytest.fixture
def partitioned(spark: SparkSession, services: Services, tmp_path: Path, is_own: bool) -> Iterator[Stream]:
    """By the first character of its texts."""
    services.minio, services.postgres  # noqa: B018
    name = f"direct_{next(_numbers)}"
    made = Stream(spark, services, name, str(tmp_path), by=("truncate(1, text)",))
    made.is_own = is_own
    yield made
    made.stop()


@OWN
def test_a_small_batch_is_one_file_and_of_a_large_one_each_task_writes_one(
    direct: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list[int]()
    for small_batch, records_per_task in ((6, 100), (5, 100), (5, 2)):
        monkeypatch.setattr(writer_module, "SMALL_BATCH", small_batch)
        monkeypatch.setattr(batch, "RECORDS_PER_TASK", records_per_task)
        direct.send(3)
        writer = direct.writer()
        direct.run(writer).query.stop()
        files.append(len(writer.table.added_paths(writer.published)))
    assert files == [1, 2, 4]
    direct.assert_exact(9)


@OWN
@pytest.mark.parametrize("small_batch", [100, 1])
def test_a_partition_of_the_table_is_one_file_sorted_by_its_column(
    partitioned: Stream, monkeypatch: pytest.MonkeyPatch, small_batch: int
) -> None:
    """From both partitions of the topic and several pieces, in the driver and by tasks that exchange rows."""
    monkeypatch.setattr(writer_module, "SMALL_BATCH", small_batch)
    monkeypatch.setattr(shuffle, "WAITING_BYTES", 1)
    texts = ["b2", "a1", "ü8", "a0", "b1", "c d/e%"]
    partitioned.services.send(
        partitioned.spec.topic.name, {p: [text.encode() for text in texts] for p in range(2)}
    )
    writer = partitioned.writer()
    partitioned.run(writer).query.stop()
    rows = partitioned.spark.sql(
        f"select partition.text_trunc, file_path, record_count from {CATALOG}.{partitioned.spec.table}.files"
    ).collect()
    assert sorted((row[0], row[2]) for row in rows) == [("a", 4), ("b", 4), ("c", 2), ("ü", 2)]
    assert all(f"/data/text_trunc={quote_plus(value)}/" in path for value, path, _ in rows)
    read = partitioned.spark.table(f"{CATALOG}.{partitioned.spec.table}").where("text like 'a%'").collect()
    assert [row["text"] for row in read] == ["a0", "a0", "a1", "a1"]
    partitioned.assert_exact(6)


@pytest.mark.parametrize("is_own", [False, True], ids=["decoder", "own"])
def test_a_topic_with_transactions_is_published_without_what_was_aborted(direct: Stream) -> None:
    direct.send_transactions()
    writer = direct.writer()
    direct.run(writer).query.stop()
    rows = direct.spark.table(f"{CATALOG}.{direct.spec.table}").where("_kafka_partition = 0")
    found = {row["_kafka_offset"]: row["text"] for row in rows.collect()}
    # Each transaction has three records and a marker.
    assert found == {
        **dict.fromkeys(range(3), "a"),
        **dict.fromkeys(range(8, 11), "c"),
        12: "text",
        13: "text",
    }
    (batch_said, *_) = (said for said in direct.summaries() if said["kind"] == "batch")
    assert json.loads(batch_said["without-record"]) == {
        "control": {"0": [[3, 4], [7, 8], [11, 12]]},
        "aborted": {"0": [[4, 7]]},
    }
    (published,) = batches_of(writer.table.snapshots(MAIN), {})
    assert (published.rows, published.rejected, published.without_record.offsets.count) == (10, 0, 6)
    # The next writer finds the quarantine to hold what was rejected: nothing.
    direct.writer().acquire()
    assert direct.spark.table(f"{CATALOG}.{direct.spec.quarantine_table}").count() == 0


def bad_ones(rows: DataFrame) -> DataFrame:
    reason = F.when(F.startswith("value", F.lit(b"bad")), F.lit("it is bad"))
    return accepting(rows).withColumn("reason", reason)


@pytest.mark.exhaustive
def test_what_tasks_reject_is_one_file_unless_it_is_much(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "SMALL_BATCH", 0)
    writer = stream.writer()
    writer.rows_of = stream.rows_of(bad_ones)
    quarantine = IcebergTable(stream.spark, stream.spec.quarantine_table)
    few = [b"bad", b"good", b"bad"]
    # More than FEW_BYTES in each task.
    much = [b"bad" + b"x" * (1 << 19)] * 3
    for values, files, rejected in ((few, 1, 4), (much, 2, 10)):
        stream.services.send(stream.spec.topic.name, dict.fromkeys(range(2), values))
        # A query that runs meanwhile may read them in two batches.
        stream.run(writer).query.stop()
        quarantine.refresh()
        head = quarantine.head(MAIN)
        assert head is not None
        assert len(quarantine.added_paths(head)) == files
        assert stream.spark.table(f"{CATALOG}.{stream.spec.quarantine_table}").count() == rejected


@pytest.mark.parametrize("says", ["other text", None])
def test_two_decoders_that_differ_publish_nothing(stream: Stream, says: str | None) -> None:
    class Differing(TextDecoder):
        def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
            if says is None:
                raise Malformed("it is bad")
            return {"text": says}

    writer = stream.writer()
    writer.rows_of = DirectSource(stream.spark, stream.platform, stream.spec, OwnRecords(Differing()))
    stream.send(3)
    what = "columns text" if says else r"a row, rejected \(it is bad\) by the reference"
    with pytest.raises(DecodersDiffer, match=f"offset [012]: two decoders give two records .{what}.*Fix: "):
        stream.await_end(stream.consume(writer, writer.acquire()))
    assert stream.record_offsets() == []


def test_a_record_that_ends_its_process_is_quarantined_and_the_stream_goes_on(stream: Stream) -> None:
    driver = os.getpid()

    class Ending(TextDecoder):
        def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
            if b"end" in values.to_pylist():
                assert os.getpid() != driver
                os.kill(os.getpid(), signal.SIGKILL)
            return super().decode(values, headers)

    # A consumer that acquires the lease and publishes nothing: as if its driver had decoded that record.
    stream.writer().acquire()
    writer = stream.writer()
    writer.rows_of = DirectSource(stream.spark, stream.platform, stream.spec, OwnRecords(Ending()))
    values = [b"text", b"end", b"text", b"text"]
    stream.services.send(stream.spec.topic.name, {0: values, 1: [b"text"]})
    running = stream.run(writer)
    assert stream.record_offsets() == [(0, 0), (0, 2), (0, 3), (1, 0)]
    quarantine = f"{CATALOG}.{stream.spec.quarantine_table}"
    (row,) = stream.spark.table(quarantine).collect()
    assert (row["_kafka_partition"], row["_kafka_offset"], row["value"]) == (0, 1, b"end")
    assert row["reason"] == killers.REASON
    stream.send(1)
    running.query.processAllAvailable()
    assert len(stream.record_offsets()) == 6


def test_the_leader_epoch_of_the_newest_record_is_kept(stream: Stream) -> None:
    stream.send(2)
    writer = stream.writer()
    stream.run(writer).query.stop()
    said = next(one for one in stream.summaries() if one["kind"] == "batch")
    assert json.loads(said["leader-epochs"]) == {"0": 0, "1": 0}
    later = stream.writer()
    later.acquire()
    assert later.state.leader_epochs == {0: 0, 1: 0}
    # A log in which another leader wrote that record.
    later.state.leader_epochs = {0: 7, 1: 0}
    stream.send(1)
    with pytest.raises(LogTruncated):
        stream.await_end(stream.consume(later, dict(later.state.ends)))
    assert len(stream.record_offsets()) == 4


def test_a_column_that_another_process_adds_is_null_in_the_next_batch(stream: Stream) -> None:
    """As after a restored catalog: the columns and their ids are those of the table by now."""
    table = f"{CATALOG}.{stream.spec.table}"
    stream.send(1)
    running = stream.run(stream.writer())
    stream.spark.sql(f"ALTER TABLE {table} ADD COLUMN more STRING")
    stream.send(1)
    running.query.processAllAvailable()
    stream.spark.sql(f"ALTER TABLE {table} RENAME COLUMN text TO before")
    stream.spark.sql(f"ALTER TABLE {table} RENAME COLUMN more TO text")
    stream.send(1)
    running.query.processAllAvailable()
    rows = stream.spark.table(table).where("_kafka_partition = 0").orderBy("_kafka_offset").collect()
    assert [(row["before"], row["text"]) for row in rows] == [("text", None)] * 2 + [(None, "text")]


def test_a_table_that_lost_a_column_publishes_nothing(stream: Stream) -> None:
    table = f"{CATALOG}.{stream.spec.table}"
    stream.send(1)
    writer = stream.writer()
    running = stream.run(writer)
    stream.spark.sql(f"ALTER TABLE {table} DROP COLUMN text")
    stream.send(1)
    with pytest.raises(LosesColumns, match="the table lacks text"):
        stream.await_end(running)
    assert len(stream.record_offsets()) == 2


def test_a_text_that_is_too_long_for_a_bound_is_found_by_its_value(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg takes a row group without bounds for one of nulls, and would leave the file out."""
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", 1)
    long = b"z" * 5_000
    # Two pieces, so two groups.
    monkeypatch.setattr(range_reader, "PIECE_BYTES", 1)
    for text in (b"a", long):
        stream.services.send(stream.spec.topic.name, {0: [text]})
    stream.run(stream.writer()).query.stop()
    rows = stream.spark.table(f"{CATALOG}.{stream.spec.table}")
    assert rows.where(F.col("text") == long.decode()).count() == 1
    assert rows.where("text = 'a'").count() == 1
