"""A table that is partitioned by a column: what proves a batch is read back from its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common.consumer.writer import StreamWriter, VerificationFailed
from spark_jobs.common.lake.written.added_file import AddedFile
from tests.support.lakehouse import PARTITIONS, Stream, accepting
from tests.support.services import Services

TEXTS = ["a", "b", "c"]
_numbers = count()


@pytest.fixture
def stream(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Stream]:
    services.minio, services.postgres  # noqa: B018
    made = Stream(spark, services, f"partitioned_{next(_numbers)}", str(tmp_path), by=("text",))
    yield made
    made.stop()


def send(stream: Stream, each: int) -> None:
    """So many records into each partition, their texts in turn."""
    values = [TEXTS[number % len(TEXTS)].encode() for number in range(each)]
    stream.services.send(stream.spec.topic.name, dict.fromkeys(range(PARTITIONS), values))


class Kept(StreamWriter):
    """Keeps the files of each batch that it publishes."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.kept: list[list[AddedFile]] = []

    def batch(self, records: DataFrame, batch_id: int) -> None:
        before = self.published
        super().batch(records, batch_id)
        if self.published != before:
            self.kept.append(self.table.added_files(self.published))


def test_a_batch_has_one_file_a_value_and_is_verified_from_what_they_hold(stream: Stream) -> None:
    writer = stream.writer(Kept)
    assert isinstance(writer, Kept)
    send(stream, 30)
    running = stream.run(writer)
    send(stream, 9)
    running.query.processAllAvailable()
    stream.assert_exact(39)
    assert {len(batch) for batch in writer.kept} == {len(TEXTS)}
    # What is sent meanwhile may come in more batches than one, each of fewer partitions.
    assert not any(file.stats.partition_lower == file.stats.partition_upper for file in writer.kept[0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.where("_kafka_offset != 7"), r"2 gaps \(0=\[7,8\)"),
        (
            lambda rows: rows.union(rows.where("_kafka_partition = 1 and _kafka_offset = 4")),
            r"1 duplicates \(1=\[4,5\)",
        ),
        (
            # As many rows as there should be: only reading them tells.
            lambda rows: rows.withColumn(
                "_kafka_offset",
                F.when(F.expr("_kafka_partition = 0 and _kafka_offset = 3"), 2).otherwise(
                    F.col("_kafka_offset")
                ),
            ),
            r"1 gaps \(0=\[3,4\)\), 1 duplicates \(0=\[2,3\)",
        ),
    ],
)
def test_what_the_files_do_not_hold_once_is_not_published(
    stream: Stream, change: Callable[[DataFrame], DataFrame], said: str
) -> None:
    writer = stream.writer()
    # As by a function that decodes to other rows than there are records.
    writer.rows_of = stream.rows_of(lambda rows: change(accepting(rows)))
    send(stream, 12)
    with pytest.raises(VerificationFailed, match=said):
        stream.await_end(stream.consume(writer, writer.acquire()))
    assert stream.record_offsets() == []
