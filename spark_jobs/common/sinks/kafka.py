"""Results of a query as records of a compacted topic, keyed, each with a version."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from sluice.model.spec.platform import Kafka
from sluice.model.spec.query import VERSION
from spark_jobs.common.kafka.keys import key_part, key_text
from spark_jobs.common.sinks.base import Target
from spark_jobs.common.sinks.transactions import Record, Transactions


class KafkaSink(Transactions):
    """A compacted topic, exactly once for readers of committed records (``isolation.level=read_committed``).

    A batch is one transaction. A record's key is ``query.key_text`` of the result's keys; its value is JSON
    with the keys, the aggregates and ``version``, the batch. All results of one value of ``Query.group_by``
    are in one partition, in the order of their versions: of a key, the highest version is right, also for
    readers of duplicates or uncommitted records.
    """

    def __init__(self, target: Target, kafka: Kafka) -> None:
        super().__init__(target, kafka)
        self._query = target.query

    def write(self, batch: int, rows: DataFrame) -> bool:
        """See base.Sink. Runs one Spark job per partition of ``rows``, and holds one partition in memory."""
        records = self._records(batch, rows)

        def read_again() -> Iterator[Record]:
            for row in records.toLocalIterator():
                yield row[0], bytes(row[1], "utf-8"), bytes(row[2], "utf-8")

        return self.write_records(batch, read_again)

    def _records(self, batch: int, rows: DataFrame) -> DataFrame:
        by = key_text(rows.schema, self._query.group_by)
        value = [_json_ready(rows, column) for column in (*self._query.keys, *self._query.aggregates)]
        return rows.select(
            # Of the declared partitions: after partitions are added, keys stay where they are.
            (F.crc32(F.encode(by, "utf-8")) % self.partitions).cast("int").alias("partition"),
            key_text(rows.schema, self._query.keys).alias("key"),
            F.to_json(
                F.struct(*value, F.lit(batch).cast("long").alias(VERSION)), {"ignoreNullFields": "false"}
            ).alias("value"),
        )


def _json_ready(rows: DataFrame, column: str) -> Column:
    is_time = isinstance(rows.schema[column].dataType, TimestampType | TimestampNTZType | DateType)
    return key_part(rows.schema, column).alias(column) if is_time else F.col(column)
