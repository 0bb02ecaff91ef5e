"""Results of a query as records of a compacted topic, keyed, each with a version."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from sluice.model.spec import query as queries
from sluice.model.spec.platform import Kafka
from sluice.model.spec.query import VERSION, Query
from spark_jobs.common.kafka.keys import key_part, key_text
from spark_jobs.common.sinks.transactions import Record, Transactions


class KafkaSink:
    """**Exactly once**, for readers of what is committed (``isolation.level=read_committed``).

    A batch is one transaction: its records are there all or not at all, and a batch that is there is not
    written again. A record's key is ``query.key_text`` of the result's keys; its value is JSON with the keys,
    the measures and ``version``, the number of the batch that gave it. All results of one value of
    ``Query.group_by`` are in one partition, their versions ascending.

    For every reader: **of a key, the record with the highest version is the right one**, also where it reads
    records twice or what is not committed. With mode ``update`` a batch holds the groups that it changed,
    with ``complete`` all of them; so in both the newest record of each key, whatever batch it is of, is the
    whole result. The topic is compacted: it keeps that record for ever, and forgets earlier ones some time.

    A zombie is fenced by Kafka, and a lower epoch is refused. While the sink waits for Kafka, the query does.
    The password is in no message.
    """

    def __init__(
        self,
        stream: str,
        query_name: str,
        query: Query,
        sink: queries.Sink,
        kafka: Kafka,
        stop: threading.Event,
        patience: float = 120.0,
    ) -> None:
        """``patience``: seconds for which a batch is tried again; ``stop`` ends them early."""
        self.name = sink.name
        self._query = query
        self._partitions = sink.partitions
        self._transactions = Transactions(
            kafka, stream, query_name, sink.topic, sink.partitions, stop, version_of, patience
        )

    def open(self, epoch: int) -> int | None:
        """See base.Sink. Raises Fenced, LookupError where the topic is missing, SinkWriteFailed where Kafka
        does not answer for ``patience`` seconds or refuses."""
        return self._transactions.open(epoch)

    def write(self, batch: int, rows: DataFrame) -> bool:
        """See base.Sink, and :meth:`enter` for what it raises. One Spark job for each partition of ``rows``;
        the driver holds one of them at a time, so many small ones are better than few large ones."""
        records = self._records(batch, rows)

        def anew() -> Iterator[Record]:
            for row in records.toLocalIterator():
                yield row[0], bytes(row[1], "utf-8"), bytes(row[2], "utf-8")

        return self._transactions.write(batch, anew)

    def close(self) -> None:
        self._transactions.close()

    def _records(self, batch: int, rows: DataFrame) -> DataFrame:
        """Partition, key and value of each row."""
        by = key_text(rows.schema, self._query.group_by)
        value = [_json_ready(rows, column) for column in (*self._query.keys, *self._query.aggregates)]
        return rows.select(
            # Of the declared number of partitions: a topic that has more keeps its keys where they are.
            (F.crc32(F.encode(by, "utf-8")) % self._partitions).cast("int").alias("partition"),
            key_text(rows.schema, self._query.keys).alias("key"),
            F.to_json(
                F.struct(*value, F.lit(batch).cast("long").alias(VERSION)), {"ignoreNullFields": "false"}
            ).alias("value"),
        )


def _json_ready(rows: DataFrame, column: str) -> Column:
    """Moments and dates as the key has them; all else as JSON has it."""
    moment = isinstance(rows.schema[column].dataType, TimestampType | TimestampNTZType | DateType)
    return key_part(rows.schema, column).alias(column) if moment else F.col(column)


def version_of(value: bytes) -> int:
    """The version in a record's value. Raises ValueError where there is none."""
    try:
        found: Any = json.loads(value)[VERSION]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"a record {value!r:.100} has no version; is the topic the query's alone?"
        ) from error
    if not isinstance(found, int):
        raise ValueError(
            f"a record's version is {found!r}; it must be a number. Is the topic the query's alone?"
        )
    return found
