"""Results of a query as records of a compacted topic, keyed, each with a version."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from sluice.config.platform_sections.kafka import Kafka
from sluice.core.queries.result import VERSION
from spark_jobs.common.kafka.keys import key_part, key_text
from spark_jobs.common.sinks.base import Target
from spark_jobs.common.sinks.transactions import Record, Transactions
from spark_jobs.common.spark import session


class KafkaSink(Transactions):
    """A compacted topic, exactly once for readers of committed records (``isolation.level=read_committed``).

    A batch is one transaction. A record's key is ``result.key_text`` of the result's keys; its value is JSON
    with the keys, the aggregates and ``version``, the batch. All results of one value of ``Query.group_by``
    are in one partition, in the order of their versions: of a key, the highest version is right, also for
    readers of duplicates or uncommitted records. A key that a whole result has not gets a tombstone, whose
    header is its version.
    """

    def __init__(self, target: Target, kafka: Kafka) -> None:
        super().__init__(target, kafka)
        self._query = target.query

    def write(self, batch: int, rows: DataFrame, *, is_whole: bool = False) -> bool:
        """See base.Sink. Runs one Spark job per partition of ``rows``, and holds one partition in memory.

        For a whole result Spark reads the topic, and raises the errors of its Kafka source: the next start
        repeats such a batch.
        """
        records = self._records(batch, rows)

        def read_again() -> Iterator[Record]:
            # First, since Kafka limits the time from the first record to the commit.
            if is_whole:
                for row in self._gone(records).toLocalIterator():
                    yield row[0], bytes(row[1]), None
            for row in records.toLocalIterator():
                yield row[0], bytes(row[1], "utf-8"), bytes(row[2], "utf-8")

        return self.write_records(batch, read_again)

    def _gone(self, records: DataFrame) -> DataFrame:
        """Partition and key of the topic's results whose key is not among ``records``.

        No other writer is there, so all that is committed lies before this transaction. Partitions are apart:
        if more were declared since, a key may have results in two.
        """
        spark = records.sparkSession
        options = session.kafka_source_options(self._kafka) | {"subscribe": self.topic}
        topic = spark.read.format("kafka").options(**options).load()
        has_value = F.max_by(F.col("value").isNotNull(), F.col("offset"))
        newest = topic.groupBy("partition", "key").agg(has_value.alias("has_value"))
        written = records.select(F.encode("key", "utf-8").alias("key"))
        return newest.where("has_value").join(written, "key", "left_anti").select("partition", "key")

    def _records(self, batch: int, rows: DataFrame) -> DataFrame:
        by = key_text(rows.schema, self._query.group_by)
        value = [_json_ready(rows, column) for column in (*self._query.keys, *self._query.aggregates)]
        return rows.select(
            # One of the declared partitions: after partitions are added, keys stay where they are.
            (F.crc32(F.encode(by, "utf-8")) % self.partitions).cast("int").alias("partition"),
            key_text(rows.schema, self._query.keys).alias("key"),
            F.to_json(
                F.struct(*value, F.lit(batch).cast("long").alias(VERSION)), {"ignoreNullFields": "false"}
            ).alias("value"),
        )


def _json_ready(rows: DataFrame, column: str) -> Column:
    is_time = isinstance(rows.schema[column].dataType, TimestampType | TimestampNTZType | DateType)
    return key_part(rows.schema, column).alias(column) if is_time else F.col(column)
