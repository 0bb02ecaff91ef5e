"""Batches that Python alone reads, decodes and writes, on real services."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from pyspark.sql import SparkSession

from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.direct import batch, shuffle
from tests.support.lakehouse import Stream
from tests.support.services import Services

_numbers = count()


# By a decoder, or by the stream's own function in PySpark.
OWN = pytest.mark.parametrize("is_own", [False, True], ids=["decoder", "own"])


@pytest.fixture
def direct(stream: Stream, is_own: bool) -> Stream:
    stream.is_direct, stream.is_own = True, is_own
    return stream


@pytest.fixture
def partitioned(spark: SparkSession, services: Services, tmp_path: Path, is_own: bool) -> Iterator[Stream]:
    """By the first character of its texts."""
    services.minio, services.postgres  # noqa: B018
    name = f"direct_{next(_numbers)}"
    made = Stream(spark, services, name, str(tmp_path), by=("truncate(1, text)",))
    made.is_direct, made.is_own = True, is_own
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
