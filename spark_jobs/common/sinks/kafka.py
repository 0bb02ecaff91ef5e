"""Results of a query as records of a compacted topic, keyed, each with a version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from sluice.model.spec.platform import Kafka
from sluice.model.spec.query import VERSION
from spark_jobs.common.kafka.keys import key_part, key_text
from spark_jobs.common.sinks.base import Target
from spark_jobs.common.sinks.transactions import Record, Transactions


class KafkaSink:
    """A compacted topic, exactly once for readers of committed records (``isolation.level=read_committed``).

    A batch is one transaction. A record's key is ``query.key_text`` of the result's keys; its value is JSON
    with the keys, the aggregates and ``version``, the batch. All results of one value of ``Query.group_by``
    are in one partition, in the order of their versions: of a key, the highest version is right, also for
    readers of duplicates or uncommitted records.
    """

    def __init__(self, target: Target, kafka: Kafka) -> None:
        self.name = target.sink.name
        self._query = target.query
        self._partitions = target.sink.partitions
        self._transactions = Transactions(target, kafka, version_of)

    def open(self, epoch: int) -> int | None:
        """See base.Sink and :meth:`Transactions.open`."""
        return self._transactions.open(epoch)

    def write(self, batch: int, rows: DataFrame) -> bool:
        """See base.Sink. Runs one Spark job per partition of ``rows``, and holds one partition in memory."""
        records = self._records(batch, rows)

        def read_again() -> Iterator[Record]:
            for row in records.toLocalIterator():
                yield row[0], bytes(row[1], "utf-8"), bytes(row[2], "utf-8")

        return self._transactions.write(batch, read_again)

    def close(self) -> None:
        self._transactions.close()

    def _records(self, batch: int, rows: DataFrame) -> DataFrame:
        by = key_text(rows.schema, self._query.group_by)
        value = [_json_ready(rows, column) for column in (*self._query.keys, *self._query.aggregates)]
        return rows.select(
            # Of the declared partitions: after partitions are added, keys stay where they are.
            (F.crc32(F.encode(by, "utf-8")) % self._partitions).cast("int").alias("partition"),
            key_text(rows.schema, self._query.keys).alias("key"),
            F.to_json(
                F.struct(*value, F.lit(batch).cast("long").alias(VERSION)), {"ignoreNullFields": "false"}
            ).alias("value"),
        )


def _json_ready(rows: DataFrame, column: str) -> Column:
    is_time = isinstance(rows.schema[column].dataType, TimestampType | TimestampNTZType | DateType)
    return key_part(rows.schema, column).alias(column) if is_time else F.col(column)


def version_of(value: bytes) -> int:
    """The version in a record's value. Raises ValueError if it is missing."""
    try:
        version: Any = json.loads(value)[VERSION]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"a record {value!r:.100} has no version; is the topic the query's alone?"
        ) from error
    if not isinstance(version, int):
        raise ValueError(
            f"a record's version is {version!r}; it must be a number. Is the topic the query's alone?"
        )
    return version
