"""The rows of a batch: Kafka's records, decoded, with their offsets and the identity of their source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.core.offsets.quarantine import WITHHELD_REASON
from sluice.core.tables.records import FROM_KAFKA, IDENTITY, KAFKA_COLUMNS
from spark_jobs.common.consumer.readable import is_readable_time, unreadable
from spark_jobs.common.kafka.keys import is_withheld, with_identity
from spark_jobs.common.spark.session import KAFKA_RECORD

log = logging.getLogger(__name__)

# Kafka's columns (`_kafka_…`, `key`, `value`, `headers`) -> the same with the decoded `record`, and with the
# `reason` why it is malformed (or null).
Decode = Callable[[DataFrame], DataFrame]


def decoded_rows(records: DataFrame, decode: Decode) -> DataFrame:
    """The records of Spark's Kafka source with ``record``, ``reason``, record offsets and identity; whole,
    for the quarantine.

    A record with a value that readers of the table cannot read has a reason, too. Also good records that were
    sent to be withheld are good here: see :func:`without_withheld`.
    """
    identified = with_identity(
        records.select(
            F.col("topic").alias("_kafka_topic"),
            *(F.col(source).alias(name) for name, source in FROM_KAFKA.items()),
        )
    )
    decoded = decode(identified).drop("_kafka_topic")
    kind, time = decoded.schema["record"].dataType, F.col("_kafka_timestamp")
    assert isinstance(kind, StructType)
    readable = _rejected(decoded, *unreadable(F.col("record"), kind))
    in_range = is_readable_time(time)
    beyond = F.concat(
        F.lit("its timestamp in Kafka is beyond what can be read: "),
        F.coalesce(time.cast("string"), F.lit("null")),
    )
    # Null where it cannot be read, as the quarantine can be then.
    return _rejected(readable, ~in_range, beyond).withColumn("_kafka_timestamp", F.when(in_range, time))


def _rejected(rows: DataFrame, wrong: Column, why: Column) -> DataFrame:
    """Give the good ones of the rows that are ``wrong`` a reason (never null).

    With a condition of its own, which is all that is left of it if only the good rows are asked for.
    """
    reason = F.col("reason")
    return rows.withColumn("reason", F.when(reason.isNotNull() | wrong, F.coalesce(reason, why)))


def without_withheld(rows: DataFrame, published: Collection[str] = ()) -> DataFrame:
    """Decoded rows, of which those that were sent to be withheld have that as their ``reason``, but for those
    of the ``published`` sources (ids)."""
    chosen = is_withheld() & ~F.col("_source_id").isin(sorted(published)) if published else is_withheld()
    return _rejected(rows, chosen, F.lit(WITHHELD_REASON))


def is_good() -> Column:
    """Whether a decoded row is loaded; the others are quarantined."""
    return F.col("reason").isNull()


def table_rows(rows: DataFrame) -> DataFrame:
    """Decoded rows as the stream's table has them."""
    return rows.select("record.*", *KAFKA_COLUMNS, *IDENTITY)


def warm_up(spark: SparkSession, decode: Decode) -> None:
    """Plan and run on no records what a batch does with its own, so that Java has loaded and compiled it.

    For a thread beside the start, which waits for the catalog and for Kafka. Never raises: the first batch
    finds the same error, and names it.
    """
    try:
        none = spark.createDataFrame(spark.sparkContext.emptyRDD(), KAFKA_RECORD)
        table_rows(without_withheld(decoded_rows(none, decode)).where(is_good()).coalesce(1)).collect()
    except Exception as error:  # also what a stream's own decode raises
        # Without its text: Airflow shows the last error in the log as the reason why a process ended, and a
        # Java error's text is asked of the JVM.
        log.warning("not warmed up, the first batch takes longer (%s)", type(error).__name__)
